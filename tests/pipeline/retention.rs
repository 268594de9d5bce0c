//! What is forgotten, and that nothing is the worse for it (I3, I5); what is lost, and that somebody is told (I2).

use std::{sync::Arc, time::Duration};

use tilewake::postgres::{journal, retention};
use tilewake_core::{
    journal::{Purge, plan},
    layer::Zooms,
    tile_set::TileSet,
};

use crate::{
    publishers::Recorder,
    world::{World, eventually},
};

/// Every event of an insert and a few moves, published by a relay.
async fn moved(world: &World) -> Vec<tilewake_core::event::Event> {
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world
        .sql("INSERT INTO places VALUES (1, 'a', ST_Point(1, 1, 4326))")
        .await;
    for i in 2..6 {
        world
            .sql(&format!("UPDATE places SET geom = ST_Point({i}, 1, 4326)"))
            .await;
    }
    world.drained().await;
    relay.stop().await;
    recorder.events()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_told_by_the_watermark_when_its_id_has_been_forgotten() {
    let world = World::new().await;
    let events = moved(&world).await;
    let consumer = world.consumer(0).await;
    consumer.consume(&events).await.unwrap();
    let journal = world.journal().await;
    retention::prune_ledger(&world.pool, "test", Duration::ZERO, 1000)
        .await
        .unwrap();
    assert_eq!(world.count("SELECT count(*) FROM tilewake.consumed").await, 0);
    let again = consumer.consume(&events).await.unwrap();
    assert_eq!((again.n_new, again.n_stale_tiles), (0, 0));
    assert_eq!(world.journal().await, journal);
    assert_eq!(world.ledger_disagreements().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purger_whose_rows_were_pruned_purges_everything() {
    let world = World::new().await;
    let consumer = world.consumer(1000).await;
    for event in moved(&world).await {
        consumer.consume(&[event]).await.unwrap();
    }
    retention::prune_ledger(&world.pool, "test", Duration::from_hours(1), 2)
        .await
        .unwrap();
    assert_eq!(world.count("SELECT count(*) FROM tilewake.journal").await, 2);
    let head = journal::head(&world.pool, "test").await.unwrap();
    let read = journal::read(&world.pool, "test", 1, 100).await.unwrap();
    assert_eq!(plan(1, read.page, 1000).purge, Purge::Everything);
    let read = journal::read(&world.pool, "test", head - 2, 100).await.unwrap();
    assert!(matches!(plan(head - 2, read.page, 1000).purge, Purge::Tiles(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_never_published_purges_its_layer_and_is_reported() {
    let world = World::new().await;
    let consumer = world.consumer(1000).await;
    let mut events = moved(&world).await;
    events.retain(|event| event.id().version.0 != 3);
    consumer.consume(&events).await.unwrap();
    assert_eq!(
        consumer.judge_gaps(Duration::from_hours(1)).await.unwrap(),
        Vec::<String>::new(),
        "it may be on its way"
    );
    let before = journal::head(&world.pool, "test").await.unwrap();
    let lost = consumer.judge_gaps(Duration::ZERO).await.unwrap();
    assert_eq!(lost, ["places/1, versions 3 to 3"]);
    let read = journal::read(&world.pool, "test", before, 100).await.unwrap();
    let everything = TileSet::everything(Zooms::ALL);
    assert_eq!(
        read.page.rows.iter().map(|(_, _, tiles)| tiles).collect::<Vec<_>>(),
        [&everything]
    );
    assert_eq!(world.ledger_disagreements().await, 0, "the watermark has moved on");
    assert_eq!(
        consumer.judge_gaps(Duration::ZERO).await.unwrap(),
        Vec::<String>::new(),
        "reported once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_name_that_starts_late_takes_what_it_has_missed_for_no_gap() {
    let world = World::new().await;
    let mut events = moved(&world).await;
    let late = world.consumer(1000).await;
    // It gets only the last event of those that were published before it began.
    let last = events.pop().unwrap();
    late.consume(&[last]).await.unwrap();
    assert_eq!(
        world
            .count("SELECT count(*) FROM tilewake.ledger WHERE gap_since IS NOT NULL")
            .await,
        1
    );
    assert_eq!(late.judge_gaps(Duration::ZERO).await.unwrap(), Vec::<String>::new());
    eventually("the watermark has moved on", || async {
        world.ledger_disagreements().await == 0
    })
    .await;
}
