//! What runs now and then: prunes what is no longer needed, judges gaps, looks for altered layers.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    consumer::Consumer,
    metrics,
    postgres::{layers, outbox, retention as tables},
};

/// How often to look; each look is cheap when there is nothing to do.
const INTERVAL: Duration = Duration::from_secs(30);
/// How often to refresh the gauges of the outbox.
const GAUGES: Duration = Duration::from_secs(5);

/// What to keep.
#[derive(Clone, Copy, Debug)]
pub struct RetentionSettings {
    /// For how long published outbox rows and the ids of events seen are kept.
    pub window: Duration,
    /// How many journal rows are kept.
    pub journal_rows: i64,
    /// A version missing for longer than this is lost: a relay would have given up.
    pub patience: Duration,
}

/// Keeps house until stopped.
pub async fn run(pool: PgPool, consumer: Arc<Consumer>, settings: RetentionSettings, stop: CancellationToken) {
    let mut chores = tokio::time::interval(INTERVAL);
    let mut gauges = tokio::time::interval(GAUGES);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = gauges.tick() => refresh_gauges(&pool).await,
            _ = chores.tick() => keep_house(&pool, &consumer, settings).await,
        }
    }
}

async fn refresh_gauges(pool: &PgPool) {
    match outbox::backlog(pool).await {
        Ok(backlog) => metrics::backlog(backlog.unpublished_rows, backlog.oldest()),
        Err(error) => warn!(error = &error as &dyn std::error::Error, "could not count the outbox"),
    }
}

async fn keep_house(pool: &PgPool, consumer: &Consumer, settings: RetentionSettings) {
    match tables::prune_outbox(pool, settings.window).await {
        Ok(leaves) => {
            for leaf in leaves.iter().filter(|leaf| leaf.is_remarkable()) {
                info!(leaf = leaf.name, outcome = leaf.outcome, "outbox leaf");
            }
        }
        Err(error) => warn!(error = &error as &dyn std::error::Error, "could not prune the outbox"),
    }
    if let Err(error) = tables::prune_ledger(pool, consumer.name(), settings.window, settings.journal_rows).await {
        warn!(error = &error as &dyn std::error::Error, "could not prune the ledger");
    }
    match consumer.judge_gaps(settings.patience).await {
        Ok(lost) => {
            for gap in lost {
                error!(feature = gap, "an edit was never published; its layer was purged");
            }
        }
        Err(error) => warn!(error = &error as &dyn std::error::Error, "could not judge gaps"),
    }
    match layers::alterations(pool).await {
        Ok(altered) => {
            for alteration in altered {
                warn!(%alteration, "a layer's table was altered; its epoch was raised");
            }
        }
        Err(error) => warn!(
            error = &error as &dyn std::error::Error,
            "could not look for altered layers"
        ),
    }
}
