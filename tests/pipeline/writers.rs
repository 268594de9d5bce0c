//! Many writers at once: no edit is lost, whatever order they commit in.

use std::{sync::Arc, time::Duration};

use sqlx::Connection as _;
use tilewake::relay::RelaySettings;

use crate::world::{World, settings};

#[tokio::test(flavor = "multi_thread")]
async fn eight_writers_with_random_pauses_lose_nothing() {
    let world = Arc::new(World::new().await);
    let direct = Arc::new(world.direct().await);
    let relays = [world.relay(Arc::clone(&direct)), world.relay(direct)];
    let seed = fastrand::u64(..);
    let writers: Vec<_> = (0..8)
        .map(|writer| tokio::spawn(write(Arc::clone(&world), seed.wrapping_add(writer), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    world.drained().await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(world.ledger_disagreements().await, 0, "seed {seed}");
    let n_edits = world
        .count("SELECT sum(version - base_version)::bigint FROM tilewake.feature")
        .await;
    let n_consumed = world
        .count("SELECT count(*) FROM tilewake.consumed WHERE version > 0")
        .await;
    assert_eq!(n_consumed, n_edits, "seed {seed}");
}

/// Inserts, moves and deletes features of its own and of others, in transactions of one to four statements, some of
/// which are rolled back.
async fn write(world: Arc<World>, seed: u64, writer: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let own = 100 + writer * 10;
    let mut session = world.session().await;
    for _ in 0..40 {
        let mut transaction = session.begin().await.unwrap();
        // One shared feature a transaction, last: writers must not wait for each other in a circle.
        for _ in 0..random.u64(0..3) {
            edit(&mut transaction, &mut random, own..own + 5).await;
        }
        edit(&mut transaction, &mut random, 1..20).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..5))).await;
        if random.u8(..) < 40 {
            transaction.rollback().await.unwrap();
        } else {
            transaction.commit().await.unwrap();
        }
    }
}

async fn edit(connection: &mut sqlx::PgConnection, random: &mut fastrand::Rng, ids: std::ops::Range<u64>) {
    let id = random.u64(ids);
    let (x, y) = (random.i32(-170..170), random.i32(-80..80));
    let sql = if random.u8(..) < 60 {
        format!("DELETE FROM places WHERE id = {id}")
    } else {
        format!(
            "INSERT INTO places VALUES ({id}, 'w', ST_Point({x}, {y}, 4326))
             ON CONFLICT (id) DO UPDATE SET geom = excluded.geom"
        )
    };
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(connection)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hundred_edits_of_one_feature_by_four_writers_end_at_version_400_with_the_ledger_there() {
    let world = Arc::new(World::new().await);
    world.insert(1).await;
    let direct = Arc::new(world.direct().await);
    let small = RelaySettings { batch: 7, ..settings() };
    let relays = [
        world.relay_with(Arc::clone(&direct), small.clone()),
        world.relay_with(direct, small),
    ];
    let write = |world: Arc<World>, writer: i32| async move {
        let mut session = world.session().await;
        for i in 0..100 {
            let sql = format!(
                "UPDATE places SET geom = ST_Point({writer}, {}, 4326)",
                f64::from(i) / 2.0
            );
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
                .execute(&mut session)
                .await
                .unwrap();
        }
    };
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(write(Arc::clone(&world), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    world.drained().await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(world.count("SELECT version FROM tilewake.feature").await, 401);
    assert_eq!(world.ledger_disagreements().await, 0);
}
