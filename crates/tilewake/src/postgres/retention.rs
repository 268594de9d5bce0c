//! What goes when it is no longer needed: outbox leaves, journal rows, ids of events, rows of past epochs.

use std::time::Duration;

use sqlx::{PgPool, Row};

/// What became of one leaf of the outbox's ring.
#[derive(Clone, Debug)]
pub struct PrunedLeaf {
    /// The leaf.
    pub name: String,
    /// What was done, or why not.
    pub outcome: String,
}

impl PrunedLeaf {
    /// Whether somebody may want to know: the leaf was emptied, or should have been and was not.
    #[must_use]
    pub fn is_remarkable(&self) -> bool {
        matches!(self.outcome.as_str(), "truncated" | "unpublished" | "busy")
    }
}

/// Truncates the leaves of the outbox in which every row is published and older than the window. Waits for no writer.
pub async fn prune_outbox(pool: &PgPool, window: Duration) -> Result<Vec<PrunedLeaf>, sqlx::Error> {
    let rows = sqlx::query("SELECT leaf, outcome FROM tilewake.prune_outbox(make_interval(secs => $1))")
        .bind(window.as_secs_f64())
        .fetch_all(pool)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(PrunedLeaf {
                name: row.try_get(0)?,
                outcome: row.try_get(1)?,
            })
        })
        .collect()
}

/// Rows deleted at once, so that no transaction holds back vacuum for long.
const PORTION: i64 = 10_000;

/// Prunes the journal to its newest rows, forgets ids of events older than the window, and lets the rows of past epochs
/// go with them: their duplicates could only come from a replay, and none reaches back further.
pub async fn prune_ledger(
    pool: &PgPool,
    consumer: &str,
    window: Duration,
    journal_rows: i64,
) -> Result<(), sqlx::Error> {
    const JOURNAL: &str = "
        DELETE FROM tilewake.journal WHERE consumer = $1 AND number <= (
            SELECT journal_number - $2 FROM tilewake.consumer WHERE name = $1)";
    const CONSUMED: &str = "
        DELETE FROM tilewake.consumed WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM tilewake.consumed
            WHERE consumer = $1 AND consumed_at < clock_timestamp() - make_interval(secs => $2) LIMIT $3))";
    // Rows of a past epoch have no geometry worth keeping; they go once the epoch that followed, which begins
    // with milliseconds since 1970, is older than the window.
    const PAST: &str = "
        DELETE FROM tilewake.ledger WHERE ctid = ANY (ARRAY(
            SELECT ledger.ctid FROM tilewake.ledger JOIN tilewake.consumer_layer USING (consumer, layer)
            WHERE consumer = $1 AND ledger.epoch < consumer_layer.epoch
              AND to_timestamp(consumer_layer.epoch / 1000.0) < clock_timestamp() - make_interval(secs => $2) LIMIT $3))";
    sqlx::query(JOURNAL)
        .bind(consumer)
        .bind(journal_rows)
        .execute(pool)
        .await?;
    for statement in [CONSUMED, PAST] {
        while sqlx::query(statement)
            .bind(consumer)
            .bind(window.as_secs_f64())
            .bind(PORTION)
            .execute(pool)
            .await?
            .rows_affected()
            == PORTION.unsigned_abs()
        {}
    }
    Ok(())
}
