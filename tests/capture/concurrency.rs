//! Many writers at once: none waits or fails because of tilewake, and no version is given twice.

use std::time::Duration;

use futures_util::future::try_join_all;
use sqlx::{Connection, PgConnection, postgres::PgListener};
use tilewake_testbed::postgres::Server;

use crate::world::World;

async fn run(session: &mut PgConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(session).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn versions_are_unique_and_without_gaps_under_eight_writers() {
    const EDITS: i64 = 50;
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL), (3, 'a', NULL)").await;
    let writers = (0..8).map(|writer: i64| {
        let options = world.database.options();
        tokio::spawn(async move {
            let mut session = PgConnection::connect_with(&options).await?;
            for i in 0..EDITS {
                let id = (writer + i) % 3 + 1;
                // Every few edits the row goes and comes back.
                let mut transaction = session.begin().await?;
                if i % 7 == 0 {
                    let gone = sqlx::query("DELETE FROM t WHERE id = $1")
                        .bind(id)
                        .execute(&mut *transaction)
                        .await?;
                    if gone.rows_affected() > 0 {
                        sqlx::query("INSERT INTO t VALUES ($1)")
                            .bind(id)
                            .execute(&mut *transaction)
                            .await?;
                    }
                } else {
                    sqlx::query("UPDATE t SET name = $2 WHERE id = $1")
                        .bind(id)
                        .bind(format!("{writer} {i}"))
                        .execute(&mut *transaction)
                        .await?;
                }
                transaction.commit().await?;
            }
            Ok::<_, sqlx::Error>(())
        })
    });
    for written in try_join_all(writers).await.unwrap() {
        written.unwrap();
    }
    let rows: Vec<(i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT count(*), count(DISTINCT o.feature_version), min(o.feature_version), max(o.feature_version)
         FROM tilewake.outbox o WHERE o.feature_version > 0 GROUP BY feature_id ORDER BY 1",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(rows.len(), 3);
    for (n, n_distinct, first, last) in rows {
        assert_eq!((n_distinct, first, last), (n, 2, n + 1));
    }
    let n_outdated: i64 = world
        .value(
            "SELECT count(*) FROM t FULL JOIN tilewake.feature f ON f.feature_id = t.id::text
             WHERE f.deleted IS DISTINCT FROM (t.id IS NULL)",
        )
        .await;
    assert_eq!(n_outdated, 0);
}

/// The opposite would be a dangerous structure of serializable transactions: two that only insert must both commit.
#[tokio::test]
async fn serializable_writers_do_not_fail_because_of_capture() {
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL)").await;
    let mut a = world.session().await;
    let mut b = world.session().await;
    let serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let mut a = a.begin_with(serializable).await.unwrap();
    let mut b = b.begin_with(serializable).await.unwrap();
    for id in [10, 11, 12, 13] {
        let transaction = if id % 2 == 0 { &mut a } else { &mut b };
        sqlx::query("INSERT INTO t VALUES ($1)")
            .bind(id)
            .execute(&mut **transaction)
            .await
            .unwrap();
        sqlx::query("INSERT INTO t VALUES ($1)")
            .bind(id + 10)
            .execute(&mut **transaction)
            .await
            .unwrap();
    }
    a.commit().await.unwrap();
    b.commit().await.unwrap();
    assert_eq!(
        world
            .value::<i64>("SELECT count(*) FROM tilewake.outbox WHERE feature_version = 1")
            .await,
        8
    );
}

#[tokio::test]
async fn serializable_writers_of_other_rows_of_features_that_were_edited_before_both_commit() {
    let world = World::with_points("").await;
    world
        .run("INSERT INTO t SELECT i FROM generate_series(1, 20) i;\nUPDATE t SET name = 'b';\nANALYZE t;")
        .await;
    let mut a = world.session().await;
    let mut b = world.session().await;
    for session in [&mut a, &mut b] {
        run(session, "SET enable_seqscan = off").await;
    }
    let isolation = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    let mut a = a.begin_with(isolation).await.unwrap();
    let mut b = b.begin_with(isolation).await.unwrap();
    for id in [1, 2, 3, 4] {
        let transaction = if id % 2 == 0 { &mut a } else { &mut b };
        sqlx::query("UPDATE t SET name = 'c' WHERE id = $1")
            .bind(id)
            .execute(&mut **transaction)
            .await
            .unwrap();
    }
    a.commit().await.unwrap();
    b.commit().await.unwrap();
}

#[tokio::test]
async fn repeatable_read_writers_fail_only_where_they_would_without_capture() {
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL)").await;
    let mut session = world.session().await;
    let mut old = session
        .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ")
        .await
        .unwrap();
    sqlx::query("SELECT FROM t").execute(&mut *old).await.unwrap();
    world.run("UPDATE t SET name = 'b' WHERE id = 1;").await;
    sqlx::query("UPDATE t SET name = 'c' WHERE id = 2")
        .execute(&mut *old)
        .await
        .unwrap();
    old.commit().await.unwrap();
    assert_eq!(
        world
            .value::<i64>("SELECT count(*) FROM tilewake.outbox WHERE feature_version = 2")
            .await,
        2
    );
}

/// Two writers of the same rows in the opposite order within their statements: sorted, or they would deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_many_rows_do_not_deadlock_over_the_versions() {
    let world = World::new(
        "CREATE TABLE p (id integer PRIMARY KEY, name text, geom geometry(Point, 4326)) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
         INSERT INTO p SELECT i FROM generate_series(1, 300) i;",
    )
    .await;
    world.add("p").await;
    let writers = (0..4).map(|writer| {
        let options = world.database.options();
        tokio::spawn(async move {
            let mut session = PgConnection::connect_with(&options).await?;
            for i in 0..10 {
                sqlx::query(
                    "INSERT INTO p SELECT id, $1 FROM (SELECT id FROM p WHERE id % 2 = $2 ORDER BY id FOR UPDATE) s
                     ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                )
                .bind(format!("{writer} {i}"))
                .bind(writer % 2)
                .execute(&mut session)
                .await?;
            }
            Ok::<_, sqlx::Error>(())
        })
    });
    for written in try_join_all(writers).await.unwrap() {
        written.unwrap();
    }
    assert_eq!(
        world.value::<i64>("SELECT max(version) FROM tilewake.feature").await,
        21
    );
}

/// Ids are taken at insert and seen at commit: whoever looks in between finds the later id first, and the earlier one after.
#[tokio::test]
async fn a_row_may_appear_below_rows_that_were_seen() {
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL)").await;
    let mut session = world.session().await;
    let mut slow = session.begin().await.unwrap();
    sqlx::query("UPDATE t SET name = 'b' WHERE id = 1")
        .execute(&mut *slow)
        .await
        .unwrap();
    world.run("UPDATE t SET name = 'b' WHERE id = 2;").await;
    let seen: Vec<String> = sqlx::query_scalar("SELECT feature_id FROM tilewake.outbox WHERE feature_version > 0")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    assert_eq!(seen, ["2"]);
    slow.commit().await.unwrap();
    let seen: Vec<String> =
        sqlx::query_scalar("SELECT feature_id FROM tilewake.outbox WHERE feature_version > 0 ORDER BY id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(seen, ["1", "2"]);
}

/// Waits for a wake-up that is known to have been sent, or shows that none was: a marker follows on the same channel.
async fn was_woken(world: &World, listener: &mut PgListener) -> bool {
    sqlx::query("SELECT pg_notify('tilewake_outbox', 'marker')")
        .execute(&world.pool)
        .await
        .unwrap();
    let mut n_wakes = 0;
    loop {
        match listener.recv().await.unwrap().payload() {
            "marker" => return n_wakes > 0,
            _ => n_wakes += 1,
        }
    }
}

async fn ask(session: &mut PgConnection) -> String {
    sqlx::query_scalar("SELECT tilewake.try_sleep()")
        .fetch_one(session)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_relay_is_woken_only_while_one_sleeps() {
    let world = World::with_points("").await;
    let mut listener = PgListener::connect_with(&world.pool).await.unwrap();
    listener.listen("tilewake_outbox").await.unwrap();
    let mut relay = world.session().await;

    world.run("INSERT INTO t VALUES (1);").await;
    assert!(!was_woken(&world, &mut listener).await, "nobody sleeps");
    assert_eq!(ask(&mut relay).await, "asleep");
    assert_eq!(
        ask(&mut relay).await,
        "asleep",
        "asking twice must not hold the lock twice"
    );
    world.run("INSERT INTO t VALUES (2);").await;
    assert!(was_woken(&world, &mut listener).await);
    world.run("TRUNCATE t;").await;
    assert!(was_woken(&world, &mut listener).await);
    run(&mut relay, "SELECT tilewake.awake()").await;
    world.run("INSERT INTO t VALUES (3);").await;
    assert!(!was_woken(&world, &mut listener).await, "it is awake again");

    assert_eq!(ask(&mut relay).await, "asleep");
    relay.close().await.unwrap();
    let freed = async {
        while world.value::<bool>("SELECT tilewake.is_asleep(NULL)").await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.unwrap();
    world.run("INSERT INTO t VALUES (4);").await;
    assert!(!was_woken(&world, &mut listener).await, "the sleeper is dead");
}

/// A writer that found relays awake will not notify: no relay may fall asleep before it has committed.
#[tokio::test]
async fn no_relay_falls_asleep_over_a_writer_under_way() {
    let world = World::with_points("").await;
    let mut relay = world.session().await;
    let mut other = world.session().await;
    let mut writer = world.session().await;
    let mut transaction = writer.begin().await.unwrap();
    sqlx::query("INSERT INTO t VALUES (1)")
        .execute(&mut *transaction)
        .await
        .unwrap();
    assert_eq!(ask(&mut relay).await, "busy");
    transaction.commit().await.unwrap();
    assert_eq!(ask(&mut relay).await, "asleep");
    assert_eq!(ask(&mut other).await, "shared");
    run(&mut other, "SELECT tilewake.awake()").await;
    assert_eq!(ask(&mut other).await, "shared", "only the sleeper wakes itself");
}

/// The race itself: relay and writers in every interleaving that a thousand edits come to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_missed() {
    const EDITS: i64 = 400;
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL)").await;
    world.run("UPDATE tilewake.outbox SET published_at = now();").await;
    let writers: Vec<_> = [1, 2]
        .into_iter()
        .map(|id: i32| {
            let options = world.database.options();
            tokio::spawn(async move {
                let mut session = PgConnection::connect_with(&options).await.unwrap();
                for i in 0..EDITS / 2 {
                    sqlx::query("UPDATE t SET name = $2 WHERE id = $1")
                        .bind(id)
                        .bind(i.to_string())
                        .execute(&mut session)
                        .await
                        .unwrap();
                    if i % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    let mut listener = PgListener::connect_with(&world.pool).await.unwrap();
    listener.listen("tilewake_outbox").await.unwrap();
    let mut relay = world.session().await;
    let claim = "UPDATE tilewake.outbox SET published_at = now() WHERE published_at IS NULL";
    let (mut n_published, mut n_sleeps) = (0, 0);
    while n_published < EDITS.unsigned_abs() {
        n_published += sqlx::query(claim).execute(&mut relay).await.unwrap().rows_affected();
        if ask(&mut relay).await != "asleep" {
            continue;
        }
        let found = sqlx::query(claim).execute(&mut relay).await.unwrap().rows_affected();
        n_published += found;
        if found == 0 && n_published < EDITS.unsigned_abs() {
            n_sleeps += 1;
            // Without a poll to back it up: a missed wake-up ends the test.
            tokio::time::timeout(Duration::from_mins(1), listener.recv())
                .await
                .expect("a wake-up was missed")
                .unwrap();
        }
        run(&mut relay, "SELECT tilewake.awake()").await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(n_published, EDITS.unsigned_abs());
    assert!(n_sleeps > 0, "the relay never slept");
}

/// Prepared transactions cannot notify: where they are allowed, wake-ups are off, and on where somebody insists.
#[tokio::test]
async fn transactions_can_be_prepared() {
    let server = Server::private(&[("max_prepared_transactions", "5")]).unwrap();
    let world = World::on(
        &server,
        "CREATE TABLE t (id integer PRIMARY KEY, name text, geom geometry(Point, 4326));",
    )
    .await;
    world.add("t").await;
    let mut relay = world.session().await;
    assert_eq!(ask(&mut relay).await, "off");
    world
        .run(
            "BEGIN;
             INSERT INTO t VALUES (1, 'a', 'SRID=4326;POINT(1 1)');
             TRUNCATE t;
             PREPARE TRANSACTION 'p';
             COMMIT PREPARED 'p';",
        )
        .await;
    assert_eq!(
        world
            .value::<i64>("SELECT count(*) FROM tilewake.outbox WHERE feature_version = 1")
            .await,
        1
    );
    run(&mut relay, "SET tilewake.wake_ups = 'on'").await;
    assert_eq!(ask(&mut relay).await, "asleep");
}
