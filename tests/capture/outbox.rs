//! The outbox row itself: its size, its trace, its place in the ring.

use chrono::{DateTime, Utc};
use sqlx::Row;

use crate::world::World;

#[tokio::test]
async fn no_geometry_is_stored() {
    let world = World::with_points("").await;
    let n: i64 = world
        .value(
            "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
             JOIN pg_type t ON t.oid = a.atttypid
             WHERE c.relnamespace = 'tilewake'::regnamespace AND c.relkind IN ('r', 'p')
                 AND t.typname IN ('geometry', 'geography', '_geometry')",
        )
        .await;
    assert_eq!(n, 0);
}

#[tokio::test]
async fn a_row_takes_at_most_two_hundred_bytes() {
    let world =
        World::new("CREATE TABLE buildings (id bigint PRIMARY KEY, name text, geom geometry(Polygon, 4326));").await;
    world.add("buildings").await;
    world
        .run(
            "INSERT INTO buildings SELECT 1000000 + i, 'name', ST_SetSRID(ST_Buffer(ST_Point(i / 1000.0, 60), 0.001), 4326)
                 FROM generate_series(1, 2000) i;
             UPDATE buildings SET geom = ST_Translate(geom, 1, 0);
             UPDATE buildings SET name = 'other';
             DELETE FROM buildings;",
        )
        .await;
    let bytes: f64 = world
        .value("SELECT sum(pg_relation_size(format('tilewake.outbox_%s', slot)))::float8 / 8001 FROM generate_series(0, 8) slot")
        .await;
    assert!(
        (100.0..=200.0).contains(&bytes),
        "{bytes} bytes a row, with the page around it"
    );
}

#[tokio::test]
async fn the_trace_is_taken_from_the_session_if_it_is_one() {
    let world = World::with_points("").await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    world
        .run(&format!(
            "SET tilewake.traceparent = '{trace}';
             INSERT INTO t VALUES (1);
             SET tilewake.traceparent = 'nonsense';
             INSERT INTO t VALUES (2);
             RESET tilewake.traceparent;
             INSERT INTO t VALUES (3);"
        ))
        .await;
    let traces: Vec<Option<String>> =
        sqlx::query_scalar("SELECT traceparent FROM tilewake.outbox WHERE feature_version > 0 ORDER BY id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(traces, [Some(trace.to_owned()), None, None]);
}

/// Not when its transaction began: that may be hours ago.
#[tokio::test]
async fn the_time_is_that_of_the_edit() {
    let world = World::with_points("").await;
    world
        .run(
            "BEGIN;
             SELECT pg_sleep(0.01);
             INSERT INTO t VALUES (1);
             CREATE TABLE began AS SELECT now() AS at;
             COMMIT;",
        )
        .await;
    let later: bool = world
        .value(
            "SELECT o.created_at >= b.at + interval '10 ms' FROM tilewake.outbox o, began b WHERE feature_version > 0",
        )
        .await;
    assert!(later);
}

#[tokio::test]
async fn a_row_stands_in_the_leaf_of_its_day() {
    let world = World::with_points("(1, 'a', NULL)").await;
    world.run("UPDATE t SET name = 'b';").await;
    let row = sqlx::query("SELECT slot, created_at, tableoid::regclass::text AS leaf FROM tilewake.outbox")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    let created_at: DateTime<Utc> = row.get("created_at");
    let slot = created_at.timestamp().div_euclid(86_400).rem_euclid(9);
    assert_eq!(i64::from(row.get::<i16, _>("slot")), slot);
    assert_eq!(row.get::<String, _>("leaf"), format!("tilewake.outbox_{slot}"));
    for (at, slot) in [
        ("1970-01-01 00:00+00", 0),
        ("1970-01-09 23:59:59.999999+00", 8),
        ("1970-01-10 02:00+02", 0),
        ("1969-12-31 23:59+00", -1),
    ] {
        let found: i16 = world.value(&format!("SELECT tilewake.slot('{at}')")).await;
        assert_eq!(found, slot, "{at}");
    }
}

/// Fills a leaf that is far from today with rows of the given age, and prunes.
async fn prune(age: &str, published: &str) -> (World, String) {
    let world = World::with_points("").await;
    world
        .run(&format!(
            "INSERT INTO tilewake.outbox (slot, layer, epoch, feature_id, feature_version, base_version, event_type, changed,
                                          created_at, published_at)
             SELECT (tilewake.slot(now()) + 4) % 9, 't', 1, i, 1, 0, 'created', 'b', now() - interval '{age}', {published}
             FROM generate_series(1, 10) i;"
        ))
        .await;
    let outcome = outcome_of(&world).await;
    (world, outcome)
}

async fn outcome_of(world: &World) -> String {
    world
        .value(
            "SELECT outcome FROM tilewake.prune_outbox('7 days')
             WHERE leaf = 'outbox_' || (tilewake.slot(now()) + 4) % 9",
        )
        .await
}

#[tokio::test]
async fn a_leaf_is_truncated_only_when_all_of_it_is_published_and_old() {
    let (world, outcome) = prune("8 days", "now()").await;
    assert_eq!(outcome, "truncated");
    assert_eq!(outcome_of(&world).await, "empty");
    for (age, published, outcome) in [
        ("6 days", "now()", "recent"),
        ("8 days", "CASE WHEN i < 10 THEN now() END", "unpublished"),
    ] {
        let (world, found) = prune(age, published).await;
        assert_eq!(found, outcome);
        let n: i64 = world
            .value("SELECT count(*) FROM tilewake.outbox WHERE layer = 't' AND feature_version > 0")
            .await;
        assert_eq!(n, 10);
    }
}

#[tokio::test]
async fn the_leaves_around_today_are_never_truncated() {
    let world = World::with_points("(1, 'a', NULL)").await;
    world
        .run(
            "UPDATE t SET name = 'b';
             UPDATE tilewake.outbox SET created_at = now() - interval '1 year', published_at = now();",
        )
        .await;
    let current: Vec<String> =
        sqlx::query_scalar("SELECT leaf FROM tilewake.prune_outbox('7 days') WHERE outcome = 'current' ORDER BY leaf")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(current.len(), 3);
    assert_eq!(world.value::<i64>("SELECT count(*) FROM tilewake.outbox").await, 2);
}

#[tokio::test]
async fn a_leaf_in_use_is_left_alone_and_holds_up_nobody() {
    let (world, outcome) = prune("8 days", "CASE WHEN i < 10 THEN now() END").await;
    assert_eq!(outcome, "unpublished");
    let mut relay = world.pool.begin().await.unwrap();
    sqlx::query("UPDATE tilewake.outbox SET published_at = now() WHERE published_at IS NULL AND layer = 't'")
        .execute(&mut *relay)
        .await
        .unwrap();
    assert_eq!(outcome_of(&world).await, "busy");
    world.run("INSERT INTO t VALUES (5);").await;
    relay.commit().await.unwrap();
    assert_eq!(outcome_of(&world).await, "truncated");
}
