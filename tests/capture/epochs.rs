//! Epochs: what raises them, and that no number ever comes again.

use expect_test::expect;
use sqlx::Connection;
use tilewake::postgres::layers;

use crate::world::{World, layer};

async fn epoch(world: &World) -> i64 {
    let layer = layers::find(&world.pool, &layer("t", "t").name).await.unwrap();
    layer.unwrap().epoch.0
}

#[tokio::test]
async fn adding_a_layer_raises_its_first_epoch() {
    let world = World::with_points("").await;
    let now: i64 = world
        .value("SELECT extract(epoch FROM clock_timestamp())::bigint")
        .await;
    assert!((now - 60..=now).contains(&(epoch(&world).await / 1000)));
    let row: (String, i64, i64) = sqlx::query_as("SELECT feature_id, epoch, feature_version FROM tilewake.outbox")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert_eq!(row, (String::new(), epoch(&world).await, 0));
}

#[tokio::test]
async fn truncating_raises_the_epoch_and_a_reload_starts_in_the_new_one() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    let before = epoch(&world).await;
    world
        .run(
            "UPDATE t SET name = 'b';
             UPDATE t SET name = 'c';
             TRUNCATE t;
             INSERT INTO t VALUES (1, 'd', 'SRID=4326;POINT(2 2)'), (2, 'd', 'SRID=4326;POINT(3 3)');
             BEGIN;
             TRUNCATE t;
             INSERT INTO t VALUES (1, 'e', 'SRID=4326;POINT(4 4)');
             COMMIT;",
        )
        .await;
    assert!(epoch(&world).await > before);
    assert_eq!(world.n_epochs().await, 3);
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1
        1 v1→3 updated a 1 1 → 1 1
        1 v3→4 created b nothing → 2 2 epoch+1
        1 v4→5 created b nothing → 4 4 epoch+2
        2 v0→1 created b nothing → 3 3 epoch+1
    "]]
    .assert_eq(&world.edits().await);
}

#[tokio::test]
async fn truncating_a_table_of_many_partitions_raises_the_epoch_once() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326)) PARTITION BY HASH (id);
         CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);",
    )
    .await;
    world.add("t").await;
    world.run("TRUNCATE t;").await;
    assert_eq!(world.n_epochs().await, 2);
    world.run("TRUNCATE t1;").await;
    assert_eq!(world.n_epochs().await, 3);
}

/// Two transactions that do not see each other's epoch: neither may wait, and both layers' purges must be told apart.
#[tokio::test]
async fn epochs_raised_at_the_same_time_differ_and_nobody_waits() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326)) PARTITION BY HASH (id);
         CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);",
    )
    .await;
    world.add("t").await;
    let mut sessions = [world.session().await, world.session().await];
    let mut transactions = Vec::new();
    for (i, session) in sessions.iter_mut().enumerate() {
        let mut transaction = session.begin().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
            "SET LOCAL lock_timeout = '1s'; TRUNCATE t{i}"
        )))
        .execute(&mut *transaction)
        .await
        .unwrap();
        transactions.push(transaction);
    }
    for transaction in transactions {
        transaction.commit().await.unwrap();
    }
    let n: i64 = world
        .value("SELECT count(DISTINCT epoch) FROM tilewake.outbox WHERE event_type = 'epoch'")
        .await;
    assert_eq!(n, 3);
}

#[tokio::test]
async fn an_epoch_is_higher_than_all_before_it_whatever_the_clock_says() {
    let world = World::with_points("").await;
    let ahead: i64 = world
        .value(
            "INSERT INTO tilewake.layer_epoch (layer, epoch)
             VALUES ('t', extract(epoch FROM now() + interval '1 year')::bigint * 1000 + 998) RETURNING epoch",
        )
        .await;
    let mut last = ahead;
    for _ in 0..5 {
        let raised: i64 = world.value("SELECT tilewake.raise_epoch('t')").await;
        assert!(raised > last);
        last = raised;
    }
}

/// It sees no epoch of the layer, and must not fail for that.
#[tokio::test]
async fn a_transaction_older_than_the_layer_can_write_to_it() {
    let world = World::new("CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));").await;
    let mut session = world.session().await;
    let mut old = session
        .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ")
        .await
        .unwrap();
    sqlx::query("SELECT 1").execute(&mut *old).await.unwrap();
    world.add("t").await;
    sqlx::query("INSERT INTO t VALUES (1, 'SRID=4326;POINT(1 1)')")
        .execute(&mut *old)
        .await
        .unwrap();
    old.commit().await.unwrap();
    world.run("UPDATE t SET geom = 'SRID=4326;POINT(2 2)';").await;
    let epochs: Vec<(i64, i64)> =
        sqlx::query_as("SELECT epoch, base_version FROM tilewake.outbox WHERE feature_version > 0 ORDER BY id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(epochs, [(0, 0), (epoch(&world).await, 1)]);
}

/// A feature's epochs never fall, also when a transaction with an old snapshot edits it last.
#[tokio::test]
async fn an_old_snapshot_does_not_bring_an_old_epoch_back() {
    let world = World::with_points("(1, 'a', NULL), (2, 'a', NULL)").await;
    let mut session = world.session().await;
    let mut old = session
        .begin_with("BEGIN ISOLATION LEVEL READ COMMITTED")
        .await
        .unwrap();
    sqlx::query("UPDATE t SET name = 'b' WHERE id = 1")
        .execute(&mut *old)
        .await
        .unwrap();
    let raised: i64 = world.value("SELECT tilewake.raise_epoch('t')").await;
    sqlx::query("UPDATE t SET name = 'c' WHERE id = 1")
        .execute(&mut *old)
        .await
        .unwrap();
    old.commit().await.unwrap();
    let epochs: Vec<i64> =
        sqlx::query_scalar("SELECT epoch FROM tilewake.outbox WHERE feature_id = '1' ORDER BY feature_version")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert!(epochs[0] < epochs[1], "{epochs:?}");
    assert_eq!(epochs[1], raised);
}
