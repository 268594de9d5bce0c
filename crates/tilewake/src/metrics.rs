//! What is counted, under which names.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tilewake_core::timeline::Arrival;

/// Upper bounds of the buckets of edit-to-purge times, in seconds: fine around what people do not notice, coarse up to
/// what they complain about.
const EDIT_TO_PURGE: &[f64] = &[
    0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 3600.0,
];

/// Starts to count; the answer renders what was counted in the text format of Prometheus.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(
            Matcher::Full("tilewake_edit_to_purge_seconds".to_owned()),
            EDIT_TO_PURGE,
        )?
        .install_recorder()?;
    describe_gauge!(
        "tilewake_outbox_unpublished_rows",
        "Outbox rows that no transport has acknowledged yet."
    );
    describe_gauge!(
        "tilewake_outbox_oldest_unpublished_seconds",
        "Age of the oldest such row; 0 without one."
    );
    describe_counter!(
        "tilewake_relay_events_total",
        "Events that relays of this process published, by action."
    );
    describe_counter!(
        "tilewake_consumer_events_total",
        "Events decided by consumers of this process, by arrival."
    );
    describe_counter!(
        "tilewake_consumer_duplicates_total",
        "Repeated events, by who caught them."
    );
    describe_counter!(
        "tilewake_purged_tiles_total",
        "Tiles dropped from a target because an edit made them stale."
    );
    describe_counter!(
        "tilewake_purges_of_everything_total",
        "Times that a target was emptied whole."
    );
    describe_counter!(
        "tilewake_cache_requests_total",
        "Requests for tiles, by what the cache had: hit or miss."
    );
    describe_histogram!(
        "tilewake_edit_to_purge_seconds",
        "From an edit's statement to the purge of its tiles."
    );
    Ok(handle)
}

/// Events published, by action.
pub fn published(action: &str, n_events: u64) {
    counter!("tilewake_relay_events_total", "action" => action.to_owned()).increment(n_events);
}

/// An event decided.
pub fn arrival(arrival: Arrival) {
    counter!("tilewake_consumer_events_total", "arrival" => arrival.as_str()).increment(1);
}

/// Repeated events, by who caught them: `cache`, `constraint` or `ledger`.
pub fn duplicates(caught_by: &'static str, n_events: usize) {
    if n_events > 0 {
        counter!("tilewake_consumer_duplicates_total", "caught_by" => caught_by).increment(n_events as u64);
    }
}

/// Tiles dropped from a target.
pub fn purged(target: &'static str, n_tiles: u64) {
    counter!("tilewake_purged_tiles_total", "target" => target).increment(n_tiles);
}

/// A target emptied whole.
pub fn emptied(target: &'static str) {
    counter!("tilewake_purges_of_everything_total", "target" => target).increment(1);
}

/// The time from an edit to the purge of its tiles.
pub fn edit_to_purge(elapsed: Duration) {
    histogram!("tilewake_edit_to_purge_seconds").record(elapsed);
}

/// A request for a tile: `hit` or `miss`.
pub fn cache_request(outcome: &'static str) {
    counter!("tilewake_cache_requests_total", "outcome" => outcome).increment(1);
}

/// How much waits in the outbox, as the table has it.
pub fn backlog(n_rows: i64, oldest: Duration) {
    gauge!("tilewake_outbox_unpublished_rows").set(n_rows as f64);
    gauge!("tilewake_outbox_oldest_unpublished_seconds").set(oldest);
}
