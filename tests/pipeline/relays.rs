//! Relays: publish before mark, exactly what was acknowledged, and any number of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use sqlx::Connection as _;
use tilewake::relay::RelaySettings;
use tilewake_core::{
    event::{Carried, EditEvent, Event, Omission},
    outbox::Sent,
};

use crate::{
    publishers::{Faulty, Holding, Recorder},
    world::{World, eventually, settings},
};

fn edits(events: &[Event]) -> Vec<&EditEvent> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Edit(edit) => Some(edit),
            Event::Epoch(_) => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_reaches_the_ledger_and_the_journal() {
    let world = World::new().await;
    let relay = world.relay(Arc::new(world.direct().await));
    world
        .sql("INSERT INTO places VALUES (1, 'a', ST_Point(24.9, 60.1, 4326))")
        .await;
    world.drained().await;
    world.sql("UPDATE places SET geom = ST_Point(25, 60, 4326)").await;
    world.drained().await;
    relay.stop().await;
    assert_eq!(world.ledger_disagreements().await, 0);
    let arrivals: Vec<_> = world.journal().await.into_iter().map(|(_, arrival)| arrival).collect();
    assert_eq!(arrivals, ["in_order", "in_order"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_publish_is_published_again_under_the_same_event_id() {
    let world = World::new().await;
    world.insert(1).await;
    // The epoch's row and the insert's: sent once in vain, once with success.
    let publisher = Faulty::new(|nth, _| if nth < 2 { Sent::Unknown } else { Sent::Acknowledged });
    let relay = world.relay(Arc::clone(&publisher));
    world.drained().await;
    relay.stop().await;
    let sent = publisher.sent();
    assert_eq!(sent.len(), 4);
    assert_eq!(sent[..2], sent[2..]);
    assert_eq!(
        world
            .count("SELECT count(*) FROM tilewake.outbox WHERE attempts > 0")
            .await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_fails_alone_delays_no_other_and_is_buried_by_box_at_the_cap() {
    let world = World::new().await;
    world.insert(50).await;
    let refuses_one = |_: usize, event: &Event| match event {
        Event::Edit(edit) if edit.edit.key.id.as_str() == "7" && edit.carried.shape().is_some() => {
            Sent::Refused("this one does not pass".to_owned())
        }
        _ => Sent::Acknowledged,
    };
    let publisher = Faulty::new(refuses_one);
    let relay = world.relay_with(
        Arc::clone(&publisher),
        RelaySettings {
            max_attempts: 2,
            ..settings()
        },
    );
    eventually("all others are published", || async {
        world
            .count("SELECT count(*) FROM tilewake.outbox WHERE published_at IS NULL")
            .await
            <= 1
    })
    .await;
    world.drained().await;
    relay.stop().await;
    let dead = "SELECT count(*) FROM tilewake.dead_letter
                WHERE feature_id = '7' AND attempts = 2 AND error = 'this one does not pass'
                  AND event ->> 'geometry_omitted' = 'undeliverable'";
    assert_eq!(world.count(dead).await, 1);
    let n_sent = publisher.sent().iter().filter(|id| id.key.id.as_str() == "7").count();
    assert_eq!(n_sent, 3, "twice with its geometry, once without");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_publish_disjoint_versions_of_one_feature() {
    let world = World::new().await;
    world.insert(1).await;
    for i in 0..399 {
        world
            .sql(&format!("UPDATE places SET geom = ST_Point({i}, 2, 4326)"))
            .await;
    }
    let recorders = [Arc::new(Recorder::default()), Arc::new(Recorder::default())];
    let small = RelaySettings {
        batch: 10,
        ..settings()
    };
    let relays: Vec<_> = recorders
        .iter()
        .map(|recorder| world.relay_with(Arc::clone(recorder), small.clone()))
        .collect();
    world.drained().await;
    for relay in relays {
        relay.stop().await;
    }
    let versions = |recorder: &Recorder| -> Vec<i64> {
        edits(&recorder.events())
            .iter()
            .map(|event| event.edit.version.0)
            .collect()
    };
    let all: Vec<i64> = recorders.iter().flat_map(|recorder| versions(recorder)).collect();
    assert_eq!(all.len(), 400, "none is published twice");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), (1..=400).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_and_a_delete_before_the_relay_runs_give_tombstones() {
    let world = World::new().await;
    world.insert(1).await;
    world.sql("UPDATE places SET name = 'renamed'").await;
    world.sql("DELETE FROM places").await;
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world.drained().await;
    relay.stop().await;
    let events = recorder.events();
    let seen: Vec<_> = edits(&events)
        .iter()
        .map(|event| (event.edit.version.0, event.geometry_version.0, &event.carried))
        .collect();
    assert_eq!(seen, [1, 2, 3].map(|version| (version, 3, &Carried::Tombstone)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_takes_its_id_first_and_commits_last_is_not_skipped() {
    let world = World::new().await;
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    let mut session = world.session().await;
    let mut late = session.begin().await.unwrap();
    sqlx::query("INSERT INTO places VALUES (1000, 'late', ST_Point(1, 1, 4326))")
        .execute(&mut *late)
        .await
        .unwrap();
    world.insert(500).await;
    world.drained().await;
    assert!(
        !recorder
            .events()
            .iter()
            .any(|event| event.id().key.id.as_str() == "1000")
    );
    late.commit().await.unwrap();
    eventually("the late edit is published", || async {
        recorder
            .events()
            .iter()
            .any(|event| event.id().key.id.as_str() == "1000")
    })
    .await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_dies_frees_its_rows_at_once() {
    let world = World::new().await;
    world.insert(5).await;
    let holding = Holding::new();
    let dying = world.relay(Arc::clone(&holding));
    holding.has(6).await;
    dying.kill();
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world.drained().await;
    relay.stop().await;
    assert_eq!(recorder.events().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_relays_rows_are_published_by_another_and_its_late_mark_is_harmless() {
    let world = World::new().await;
    world.insert(5).await;
    let holding = Holding::new();
    let frozen = world.relay(Arc::clone(&holding));
    holding.has(6).await;
    // What the server does to a session that is idle in its transaction for longer than the publish bound.
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE application_name = 'tilewake relay' AND datname = current_database()
                   AND state = 'idle in transaction'";
    assert_eq!(world.count(ended).await, 1);
    let recorder = Arc::new(Recorder::default());
    let other = world.relay(Arc::clone(&recorder));
    world.drained().await;
    assert_eq!(recorder.events().len(), 6);
    let marks = "SELECT count(DISTINCT published_at) FROM tilewake.outbox";
    let before = world.count(marks).await;
    holding.gate.add_permits(100);
    world.sql("UPDATE places SET name = 'again' WHERE id = 1").await;
    world.drained().await;
    frozen.stop().await;
    other.stop().await;
    assert_eq!(world.count(&format!("{marks} WHERE feature_version < 2")).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_itself_ends_the_claim_of_a_frozen_relay() {
    let world = World::new().await;
    let relay = world.relay(Arc::new(Recorder::default()));
    world.drained().await;
    let session = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tilewake relay'
                   AND datname = current_database()";
    eventually("the relay has its session", || async {
        world.count(session).await == 1
    })
    .await;
    relay.stop().await;
    // The bound is set by the relay for its own session, above the publish bound.
    let mut claim =
        tilewake::postgres::relay_session::RelaySession::new(world.pool.clone(), Duration::from_millis(100));
    world.insert(1).await;
    assert_eq!(claim.claim(0, 10).await.unwrap().len(), 1);
    assert!(claim.check().await.is_ok());
    eventually("the claim is gone", || async {
        world
            .count("SELECT count(*) FROM tilewake.outbox WHERE published_at IS NULL")
            .await
            == 1
            && sqlx::query("SELECT FROM tilewake.outbox WHERE published_at IS NULL FOR UPDATE NOWAIT")
                .execute(&world.pool)
                .await
                .is_ok()
    })
    .await;
    assert!(claim.check().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_among_two_hundred_that_cannot_be_encoded_goes_by_its_box() {
    let world = World::new().await;
    world.sql("ALTER TABLE places ALTER geom TYPE geometry").await;
    world.insert(200).await;
    world
        .sql(
            "UPDATE places SET geom = ST_GeomFromText('TIN(((1 1, 2 1, 2 2, 1 1)))', 4326) WHERE id = 77;
             UPDATE places SET geom = ST_MakeLine(ST_Point(1, 1, 4326), ST_Point('NaN', 2, 4326)) WHERE id = 78",
        )
        .await;
    let recorder = Arc::new(Recorder::default());
    let relay = world.relay(Arc::clone(&recorder));
    world.drained().await;
    relay.stop().await;
    let events = recorder.events();
    let omitted: BTreeMap<_, _> = edits(&events)
        .iter()
        .filter(|event| event.carried == Carried::Omitted(Omission::NotEncodable))
        .map(|event| (event.edit.key.id.to_string(), event.edit.after.is_some()))
        .collect();
    assert_eq!(
        omitted,
        BTreeMap::from([("77".to_owned(), true), ("78".to_owned(), true)])
    );
    assert_eq!(edits(&events).len(), 202);
}
