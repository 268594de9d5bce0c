//! Moves edits of map features to the tile caches that drew them.
//!
//! This crate does what `tilewake-core` decides: it asks Postgres, publishes, serves and purges. The path of an edit is
//! `postgres/` (outbox) → [`relay`] → [`transport`] → [`consumer`] → `postgres/` (ledger, journal) → [`purger`] →
//! [`tiles`]. The invariants I1 to I5 that the docs refer to are in `ARCHITECTURE.md`.

pub mod cli;
pub mod consumer;
pub mod http;
pub mod metrics;
pub mod postgres;
pub mod purger;
pub mod relay;
pub mod retention;
pub mod run;
pub mod settings;
pub mod tiles;
pub mod transport;

/// Writes an error and its causes in one line; not twice what an error has already said of its cause.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.ends_with(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// A number in `0.0..1.0`, drawn anew at every call, that keeps what failed together from coming back together.
pub(crate) fn jitter() -> f64 {
    fastrand::f64()
}
