//! What `tilewake run` serves besides tiles, and whom it obeys.

use std::{fmt::Debug, future::Future, time::Duration};

use hyper::StatusCode;
use sqlx::Connection as _;
use tilewake_testbed::postgres::{Database, Server};

use crate::{
    program::{Program, output, tilewake},
    said::sql,
};

/// Waits until an answer is the expected one.
async fn becomes<E: Debug + ?Sized, T: PartialEq<E> + Debug, F: Future<Output = T>>(
    what: &str,
    expected: &E,
    answer: impl Fn() -> F,
) {
    let mut last = answer().await;
    for _ in 0..400 {
        if last == *expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        last = answer().await;
    }
    assert!(
        last == *expected,
        "{what}: waited in vain for {expected:?}, there is {last:?}"
    );
}

async fn prepared(server: &Server) -> Database {
    let database = server.database().await.unwrap();
    sql(
        &database,
        "CREATE TABLE places (id bigint PRIMARY KEY, name text, geom geometry(Point, 4326))",
    )
    .await;
    for arguments in [&["migrate"][..], &["layer", "add", "places", "--table", "places"]] {
        let output = output(tilewake().env("DATABASE_URL", database.url()).args(arguments)).await;
        assert!(output.status.success(), "{output:?}");
    }
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn it_lives_without_its_database_and_is_ready_only_with_it() {
    let mut server = Server::private(&[]).unwrap();
    let database = prepared(&server).await;
    let mut program = Program::new(database.url(), "", &[]);
    program.start().await;
    let status = async |path: &str| program.get(path).await.0;
    assert_eq!(
        (status("/livez").await, status("/readyz").await),
        (StatusCode::OK, StatusCode::OK)
    );
    server.kill_9().unwrap();
    becomes("/readyz", &StatusCode::SERVICE_UNAVAILABLE, || status("/readyz")).await;
    assert_eq!(
        (status("/livez").await, status("/metrics").await),
        (StatusCode::OK, StatusCode::OK)
    );
    server.restart().unwrap();
    becomes("/readyz", &StatusCode::OK, || status("/readyz")).await;
    assert!(program.stop().await.success());
}

/// The value of a metric as it is written; 0 for one that is not there.
async fn metric(program: &Program, name: &str) -> String {
    let (status, text) = program.get("/metrics").await;
    assert_eq!(status, StatusCode::OK);
    let text = String::from_utf8(text.to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or("0").to_owned()
}

async fn duplicates(program: &Program, caught_by: &str) -> String {
    let name = format!("tilewake_consumer_duplicates_total{{caught_by=\"{caught_by}\"}}");
    metric(program, &name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_was_done() {
    let database = prepared(Server::shared()).await;
    let mut program = Program::new(database.url(), "poll = '100ms'", &["--relays", "0"]);
    program.start().await;
    sql(
        &database,
        "INSERT INTO places SELECT i, 'n', ST_Point(24.9, 60.2, 4326) FROM generate_series(1, 3) i",
    )
    .await;
    sql(&database, "UPDATE places SET name = 'm' WHERE id = 1").await;
    // From the table, though no relay lives.
    assert_eq!(metric(&program, "tilewake_outbox_unpublished_rows").await, "5");
    assert_ne!(
        metric(&program, "tilewake_outbox_oldest_unpublished_seconds").await,
        "0"
    );
    assert!(program.stop().await.success());

    let mut program = Program::new(database.url(), "poll = '100ms'", &[]);
    program.start().await;
    let drained = "tilewake_outbox_unpublished_rows";
    becomes(drained, "0", || metric(&program, drained)).await;
    assert_eq!(
        metric(&program, "tilewake_outbox_oldest_unpublished_seconds").await,
        "0"
    );
    for (action, n_events) in [("epoch", "1"), ("created", "3"), ("updated", "1")] {
        let name = format!("tilewake_relay_events_total{{action=\"{action}\"}}");
        becomes(&name, n_events, || metric(&program, &name)).await;
    }
    // The relay read version 2 of the feature that was edited twice, with both of its events.
    for (arrival, n_events) in [("epoch", "1"), ("in_order", "2"), ("jump", "1"), ("late", "1")] {
        let name = format!("tilewake_consumer_events_total{{arrival=\"{arrival}\"}}");
        assert_eq!(metric(&program, &name).await, n_events, "{name}");
    }

    // Two tiles, one of which draws the feature, and one of them asked for twice.
    for path in ["/places/10/582/296.mvt", "/places/10/0/0.mvt", "/places/10/0/0.mvt"] {
        assert_eq!(program.get(path).await.0, StatusCode::OK);
    }
    assert_eq!(
        metric(&program, "tilewake_cache_requests_total{outcome=\"miss\"}").await,
        "2"
    );
    assert_eq!(
        metric(&program, "tilewake_cache_requests_total{outcome=\"hit\"}").await,
        "1"
    );
    let n_before: u64 = metric(&program, "tilewake_edit_to_purge_seconds_count")
        .await
        .parse()
        .unwrap();
    sql(&database, "UPDATE places SET name = 'o' WHERE id = 2").await;
    becomes("purged tiles", "1", || {
        metric(&program, "tilewake_purged_tiles_total{target=\"cache\"}")
    })
    .await;
    becomes("purges", &(n_before + 1).to_string(), || {
        metric(&program, "tilewake_edit_to_purge_seconds_count")
    })
    .await;

    // Published once more: the process remembers them, the next one asks the constraint.
    let again = "UPDATE tilewake.outbox SET published_at = NULL WHERE event_type = 'created'";
    sql(&database, again).await;
    becomes("duplicates", "3", || duplicates(&program, "cache")).await;
    assert_eq!(duplicates(&program, "constraint").await, "0");
    becomes(drained, "0", || metric(&program, drained)).await;
    assert!(program.stop().await.success());
    program.start().await;
    sql(&database, again).await;
    becomes("duplicates", "3", || duplicates(&program, "constraint")).await;
    assert_eq!(duplicates(&program, "cache").await, "0");
    assert!(program.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
    let database = prepared(Server::shared()).await;
    let mut session = database.connect().await.unwrap();
    let file = "consumer = 'file'";
    let environment = ("TILEWAKE_CONSUMER", "environment");
    let flags = &["--consumer", "flag"][..];
    for (variables, flags, winner) in [
        (&[][..], &[][..], "file"),
        (&[environment][..], &[][..], "environment"),
        (&[environment][..], flags, "flag"),
    ] {
        let mut program = Program::new(database.url(), file, flags).with(variables);
        program.start().await;
        assert!(program.stop().await.success());
        let names: Vec<String> = sqlx::query_scalar("DELETE FROM tilewake.consumer RETURNING name")
            .fetch_all(&mut session)
            .await
            .unwrap();
        assert_eq!(names, [winner]);
    }
    session.close().await.unwrap();
}
