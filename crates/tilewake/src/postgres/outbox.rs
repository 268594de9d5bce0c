//! The outbox, as a relay sees it: claim, mark, retry, bury.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row, postgres::PgRow};
use tilewake_core::{
    backoff,
    event::{Action, Changed, Edit, Event},
    feature::{Epoch, FeatureId, FeatureKey, LonLatBox, Version},
    layer::LayerName,
    outbox::{OutboxRow, Record, Settlement},
    route::RoutingKey,
};

use super::values;

/// The channel on which writers wake a sleeping relay. No payload: the row says it all.
pub const CHANNEL: &str = "tilewake_outbox";

/// Claims the oldest unpublished rows.
///
/// A flag a row, not an `id > last` cursor: ids are taken at insert but seen at commit, so a cursor would step over a
/// transaction that commits late (I2). The lower bound only spares the index entries of rows that were just published;
/// the relay starts from zero again once a second. The locks last until the rows are marked, in the same transaction: a
/// relay that dies frees its rows at once. Served by the partial index on unpublished rows.
const CLAIM: &str = "
    SELECT id, attempts, layer, epoch, feature_id, feature_version, base_version, event_type, changed::text,
           before_box::text, after_box::text,
           route_point[0] AS longitude, route_point[1] AS latitude,
           previous_route_point[0] AS previous_longitude, previous_route_point[1] AS previous_latitude,
           traceparent, created_at
    FROM tilewake.outbox
    WHERE published_at IS NULL AND id >= $1 AND (available_at IS NULL OR available_at <= clock_timestamp())
    ORDER BY id
    LIMIT $2
    FOR UPDATE SKIP LOCKED";

/// Claims at most `limit` rows from number `from` on, in the transaction that `connection` is in.
pub async fn claim(connection: &mut PgConnection, from: i64, limit: i64) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let rows = sqlx::query(CLAIM).bind(from).bind(limit).fetch_all(connection).await?;
    rows.iter().map(read_row).collect()
}

fn read_row(row: &PgRow) -> Result<OutboxRow, sqlx::Error> {
    let layer: String = row.try_get("layer")?;
    let layer = LayerName::new(&layer).map_err(decode)?;
    let epoch = Epoch(row.try_get("epoch")?);
    let version = Version(row.try_get("feature_version")?);
    let occurred_at: DateTime<Utc> = row.try_get("created_at")?;
    let record = if version == Version::ZERO {
        Record::Epoch {
            layer,
            epoch,
            occurred_at,
        }
    } else {
        Record::Edit(Edit {
            key: FeatureKey {
                layer,
                id: FeatureId::new(row.try_get::<String, _>("feature_id")?),
            },
            epoch,
            version,
            base_version: Version(row.try_get("base_version")?),
            action: Action::new(row.try_get::<String, _>("event_type")?),
            changed: read_changed(row.try_get("changed")?)?,
            before: read_box(row, "before_box")?,
            after: read_box(row, "after_box")?,
            routing_key: read_routing_key(row, "longitude", "latitude")?,
            previous_routing_key: read_routing_key(row, "previous_longitude", "previous_latitude")?,
            occurred_at,
            traceparent: row.try_get("traceparent")?,
        })
    };
    let attempts: i16 = row.try_get("attempts")?;
    Ok(OutboxRow {
        id: row.try_get("id")?,
        attempts: u32::try_from(attempts).unwrap_or_default(),
        record,
    })
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}

fn read_changed(code: &str) -> Result<Changed, sqlx::Error> {
    match code {
        "g" => Ok(Changed::Geometry),
        "a" => Ok(Changed::Attributes),
        "b" => Ok(Changed::Both),
        other => Err(sqlx::Error::Decode(
            format!("{other:?} says not what an edit changed").into(),
        )),
    }
}

fn read_box(row: &PgRow, column: &str) -> Result<Option<LonLatBox>, sqlx::Error> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| values::read_box(&text)).transpose().map_err(decode)
}

fn read_routing_key(row: &PgRow, longitude: &str, latitude: &str) -> Result<Option<RoutingKey>, sqlx::Error> {
    let point: (Option<f64>, Option<f64>) = (row.try_get(longitude)?, row.try_get(latitude)?);
    Ok(point
        .0
        .zip(point.1)
        .and_then(|(longitude, latitude)| RoutingKey::of_point(longitude, latitude)))
}

/// Writes what became of a batch, in the claiming transaction.
///
/// `jitter` is drawn anew for every row. The waits run on the database's clock, so that a relay's wrong one harms nobody.
pub async fn settle(
    connection: &mut PgConnection,
    settlement: &Settlement,
    buried: &[(i64, Event)],
    jitter: impl FnMut() -> f64,
) -> Result<(), sqlx::Error> {
    mark_published(connection, &settlement.published).await?;
    put_off(connection, &settlement.retry, jitter).await?;
    for (id, event) in buried {
        bury(connection, *id, event).await?;
    }
    Ok(())
}

/// Marks name `published_at IS NULL`, so that they use the partial index, which is the only one.
async fn mark_published(connection: &mut PgConnection, ids: &[i64]) -> Result<(), sqlx::Error> {
    const MARK: &str = "
        UPDATE tilewake.outbox SET published_at = clock_timestamp() WHERE id = ANY ($1) AND published_at IS NULL";
    if !ids.is_empty() {
        sqlx::query(MARK).bind(ids).execute(connection).await?;
    }
    Ok(())
}

async fn put_off(
    connection: &mut PgConnection,
    retries: &[(i64, u32, String)],
    mut jitter: impl FnMut() -> f64,
) -> Result<(), sqlx::Error> {
    const PUT_OFF: &str = "
        UPDATE tilewake.outbox SET attempts = retry.attempts, last_error = retry.error,
               available_at = clock_timestamp() + make_interval(secs => retry.wait)
        FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::double precision[]) AS retry (id, attempts, error, wait)
        WHERE outbox.id = retry.id AND published_at IS NULL";
    if retries.is_empty() {
        return Ok(());
    }
    let waits: Vec<f64> = retries
        .iter()
        .map(|(_, attempts, _)| backoff::delay(*attempts, jitter()).as_secs_f64())
        .collect();
    sqlx::query(PUT_OFF)
        .bind(retries.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
        .bind(
            retries
                .iter()
                .map(|(_, attempts, _)| i16::try_from(*attempts).unwrap_or(i16::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(retries.iter().map(|(.., error)| without_nul(error)).collect::<Vec<_>>())
        .bind(waits)
        .execute(connection)
        .await?;
    Ok(())
}

/// Postgres' text has no NUL, and an error message may quote one.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Moves a row to the dead letters. Its tiles were purged by box: an event without geometry was acknowledged first.
async fn bury(connection: &mut PgConnection, id: i64, event: &Event) -> Result<(), sqlx::Error> {
    const BURY: &str = "
        WITH dead AS (
            DELETE FROM tilewake.outbox WHERE id = $1 AND published_at IS NULL RETURNING *
        )
        INSERT INTO tilewake.dead_letter
               (id, epoch, feature_version, base_version, created_at, before_box, after_box, route_point,
                previous_route_point, schema_version, attempts, changed, layer, feature_id, event_type, traceparent, reason,
                error, event)
        SELECT id, epoch, feature_version, base_version, created_at, before_box, after_box, route_point,
               previous_route_point, schema_version, attempts, changed, layer, feature_id, event_type, traceparent,
               'undeliverable', last_error, $2::jsonb
        FROM dead";
    sqlx::query(BURY)
        .bind(id)
        .bind(String::from_utf8_lossy(&event.to_geojson()).into_owned())
        .execute(connection)
        .await?;
    Ok(())
}

/// How much waits, as the table has it: right also when no relay lives.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Backlog {
    /// Unpublished rows.
    pub unpublished_rows: i64,
    /// Age of the oldest of them in seconds; 0 without one.
    pub oldest_unpublished_seconds: f64,
}

impl Backlog {
    /// The age of the oldest unpublished row.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        Duration::try_from_secs_f64(self.oldest_unpublished_seconds).unwrap_or_default()
    }
}

/// Counts what waits.
pub async fn backlog(executor: impl sqlx::PgExecutor<'_>) -> Result<Backlog, sqlx::Error> {
    const COUNT: &str = "
        SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::double precision
        FROM tilewake.outbox WHERE published_at IS NULL";
    let (unpublished_rows, oldest): (i64, f64) = sqlx::query_as(COUNT).fetch_one(executor).await?;
    Ok(Backlog {
        unpublished_rows,
        oldest_unpublished_seconds: oldest.max(0.0),
    })
}
