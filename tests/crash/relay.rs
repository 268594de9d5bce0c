//! What a relay and its consumer meet when somebody else changes the world under them.

use std::{sync::Arc, time::Duration};

use tilewake::{
    consumer::{Consumer, ConsumerSettings},
    relay::RelaySettings,
    transport::Publisher,
};
use tilewake_core::{cover::CoverLimits, event::Event, outbox::Sent};

use crate::world::{World, eventually, settings};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_deleted_consumer_name_cannot_write_down_is_not_acknowledged() {
    let world = World::new().await;
    let consumer = world.consumer(1000).await;
    let events = recorded(&world).await;
    world.sql("DELETE FROM tilewake.consumer").await;
    assert!(consumer.consume(&events).await.is_err());
    assert_eq!(world.count("SELECT count(*) FROM tilewake.consumed").await, 0);
    // Begun anew it takes them in.
    let consumed = world.consumer(1000).await.consume(&events).await.unwrap();
    assert_eq!(consumed.n_new, events.len());
}

async fn recorded(world: &World) -> Vec<Event> {
    let recorder = Arc::new(crate::publishers::Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world.insert(3).await;
    world.drained().await;
    relay.stop().await;
    recorder.events()
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_begin_a_consumer_name_at_the_same_time_share_it() {
    let world = World::new().await;
    for round in 0..5 {
        let settings = ConsumerSettings {
            name: format!("new {round}"),
            remembered_events: 0,
            limits: CoverLimits::default(),
        };
        let open = || Consumer::open(world.pool.clone(), settings.clone());
        let opened = futures_util::future::join_all((0..8).map(|_| open())).await;
        for consumer in opened {
            consumer.unwrap();
        }
    }
}

/// Never answers for more than a few events at once.
struct Narrow;

impl Publisher for Narrow {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        if events.len() > 10 {
            std::future::pending::<()>().await;
        }
        vec![Sent::Acknowledged; events.len()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_too_much_within_the_bound_is_published_in_smaller_ones() {
    let world = World::new().await;
    world.insert(50).await;
    let impatient = RelaySettings {
        publish_bound: Duration::from_millis(100),
        ..settings()
    };
    let relay = world.relay_with(Arc::new(Narrow), impatient);
    world.drained().await;
    relay.stop().await;
}

/// A restored or promoted server may have lost edits that were announced, and gives their versions away once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_whose_session_ended_raises_the_epochs_where_the_cluster_is_another_one() {
    let world = World::new().await;
    let relay = world.relay(Arc::new(world.direct().await));
    world.drained().await;
    let epoch = "SELECT epoch FROM tilewake.layer";
    let before = world.count(epoch).await;
    world.sql("UPDATE tilewake.cluster SET timeline = timeline + 1").await;
    world
        .sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'tilewake relay'",
        )
        .await;
    eventually("the epoch is raised", || async { world.count(epoch).await > before }).await;
    world.insert(1).await;
    world.drained().await;
    assert_eq!(world.ledger_disagreements().await, 0);
    relay.stop().await;
}
