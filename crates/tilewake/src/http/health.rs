//! Whether the process lives, whether it can work, and what it has counted.

use std::time::Duration;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use super::{Problem, Site};
use crate::postgres::outbox;

/// How long the database may take to answer before it counts as away.
const PATIENCE: Duration = Duration::from_secs(2);

/// The database is away.
#[derive(Debug, thiserror::Error)]
#[error("the features' database does not answer")]
struct Away(#[source] Option<sqlx::Error>);

/// Alive means that the process answers; whether the database does is none of it, or a restart would follow an outage.
pub(super) async fn live() -> &'static str {
    "alive\n"
}

pub(super) async fn ready(State(site): State<Site>) -> Result<&'static str, Problem> {
    let answered = tokio::time::timeout(PATIENCE, sqlx::query("SELECT").execute(&site.pool)).await;
    match answered {
        Ok(Ok(_)) => Ok("ready\n"),
        Ok(Err(error)) => Err(Problem::unavailable(&Away(Some(error)))),
        Err(_) => Err(Problem::unavailable(&Away(None))),
    }
}

/// The gauges of the outbox are read from the table at every scrape, so that they are right when no relay lives.
pub(super) async fn metrics(State(site): State<Site>) -> Response {
    if let Ok(Ok(backlog)) = tokio::time::timeout(PATIENCE, outbox::backlog(&site.pool)).await {
        crate::metrics::backlog(backlog.unpublished_rows, backlog.oldest());
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, site.metrics.render()).into_response()
}
