//! Consumers that end between their decision, its commit and the acknowledgement: one effect.

use std::{sync::Arc, time::Duration};

use tilewake::{
    relay::RelaySettings,
    transport::{Publisher, direct::Direct},
};
use tilewake_core::{event::Event, outbox::Sent};
use tokio::sync::Semaphore;

use crate::world::{World, eventually, settings};

/// The transaction waits for the row from which it takes the numbers of its journal rows: all is decided and written.
const DECIDED: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%tilewake.consumer SET journal_number%'";
const CONSUMED: &str = "SELECT count(*) FROM tilewake.consumed";
const MARKED: &str = "SELECT count(*) FROM tilewake.outbox WHERE published_at IS NOT NULL";

async fn three_edits(world: &World) {
    world
        .sql("INSERT INTO places SELECT i, 'n', ST_Point(i, 1, 4326) FROM generate_series(1, 3) i")
        .await;
}

/// Every event stands in the journal once.
async fn has_one_effect(world: &World) {
    world.drained().await;
    let mut events = world.journal().await;
    let n_events = events.len();
    events.sort();
    events.dedup();
    assert_eq!((events.len(), n_events), (3, 3), "{events:?}");
    assert_eq!(world.ledger_disagreements().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_killed_between_decision_and_commit_leaves_one_effect() {
    let world = World::new().await;
    let direct = Arc::new(world.direct().await);
    three_edits(&world).await;
    let mut session = world.session().await;
    let mut lock = sqlx::Connection::begin(&mut session).await.unwrap();
    sqlx::query("SELECT FROM tilewake.consumer FOR NO KEY UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let relay = world.relay(Arc::clone(&direct));
    eventually("the consumer has decided", || async { world.count(DECIDED).await == 1 }).await;
    relay.kill();
    lock.rollback().await.unwrap();
    eventually("its session is gone", || async { world.count(DECIDED).await == 0 }).await;
    assert_eq!((world.count(CONSUMED).await, world.count(MARKED).await), (0, 0));
    let relay = world.relay(direct);
    has_one_effect(&world).await;
    relay.stop().await;
}

/// Hands the events to a consumer, and never says that it has them.
struct Mute {
    direct: Direct,
    done: Semaphore,
}

impl Publisher for Mute {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let sent = self.direct.publish(events).await;
        assert!(sent.iter().all(|sent| *sent == Sent::Acknowledged));
        self.done.add_permits(1);
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_killed_between_commit_and_acknowledgement_leaves_one_effect() {
    let world = World::new().await;
    three_edits(&world).await;
    let mute = Arc::new(Mute {
        direct: world.direct().await,
        done: Semaphore::new(0),
    });
    let relay = world.relay(Arc::clone(&mute));
    let _done = mute.done.acquire().await.unwrap();
    relay.kill();
    // Three edits and the epoch.
    assert_eq!((world.count(CONSUMED).await, world.count(MARKED).await), (4, 0));
    let relay = world.relay(Arc::new(world.direct().await));
    has_one_effect(&world).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_that_takes_too_long_is_not_marked_whatever_becomes_of_it() {
    let world = World::new().await;
    let direct = Arc::new(world.direct().await);
    three_edits(&world).await;
    let mut session = world.session().await;
    let mut lock = sqlx::Connection::begin(&mut session).await.unwrap();
    sqlx::query("SELECT FROM tilewake.consumer FOR NO KEY UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let impatient = RelaySettings {
        publish_bound: Duration::from_millis(200),
        ..settings()
    };
    let relay = world.relay_with(direct, impatient);
    // Given up twice at least: the second waits behind what the first has left with the server.
    eventually("the relay has given up", || async {
        let claims = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                      AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO tilewake.consumed%'";
        world.count(claims).await > 0
    })
    .await;
    assert_eq!((world.count(CONSUMED).await, world.count(MARKED).await), (0, 0));
    lock.rollback().await.unwrap();
    has_one_effect(&world).await;
    relay.stop().await;
}
