//! What waits where, as the tables have it: right also when no process of tilewake lives.

use serde::Serialize;
use sqlx::{PgPool, prelude::FromRow};

use super::outbox::{self, Backlog};

/// What waits where.
#[derive(Debug, Serialize)]
pub struct Overview {
    /// The outbox.
    pub outbox: Backlog,
    /// Rows that failed alone and wait for their next attempt.
    pub retrying_rows: i64,
    /// Rows that were given up.
    pub dead_letters: i64,
    /// The layers.
    pub layers: Vec<LayerOverview>,
    /// The consumer names.
    pub consumers: Vec<ConsumerOverview>,
}

/// A layer.
#[derive(Debug, Serialize, FromRow)]
pub struct LayerOverview {
    /// Its name.
    pub name: String,
    /// Its epoch.
    pub epoch: i64,
    /// Features that have been edited since the layer was added.
    pub features: i64,
}

/// A consumer name.
#[derive(Debug, Serialize, FromRow)]
pub struct ConsumerOverview {
    /// The name.
    pub name: String,
    /// Rows of its ledger.
    pub ledger_rows: i64,
    /// Rows of its ledger with a version missing.
    pub open_gaps: i64,
    /// Rows of its journal that are still there.
    pub journal_rows: i64,
    /// The number of the newest row of its journal.
    pub journal_number: i64,
    /// How far the purgers of lasting targets have come.
    #[sqlx(skip)]
    pub cursors: Vec<CursorOverview>,
}

/// How far a purger has come.
#[derive(Debug, Serialize, FromRow)]
pub struct CursorOverview {
    /// The target.
    pub target: String,
    /// The journal row up to which it has purged.
    pub purged: i64,
    /// The journal row up to which the purge was confirmed.
    pub confirmed: i64,
}

/// Reads the overview.
pub async fn read(pool: &PgPool) -> Result<Overview, sqlx::Error> {
    const CONSUMERS: &str = "
        SELECT name, journal_number,
               (SELECT count(*) FROM tilewake.ledger WHERE consumer = name) AS ledger_rows,
               (SELECT count(*) FROM tilewake.ledger WHERE consumer = name AND gap_since IS NOT NULL) AS open_gaps,
               (SELECT count(*) FROM tilewake.journal WHERE consumer = name) AS journal_rows
        FROM tilewake.consumer ORDER BY name";
    const LAYERS: &str = "
        SELECT name, epoch, (SELECT count(*) FROM tilewake.feature WHERE layer = name) AS features
        FROM tilewake.layer WHERE removed_at IS NULL ORDER BY name";
    const CURSORS: &str = "
        SELECT target, purged, confirmed FROM tilewake.purge_cursor WHERE consumer = $1 ORDER BY target";
    let retrying = "SELECT count(*) FROM tilewake.outbox WHERE published_at IS NULL AND attempts > 0";
    let mut consumers: Vec<ConsumerOverview> = sqlx::query_as(CONSUMERS).fetch_all(pool).await?;
    for consumer in &mut consumers {
        consumer.cursors = sqlx::query_as(CURSORS).bind(&consumer.name).fetch_all(pool).await?;
    }
    Ok(Overview {
        outbox: outbox::backlog(pool).await?,
        retrying_rows: sqlx::query_scalar(retrying).fetch_one(pool).await?,
        dead_letters: sqlx::query_scalar("SELECT count(*) FROM tilewake.dead_letter")
            .fetch_one(pool)
            .await?,
        layers: sqlx::query_as(LAYERS).fetch_all(pool).await?,
        consumers,
    })
}
