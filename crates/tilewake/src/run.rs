//! Relay, consumer, purger and tile server in one process.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use sqlx::{PgPool, postgres::PgConnectOptions};
use tilewake_core::cover::CoverLimits;
use tokio::{net::TcpListener, sync::broadcast, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    consumer::{ConsumeError, Consumer, ConsumerSettings},
    http, metrics,
    postgres::{self, cluster, relay_session::RelaySession, session},
    purger::{CachePurger, Purging},
    relay::{self, Flush, RelaySettings},
    retention::{self, RetentionSettings},
    settings::Settings,
    tiles::cache::{Fencing, TileCache},
    transport::direct::Direct,
};

/// How long what is under way may take once `run` was told to stop.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// Sessions that draw tiles, apart from all others: however many tiles are asked for, they keep no edit waiting.
const N_RENDERS: u32 = 16;

/// Purge notices that a slow listener may fall behind by.
const NOTICES: usize = 1024;

/// `run` cannot start, or a part of it ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No connection.
    #[error("cannot connect to the features' database; check the URL, and that the server runs")]
    Connect(#[source] sqlx::Error),
    /// The database is not as it must be.
    #[error("the features' database cannot be used")]
    Schema(#[source] postgres::SchemaError),
    /// The server is a standby.
    #[error("the features' database is a standby, which cannot be written to; connect to the primary")]
    Standby,
    /// The cluster's identity cannot be read.
    #[error("cannot read which database cluster this is")]
    Cluster(#[source] sqlx::Error),
    /// The consumer cannot start.
    #[error("cannot start the consumer")]
    Consumer(#[source] ConsumeError),
    /// Metrics cannot be installed.
    #[error("cannot start the metrics")]
    Metrics(#[source] metrics_exporter_prometheus::BuildError),
    /// The address is taken or not ours.
    #[error("cannot listen on {address}; is something else listening there? port 0 takes a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A part panicked.
    #[error("a part of tilewake failed")]
    Failed(#[source] tokio::task::JoinError),
}

/// What is switched off to prove that checks notice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weakened {
    /// Whether purges reach the cache.
    pub purging: Purging,
    /// Whether spoiled fills are kept out of the cache.
    pub fencing: Fencing,
    /// How long a render waits between drawing and caching.
    pub render_delay: Duration,
}

/// Runs all parts until stopped; calls `ready` with the address once requests are answered.
pub async fn run(
    settings: Settings,
    weakened: Weakened,
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), RunError> {
    let handle = metrics::install().map_err(RunError::Metrics)?;
    let options = session_options(&settings).map_err(RunError::Connect)?;
    let pool = session::open(options.clone(), n_sessions(&settings))
        .await
        .map_err(RunError::Connect)?;
    check(&pool).await?;
    if cluster::look(&pool).await.map_err(RunError::Cluster)? == cluster::Cluster::Changed {
        warn!("the database cluster is another one than before; every layer is purged");
    }
    let consumer = Consumer::open(pool.clone(), consumer_settings(&settings))
        .await
        .map_err(RunError::Consumer)?;
    let consumer = Arc::new(consumer);
    let address = settings.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| RunError::Listen { address, source })?;
    let address = listener
        .local_addr()
        .map_err(|source| RunError::Listen { address, source })?;
    let cache = Arc::new(TileCache::new(settings.cache_bytes, weakened.fencing));
    let (notices, _) = broadcast::channel(NOTICES);

    let mut parts = JoinSet::new();
    for _ in 0..settings.relays {
        let session = RelaySession::new(pool.clone(), settings.publish_bound);
        let publisher = Arc::new(Direct::new(Arc::clone(&consumer)));
        parts.spawn(relay::run(session, publisher, relay_settings(&settings), stop.clone()));
    }
    let purger = CachePurger {
        pool: pool.clone(),
        consumer: settings.consumer.clone(),
        cache: Arc::clone(&cache),
        notices: notices.clone(),
        poll: settings.poll,
        purging: weakened.purging,
    };
    parts.spawn(purger.run(stop.clone()));
    parts.spawn(retention::run(
        pool.clone(),
        Arc::clone(&consumer),
        retention_settings(&settings),
        stop.clone(),
    ));
    let site = http::Site {
        pool,
        renders: session::pool(options, N_RENDERS),
        cache,
        notices,
        metrics: handle,
        public_url: settings.public_url.clone(),
        render_delay: weakened.render_delay,
        stop: stop.clone(),
    };
    parts.spawn(http::serve(listener, site));
    info!(%address, "serving tiles");
    ready(address);
    finish(parts, &stop).await
}

/// Whether a relay can do its work with this database and this role.
async fn check(pool: &PgPool) -> Result<(), RunError> {
    if cluster::is_standby(pool).await.map_err(RunError::Connect)? {
        return Err(RunError::Standby);
    }
    postgres::check(pool).await.map_err(RunError::Schema)
}

/// Waits for the first part to end, stops the others, and gives them a bounded time.
async fn finish(mut parts: JoinSet<()>, stop: &CancellationToken) -> Result<(), RunError> {
    let first = parts.join_next().await;
    stop.cancel();
    let rest = tokio::time::timeout(STOP_BOUND, parts.join_all()).await;
    if rest.is_err() {
        warn!(bound = ?STOP_BOUND, "stopped without waiting for what is still under way; nothing is lost");
    }
    match first {
        Some(Err(error)) => Err(RunError::Failed(error)),
        _ => Ok(()),
    }
}

fn session_options(settings: &Settings) -> Result<PgConnectOptions, sqlx::Error> {
    Ok(session::bounded(
        session::options(&settings.database_url)?,
        "tilewake",
        settings.publish_bound,
    ))
}

/// A relay needs one for reading and one for listening, besides its own, and its consumer one; the rest is for the purger,
/// the keeper of the house, health and metrics.
fn n_sessions(settings: &Settings) -> u32 {
    u32::try_from(settings.relays)
        .unwrap_or(u32::MAX)
        .saturating_mul(3)
        .saturating_add(6)
}

fn consumer_settings(settings: &Settings) -> ConsumerSettings {
    ConsumerSettings {
        name: settings.consumer.clone(),
        remembered_events: settings.remembered_events,
        limits: CoverLimits {
            max_ranges: settings.max_ranges,
        },
    }
}

fn relay_settings(settings: &Settings) -> RelaySettings {
    RelaySettings {
        batch: settings.batch,
        publish_bound: settings.publish_bound,
        poll: settings.poll,
        max_attempts: settings.max_attempts,
        max_bytes: settings.max_geometry_bytes,
        flush: Flush::Forced,
    }
}

fn retention_settings(settings: &Settings) -> RetentionSettings {
    RetentionSettings {
        window: settings.window,
        journal_rows: settings.journal_rows,
        patience: tilewake_core::backoff::schedule(settings.max_attempts),
    }
}
