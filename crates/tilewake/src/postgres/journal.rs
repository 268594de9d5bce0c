//! The journal table: appended by consumers, followed by purgers, pruned behind them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgExecutor, Row, postgres::PgRow, types::Json};
use tilewake_core::{
    journal::{JournalEntry, JournalEvent, Page},
    layer::LayerName,
    tile_set::TileSet,
};

/// The channel on which consumers say that their journal has grown; the payload is the consumer name.
pub const CHANNEL: &str = "tilewake_journal";

/// An event as a journal row names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedEvent {
    /// The event id.
    pub id: String,
    /// How it arrived.
    pub arrival: String,
    /// When the edit was made.
    pub occurred_at: DateTime<Utc>,
}

impl From<&JournalEvent> for NamedEvent {
    fn from(event: &JournalEvent) -> Self {
        Self {
            id: event.id.to_string(),
            arrival: event.arrival.as_str().to_owned(),
            occurred_at: event.occurred_at,
        }
    }
}

/// Appends entries and tells the purgers.
///
/// The numbers come from the consumer's row, whose lock is held until the commit: so they have no holes, and their order
/// is the order of the commits. A sequence would promise neither.
pub async fn append(
    connection: &mut PgConnection,
    consumer: &str,
    entries: &[JournalEntry],
) -> Result<(), sqlx::Error> {
    const APPEND: &str = "
        WITH head AS (
            UPDATE tilewake.consumer SET journal_number = journal_number + cardinality($2::text[])
            WHERE name = $1 RETURNING journal_number
        ), told AS (
            SELECT pg_notify('tilewake_journal', $1)
        )
        INSERT INTO tilewake.journal (consumer, number, layer, tiles, events)
        SELECT $1, head.journal_number - cardinality($2::text[]) + nth, layer, tiles, events
        FROM head, told, unnest($2::text[], $3::bytea[], $4::jsonb[]) WITH ORDINALITY AS entry (layer, tiles, events, nth)";
    if entries.is_empty() {
        return Ok(());
    }
    let events = |entry: &JournalEntry| Json(entry.events.iter().map(NamedEvent::from).collect::<Vec<_>>());
    let appended = sqlx::query(APPEND)
        .bind(consumer)
        .bind(entries.iter().map(|entry| entry.layer.as_str()).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| entry.tiles.encode()).collect::<Vec<_>>())
        .bind(entries.iter().map(events).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    // Without the consumer's row there are no numbers, and what was decided would be dropped in silence.
    if appended.rows_affected() != entries.len() as u64 {
        return Err(sqlx::Error::RowNotFound);
    }
    Ok(())
}

/// The number of the newest row.
pub async fn head(executor: impl PgExecutor<'_>, consumer: &str) -> Result<i64, sqlx::Error> {
    let head = "SELECT journal_number FROM tilewake.consumer WHERE name = $1";
    Ok(sqlx::query_scalar(head)
        .bind(consumer)
        .fetch_optional(executor)
        .await?
        .unwrap_or_default())
}

/// What stands behind a cursor, and the events that it names, row by row.
pub struct Read {
    /// The rows.
    pub page: Page,
    /// The events of each row.
    pub events: Vec<Vec<NamedEvent>>,
}

/// Reads at most `limit` rows behind `cursor`, with the head from the same snapshot.
pub async fn read(executor: impl PgExecutor<'_>, consumer: &str, cursor: i64, limit: i64) -> Result<Read, sqlx::Error> {
    const READ: &str = "
        SELECT head.journal_number, row.number, row.layer, row.tiles, row.events
        FROM tilewake.consumer AS head
        LEFT JOIN LATERAL (
            SELECT number, layer, tiles, events FROM tilewake.journal
            WHERE consumer = head.name AND number > $2 ORDER BY number LIMIT $3
        ) AS row ON true
        WHERE head.name = $1
        ORDER BY row.number";
    let rows = sqlx::query(READ)
        .bind(consumer)
        .bind(cursor)
        .bind(limit)
        .fetch_all(executor)
        .await?;
    let head = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let mut read = Read {
        page: Page { head, rows: Vec::new() },
        events: Vec::new(),
    };
    for row in &rows {
        if let Some((number, layer, tiles, events)) = read_row(row)? {
            read.page.rows.push((number, layer, tiles));
            read.events.push(events);
        }
    }
    Ok(read)
}

type JournalRow = (i64, LayerName, TileSet, Vec<NamedEvent>);

fn read_row(row: &PgRow) -> Result<Option<JournalRow>, sqlx::Error> {
    let Some(number) = row.try_get::<Option<i64>, _>(1)? else {
        return Ok(None);
    };
    let layer: String = row.try_get(2)?;
    let layer = LayerName::new(&layer).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let tiles = TileSet::decode(row.try_get(3)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let events: Json<Vec<NamedEvent>> = row.try_get(4)?;
    Ok(Some((number, layer, tiles, events.0)))
}
