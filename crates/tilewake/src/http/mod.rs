//! What is served over HTTP: tiles, TileJSON, health, metrics, and the purges as they happen.

mod events;
mod health;
mod tile;
mod tilejson;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::{net::TcpListener, sync::broadcast};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::{
    purger::PurgeNotice,
    tiles::{cache::TileCache, render::RenderError},
};

/// What the handlers need.
#[derive(Clone)]
pub struct Site {
    /// The features' database, for what is asked of it in passing.
    pub pool: PgPool,
    /// The same, for drawing tiles.
    pub renders: PgPool,
    /// The tile cache.
    pub cache: Arc<TileCache<RenderError>>,
    /// Purges as they happen.
    pub notices: broadcast::Sender<PurgeNotice>,
    /// What was counted.
    pub metrics: PrometheusHandle,
    /// The URL under which clients reach the server; empty where that is what they ask for.
    pub public_url: String,
    /// How long a render waits between drawing and caching: only to prove that checks notice.
    pub render_delay: Duration,
    /// Ends the streams of those who follow purges.
    pub stop: CancellationToken,
}

/// Serves until stopped; requests under way are answered.
pub async fn serve(listener: TcpListener, site: Site) {
    let stop = site.stop.clone();
    let app = router(site);
    if let Err(error) = axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
    {
        error!(error = &error as &dyn std::error::Error, "the server failed");
    }
}

fn router(site: Site) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/events", get(events::purges))
        .route("/{layer}/{z}/{x}/{y}", get(tile::tile))
        .route("/{file}", get(tilejson::tilejson))
        .fallback(|| async { Problem::not_found("there is nothing here; tiles are at /LAYER/Z/X/Y.mvt") })
        .with_state(site)
}

/// An answer that says what is wrong, in plain text.
pub(crate) struct Problem {
    status: StatusCode,
    reason: String,
}

impl Problem {
    fn bad_request(reason: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            reason: reason.into(),
        }
    }

    fn not_found(reason: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            reason: reason.into(),
        }
    }

    /// The database is away: worth trying again.
    fn unavailable(error: &(dyn std::error::Error + 'static)) -> Self {
        warn!(error, "a request failed");
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: error.to_string(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.reason + "\n").into_response();
        open_to_all(&mut response);
        // What is wrong now may be right after the next edit.
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Maps are embedded in pages of other origins.
fn open_to_all(response: &mut Response) {
    response
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}
