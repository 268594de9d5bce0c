//! Consumers of one name: whatever they are given how often, there is one effect.

use std::sync::Arc;

use tilewake_core::event::Event;

use crate::{publishers::Recorder, world::World};

#[tokio::test(flavor = "multi_thread")]
async fn twelve_consumers_given_the_same_batch_leave_one_effect() {
    for remembered in [100_000, 10] {
        let world = World::new().await;
        let events = recorded(&world).await;
        let consumers: Vec<_> = futures_util::future::join_all((0..12).map(|_| world.consumer(remembered))).await;
        let consumed = consumers.iter().map(|consumer| consumer.consume(&events));
        let consumed: Vec<_> = futures_util::future::join_all(consumed).await;
        let n_new: usize = consumed.iter().map(|consumed| consumed.as_ref().unwrap().n_new).sum();
        assert_eq!(n_new, events.len());
        assert_eq!(world.ledger_disagreements().await, 0);
        let journal = world.journal().await;

        // Again, by one that remembers what it can, and by one that has just been started.
        consumers[0].consume(&events).await.unwrap();
        let again = world.consumer(remembered).await.consume(&events).await.unwrap();
        assert_eq!((again.n_new, again.n_duplicates), (0, events.len()));
        assert_eq!(world.journal().await, journal);
    }
}

/// Inserts, moves, attribute edits and deletes of fifty features, as the relay publishes them.
async fn recorded(world: &World) -> Vec<Event> {
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world
        .sql("INSERT INTO places SELECT i, 'n', ST_Point(i, i, 4326) FROM generate_series(1, 50) i")
        .await;
    world.drained().await;
    world
        .sql("UPDATE places SET geom = ST_Point(-id, id, 4326) WHERE id % 2 = 0")
        .await;
    world.sql("UPDATE places SET name = 'm' WHERE id % 3 = 0").await;
    world.sql("DELETE FROM places WHERE id % 5 = 0").await;
    world.drained().await;
    relay.stop().await;
    let events = recorder.events();
    assert!(events.len() > 100, "{}", events.len());
    events
}
