//! The journal of decided invalidations, and how a purger follows it.
//!
//! The rows of one consumer name are numbered without holes, in the order of their commits. So a purger that has read up
//! to a number has missed nothing before it, and a hole can only mean that rows were pruned before they were read: then
//! everything is purged (I1, I5).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::{event::EventId, layer::LayerName, tile_set::TileSet, timeline::Arrival};

/// An event in a journal row.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEvent {
    /// What names it.
    pub id: EventId,
    /// How it arrived.
    pub arrival: Arrival,
    /// When the edit was made, by the clock of the features' database.
    pub occurred_at: DateTime<Utc>,
}

/// One decided invalidation: tiles of one layer, and the events that made them stale.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// The layer.
    pub layer: LayerName,
    /// The stale tiles.
    pub tiles: TileSet,
    /// The events, in the order of their decision. Empty where no event is to blame: a gap, a new consumer name.
    pub events: Vec<JournalEvent>,
}

/// What one statement read of a journal.
#[derive(Clone, Debug)]
pub struct Page {
    /// The number of the newest row there is.
    pub head: i64,
    /// The oldest rows behind the cursor, in order; perhaps not all of them.
    pub rows: Vec<(i64, LayerName, TileSet)>,
}

/// What a purger does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Purge {
    /// Nothing new.
    Nothing,
    /// Drops these tiles.
    Tiles(BTreeMap<LayerName, TileSet>),
    /// Drops all it holds: rows were pruned before they were read, or reading them would take longer than filling anew.
    Everything,
}

/// What to purge, and where the cursor stands once that is done: never before (I1).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to purge.
    pub purge: Purge,
    /// The cursor afterwards.
    pub cursor: i64,
}

/// Plans the next purge of a purger whose cursor stands at `cursor` and that rather starts anew than read more than
/// `max_behind` rows.
#[must_use]
pub fn plan(cursor: i64, page: Page, max_behind: i64) -> Plan {
    let head = page.head;
    let is_unbroken = page
        .rows
        .iter()
        .zip(cursor + 1..)
        .all(|((number, ..), expected)| *number == expected);
    let is_pruned = head > cursor && page.rows.is_empty();
    // A head behind the cursor is that of a database restored from a backup.
    if !is_unbroken || is_pruned || head < cursor || head - cursor > max_behind {
        return Plan {
            purge: Purge::Everything,
            cursor: head,
        };
    }
    let Some(cursor) = page.rows.last().map(|(number, ..)| *number) else {
        return Plan {
            purge: Purge::Nothing,
            cursor,
        };
    };
    let mut tiles: BTreeMap<LayerName, TileSet> = BTreeMap::new();
    for (_, layer, stale) in page.rows {
        let united = tiles.entry(layer).or_default();
        *united = united.union(&stale);
    }
    Plan {
        purge: Purge::Tiles(tiles),
        cursor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Zooms;

    fn page(head: i64, numbers: &[i64]) -> Page {
        let row = |number: &i64| {
            let layer = LayerName::new("roads").unwrap();
            (
                *number,
                layer,
                TileSet::everything(Zooms::new(0, u8::try_from(*number).unwrap()).unwrap()),
            )
        };
        Page {
            head,
            rows: numbers.iter().map(row).collect(),
        }
    }

    #[test]
    fn rows_are_united_and_the_cursor_stands_behind_the_last_of_them() {
        let Plan {
            purge: Purge::Tiles(tiles),
            cursor: 5,
        } = plan(3, page(9, &[4, 5]), 100)
        else {
            panic!()
        };
        assert_eq!(tiles.values().map(TileSet::n_tiles).collect::<Vec<_>>(), [1365]);
    }

    #[test]
    fn at_the_end_there_is_nothing_to_do() {
        assert_eq!(
            plan(9, page(9, &[]), 100),
            Plan {
                purge: Purge::Nothing,
                cursor: 9
            }
        );
    }

    #[test]
    fn whoever_cannot_have_read_all_purges_everything() {
        for (cursor, page) in [
            (3, page(9, &[5, 6])),
            (3, page(9, &[])),
            (3, page(9, &[4, 6])),
            (10, page(9, &[])),
            (3, page(200, &[4])),
        ] {
            assert_eq!(
                plan(cursor, page.clone(), 100),
                Plan {
                    purge: Purge::Everything,
                    cursor: page.head
                }
            );
        }
    }
}
