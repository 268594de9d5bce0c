//! The database cluster: which one it is, and how far its log is safe.

use sqlx::{PgExecutor, PgPool};
use tilewake_core::event::WalPosition;

/// The end of the log that the features' database has written so far, read after the geometry: whoever has replayed up
/// to here draws what was read.
pub async fn insert_position(executor: impl PgExecutor<'_>) -> Result<WalPosition, sqlx::Error> {
    position(executor, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").await
}

async fn position(executor: impl PgExecutor<'_>, sql: &'static str) -> Result<WalPosition, sqlx::Error> {
    let position: i64 = sqlx::query_scalar(sql).fetch_one(executor).await?;
    Ok(WalPosition(u64::try_from(position).unwrap_or_default()))
}

/// Sees to it that the log is on disk up to `position`, so that no crash can take back what is announced.
///
/// Waiting alone takes seconds on a quiet database; one small commit that is itself synchronous takes everything before
/// it along.
pub async fn flush(pool: &PgPool, position: WalPosition) -> Result<(), sqlx::Error> {
    if flushed_position(pool).await? >= position {
        return Ok(());
    }
    let mut transaction = pool.begin().await?;
    sqlx::query("SET LOCAL synchronous_commit = on")
        .execute(&mut *transaction)
        .await?;
    sqlx::query("SELECT pg_logical_emit_message(true, 'tilewake', '')")
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

async fn flushed_position(executor: impl PgExecutor<'_>) -> Result<WalPosition, sqlx::Error> {
    position(executor, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint").await
}

/// Whether this server only replays another's log: then a relay cannot work here.
pub async fn is_standby(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(pool).await
}

/// What has become of the cluster since a relay last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// The same one, or never looked at before.
    Same,
    /// Another one, or another timeline of it: restored or promoted. Edits may be gone that were announced, so every
    /// layer's epoch was raised.
    Changed,
}

/// Compares the cluster's system identifier and timeline with those of the last look, and raises every layer's epoch
/// if they differ.
///
/// The timeline is that of the log being written: the control file learns of a promotion only with the next checkpoint.
pub async fn look(pool: &PgPool) -> Result<Cluster, sqlx::Error> {
    const LOOK: &str = "
        WITH now AS (
            SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint AS timeline
            FROM pg_control_system()
        ), before AS (
            SELECT system_identifier, timeline FROM tilewake.cluster FOR UPDATE
        ), first AS (
            INSERT INTO tilewake.cluster (system_identifier, timeline)
            SELECT system_identifier, timeline FROM now WHERE NOT EXISTS (SELECT FROM before) ON CONFLICT DO NOTHING
        ), again AS (
            UPDATE tilewake.cluster SET system_identifier = now.system_identifier, timeline = now.timeline
            FROM now, before
            WHERE (now.system_identifier, now.timeline) <> (before.system_identifier, before.timeline)
            RETURNING true
        )
        SELECT EXISTS (SELECT FROM again)";
    let mut transaction = pool.begin().await?;
    let has_changed: bool = sqlx::query_scalar(LOOK).fetch_one(&mut *transaction).await?;
    if has_changed {
        sqlx::query("SELECT tilewake.raise_epoch(name) FROM tilewake.layer WHERE removed_at IS NULL ORDER BY name")
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(if has_changed { Cluster::Changed } else { Cluster::Same })
}
