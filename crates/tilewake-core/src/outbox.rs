//! What a relay makes of outbox rows: which event each becomes, and what happens to the row once it was sent.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use geo_types::Geometry;

use crate::{
    event::{Carried, Edit, EditEvent, EpochEvent, Event, Omission, WalPosition},
    feature::{Epoch, Version},
    layer::{LayerName, LayerSettings},
};

/// An outbox row that a relay has claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    /// The row's number: taken at insert, seen at commit, so no order to rely on.
    pub id: i64,
    /// How often sending it alone has failed.
    pub attempts: u32,
    /// What it records.
    pub record: Record,
}

/// What an outbox row records.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// An edit of a feature.
    Edit(Edit),
    /// A raised epoch of a layer.
    Epoch {
        /// The layer.
        layer: LayerName,
        /// The epoch that begins.
        epoch: Epoch,
        /// When it was raised.
        occurred_at: DateTime<Utc>,
    },
}

/// A feature as one statement read it: version and geometry from one snapshot, or they do not belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    /// The feature's version.
    pub version: Version,
    /// Whether the version row says that the feature is gone.
    pub is_deleted: bool,
    /// What the layer's table holds.
    pub row: CurrentRow,
}

/// What a layer's table holds of a feature.
#[derive(Clone, Debug, PartialEq)]
pub enum CurrentRow {
    /// No row.
    Missing,
    /// A row whose geometry is NULL or empty.
    Empty,
    /// A row with a geometry.
    Geometry(Arc<Geometry<f64>>),
    /// A row with a geometry that cannot be carried.
    Omitted(Omission),
}

/// Makes the event of an edit; `current` is `None` where the feature could not be read at all.
///
/// A missing row is a tombstone only if its version row says so too: it may as well be hidden by row-level security.
#[must_use]
pub fn join(edit: Edit, current: Option<Current>, wal_position: WalPosition) -> EditEvent {
    let (geometry_version, carried) = match current {
        None => (edit.version, Carried::Omitted(Omission::NotReadable)),
        Some(current) if current.version < edit.version => (edit.version, Carried::Omitted(Omission::Behind)),
        Some(Current {
            version,
            is_deleted,
            row,
        }) => match row {
            CurrentRow::Missing if is_deleted => (version, Carried::Tombstone),
            CurrentRow::Empty if !is_deleted => (version, Carried::Tombstone),
            CurrentRow::Geometry(geometry) if !is_deleted => (version, Carried::Geometry(geometry)),
            CurrentRow::Omitted(omission) => (edit.version, Carried::Omitted(omission)),
            _ => (edit.version, Carried::Omitted(Omission::NotReadable)),
        },
    };
    EditEvent {
        edit,
        geometry_version,
        carried,
        wal_position,
    }
}

/// The event of an edit that could not be delivered with its geometry: sent in its stead before the row is buried.
#[must_use]
pub fn without_geometry(edit: Edit, wal_position: WalPosition) -> EditEvent {
    let geometry_version = edit.version;
    EditEvent {
        edit,
        geometry_version,
        carried: Carried::Omitted(Omission::Undeliverable),
        wal_position,
    }
}

/// Makes the event of a raised epoch.
#[must_use]
pub fn raised(
    layer: LayerName,
    epoch: Epoch,
    settings: Option<LayerSettings>,
    occurred_at: DateTime<Utc>,
    wal_position: WalPosition,
) -> Event {
    Event::Epoch(EpochEvent {
        layer,
        epoch,
        settings,
        occurred_at,
        wal_position,
    })
}

/// What became of sending one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The transport has it for good.
    Acknowledged,
    /// The transport refused this event and would take others.
    Refused(String),
    /// The transport as a whole failed; whether it has the event is not known.
    Unknown,
}

/// What a relay writes in the claiming transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Rows to mark as published: exactly those that were acknowledged, never a range (I2).
    pub published: Vec<i64>,
    /// Rows to try again later, with how often they have now failed and why.
    pub retry: Vec<(i64, u32, String)>,
    /// Rows to move to the dead letters: an event without geometry was acknowledged in their stead.
    pub buried: Vec<i64>,
}

/// Decides what happens to the rows of a batch.
///
/// A row that has failed `max_attempts` times is sent without geometry, and buried once that is acknowledged: its tiles
/// are then purged by box (I2). A failure of the transport as a whole burns no attempts.
#[must_use]
pub fn settle<'a>(batch: impl IntoIterator<Item = (&'a OutboxRow, Sent)>, max_attempts: u32) -> Settlement {
    let mut settlement = Settlement::default();
    for (row, sent) in batch {
        match sent {
            Sent::Acknowledged if is_exhausted(row, max_attempts) => settlement.buried.push(row.id),
            Sent::Acknowledged => settlement.published.push(row.id),
            Sent::Refused(error) => settlement.retry.push((row.id, row.attempts + 1, error)),
            Sent::Unknown => {}
        }
    }
    settlement
}

/// Whether the row is to be sent without geometry, for the last time.
#[must_use]
pub fn is_exhausted(row: &OutboxRow, max_attempts: u32) -> bool {
    row.attempts >= max_attempts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, attempts: u32) -> OutboxRow {
        let layer = LayerName::new("roads").unwrap();
        OutboxRow {
            id,
            attempts,
            record: Record::Epoch {
                layer,
                epoch: Epoch(1),
                occurred_at: DateTime::UNIX_EPOCH,
            },
        }
    }

    #[test]
    fn exactly_the_acknowledged_rows_are_marked() {
        let rows = [row(1, 0), row(2, 0), row(3, 9), row(4, 10), row(5, 10)];
        let sent = [
            Sent::Acknowledged,
            Sent::Unknown,
            Sent::Refused("too large".into()),
            Sent::Acknowledged,
            Sent::Refused("still".into()),
        ];
        let settlement = settle(rows.iter().zip(sent), 10);
        assert_eq!(settlement.published, [1]);
        assert_eq!(settlement.retry, [(3, 10, "too large".into()), (5, 11, "still".into())]);
        assert_eq!(settlement.buried, [4]);
    }
}
