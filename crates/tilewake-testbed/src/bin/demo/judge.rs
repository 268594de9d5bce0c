//! Judges the journal: are the right edits in it, with the right tiles?
//!
//! Pure, and independent of the code it judges: what an edit may and must make stale comes from `PostGIS` and the demo's
//! own record, by the rules of the design.

use std::collections::{BTreeMap, BTreeSet};

use tilewake_core::{
    event::EventId,
    feature::{FeatureKey, Version},
    tile_set::TileSet,
    timeline::Arrival,
};

use crate::{
    area::LayerTile,
    edits::Kind,
    history::{Drawn, History, JournalRow, Recorded},
};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// Committed edits.
    pub(crate) n_edits: u64,
    /// Edits that no journal row names (I2).
    pub(crate) lost: Vec<EventId>,
    /// Events of no committed edit (I4).
    pub(crate) invented: Vec<EventId>,
    /// Events that more than one journal row names, or one row twice (I3).
    pub(crate) repeated: Vec<EventId>,
    /// Tiles in journal rows, row by row.
    pub(crate) n_purged: u64,
    /// Of these, tiles that no event of the row can have made stale.
    pub(crate) n_overpurged: u64,
    /// Tiles that an event of a row must have made stale, and that are not in it (I1).
    pub(crate) n_missed: u64,
    /// Tiles of those asked for that no row names.
    pub(crate) n_untouched: u64,
    /// Rows that purged too much or too little, in words.
    pub(crate) complaints: Vec<String>,
    /// The kinds of edits.
    pub(crate) kinds: BTreeMap<Kind, OfKind>,
}

/// What came of one kind of edit.
#[derive(Debug, Default)]
pub(crate) struct OfKind {
    pub(crate) n_edits: u64,
    pub(crate) n_events: u64,
    pub(crate) in_order: u64,
    pub(crate) jumps: u64,
    pub(crate) late: u64,
    /// Tiles that the journal calls stale because of these edits.
    pub(crate) n_stale: u64,
}

/// Judges all of it. `asked` are the tiles in the cache.
pub(crate) fn judge(history: &History, journal: &[JournalRow], asked: &[LayerTile]) -> Judgement {
    let mut judgement = Judgement::default();
    let carried = carried(history, journal);
    count_edits(history, &mut judgement);
    compare_events(history, journal, &mut judgement);
    for row in journal {
        judge_row(row, history, &carried, &mut judgement);
    }
    judgement.n_untouched = n_untouched(journal, asked);
    judgement
}

fn count_edits(history: &History, judgement: &mut Judgement) {
    for kind in history
        .versions
        .values()
        .flat_map(BTreeMap::values)
        .filter_map(|recorded| recorded.kind)
    {
        judgement.n_edits += 1;
        judgement.kinds.entry(kind).or_default().n_edits += 1;
    }
}

/// Every edit must be named once, and nothing else.
fn compare_events(history: &History, journal: &[JournalRow], judgement: &mut Judgement) {
    let mut named = BTreeSet::new();
    for (id, _) in journal.iter().flat_map(|row| &row.events) {
        if !named.insert(id.clone()) {
            judgement.repeated.push(id.clone());
        }
    }
    let made: BTreeSet<EventId> = made(history).collect();
    judgement.lost = made.difference(&named).cloned().collect();
    judgement.invented = named.difference(&made).cloned().collect();
}

/// The ids that the events of all committed edits must have.
fn made(history: &History) -> impl Iterator<Item = EventId> {
    history.versions.iter().flat_map(|(key, versions)| {
        let epoch = history.epochs.get(&key.layer);
        versions
            .iter()
            .filter(|(_, recorded)| recorded.kind.is_some())
            .filter_map(move |(&version, _)| {
                Some(EventId {
                    key: key.clone(),
                    epoch: *epoch?,
                    version,
                })
            })
    })
}

fn judge_row(row: &JournalRow, history: &History, carried: &Carried, judgement: &mut Judgement) {
    let mut allowed = TileSet::new();
    let mut required = TileSet::new();
    for (id, arrival) in &row.events {
        let Some(sets) = sets(id, *arrival, history, carried) else {
            continue;
        };
        allowed = allowed.union(&sets.allowed);
        required = required.union(&sets.required);
        if let Some(kind) = recorded(history, &id.key, id.version).and_then(|recorded| recorded.kind) {
            let of_kind = judgement.kinds.entry(kind).or_default();
            of_kind.n_events += 1;
            of_kind.count(*arrival);
            of_kind.n_stale += row.tiles.intersection(&sets.allowed).n_tiles();
        }
    }
    judgement.n_purged += row.tiles.n_tiles();
    let (over, missed) = (row.tiles.difference(&allowed), required.difference(&row.tiles));
    judgement.n_overpurged += over.n_tiles();
    judgement.n_missed += missed.n_tiles();
    judgement.complaints.extend(complaint(row, "too many", &over));
    judgement.complaints.extend(complaint(row, "too few", &missed));
}

fn complaint(row: &JournalRow, what: &str, tiles: &TileSet) -> Option<String> {
    let example = tiles.iter().next()?;
    let events: Vec<_> = row
        .events
        .iter()
        .map(|(id, arrival)| format!("{id} ({})", arrival.as_str()))
        .collect();
    let n_tiles = tiles.n_tiles();
    Some(format!(
        "journal row {} has {n_tiles} tiles {what}, as {example}: {}",
        row.number,
        events.join(", ")
    ))
}

impl OfKind {
    fn count(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => self.in_order += 1,
            Arrival::Jump => self.jumps += 1,
            Arrival::Late => self.late += 1,
            Arrival::Duplicate | Arrival::Epoch => {}
        }
    }
}

/// What an event may, and what it must make stale.
struct Sets {
    allowed: TileSet,
    required: TileSet,
}

fn sets(id: &EventId, arrival: Arrival, history: &History, carried: &Carried) -> Option<Sets> {
    let nothing = Drawn::default();
    let after = &recorded(history, &id.key, id.version)?.drawn;
    let before = recorded(history, &id.key, Version(id.version.0 - 1)).map_or(&nothing, |before| &before.drawn);
    if arrival == Arrival::InOrder {
        return Some(Sets {
            allowed: before.perhaps.union(&after.perhaps),
            required: before.surely.union(&after.surely),
        });
    }
    let mut sets = Sets {
        allowed: before.by_box.union(&after.by_box),
        required: before.surely.clone(),
    };
    let versions = carried.get(id).copied().unwrap_or_default();
    for version in versions.first..=versions.last {
        if let Some(geometry) = recorded(history, &id.key, Version(version)) {
            sets.allowed = sets.allowed.union(&geometry.drawn.perhaps);
            if versions.first == versions.last {
                sets.required = sets.required.union(&geometry.drawn.surely);
            }
        }
    }
    Some(sets)
}

fn recorded<'a>(history: &'a History, key: &FeatureKey, version: Version) -> Option<&'a Recorded> {
    history.versions.get(key)?.get(&version)
}

type Carried = BTreeMap<EventId, Versions>;

/// The versions that the geometry of an event may have had; nothing if `first > last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    first: i64,
    last: i64,
}

impl Default for Versions {
    fn default() -> Self {
        Self { first: 1, last: 0 }
    }
}

/// Which geometry each event carried: the journal does not say, but what came after does.
fn carried(history: &History, journal: &[JournalRow]) -> Carried {
    let mut events: BTreeMap<&FeatureKey, Vec<(&EventId, Arrival)>> = BTreeMap::new();
    for (id, arrival) in journal.iter().flat_map(|row| &row.events) {
        events.entry(&id.key).or_default().push((id, *arrival));
    }
    let mut carried = Carried::new();
    for (key, events) in events {
        let newest = history
            .versions
            .get(key)
            .and_then(BTreeMap::last_key_value)
            .map_or(0, |(version, _)| version.0);
        let order: Vec<_> = events.iter().map(|(id, arrival)| (id.version.0, *arrival)).collect();
        carried.extend(
            events
                .iter()
                .map(|(id, _)| (*id).clone())
                .zip(versions_in(&order, newest)),
        );
    }
    carried
}

/// Backwards through one feature's events: at the end the newest version is known, an event in order says which version
/// was known before it, and between these a jump took the geometry of its own or a later version.
fn versions_in(events: &[(i64, Arrival)], newest: i64) -> Vec<Versions> {
    let mut known = Versions {
        first: newest,
        last: newest,
    };
    let mut found = vec![Versions::default(); events.len()];
    for (found, &(version, arrival)) in found.iter_mut().zip(events).rev() {
        match arrival {
            Arrival::InOrder => {
                *found = Versions {
                    first: version,
                    last: version,
                };
                known = Versions {
                    first: version - 1,
                    last: version - 1,
                };
            }
            Arrival::Jump => {
                *found = Versions {
                    first: known.first.max(version),
                    last: known.last,
                };
                known = Versions {
                    first: 0,
                    last: known.last - 1,
                };
            }
            Arrival::Late | Arrival::Duplicate | Arrival::Epoch => {}
        }
    }
    found
}

fn n_untouched(journal: &[JournalRow], asked: &[LayerTile]) -> u64 {
    let of_layer = |layer: &str| {
        TileSet::union_all(
            journal
                .iter()
                .filter(|row| row.layer.as_str() == layer)
                .map(|row| &row.tiles),
        )
    };
    let layers: BTreeSet<_> = asked.iter().map(|tile| tile.layer).collect();
    let purged: BTreeMap<_, _> = layers.into_iter().map(|layer| (layer, of_layer(layer))).collect();
    asked
        .iter()
        .filter(|asked| !purged[asked.layer].contains(asked.tile))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use tilewake_core::{
        feature::{Epoch, FeatureId},
        layer::LayerName,
        tile::TileId,
    };

    use super::*;

    fn layer() -> LayerName {
        LayerName::new("roads").unwrap()
    }

    fn tiles(columns: std::ops::Range<u32>) -> TileSet {
        columns.map(|x| TileId::new(8, x, 0).unwrap()).collect()
    }

    fn id(version: i64) -> EventId {
        let key = FeatureKey {
            layer: layer(),
            id: FeatureId::new("1"),
        };
        EventId {
            key,
            epoch: Epoch(1),
            version: Version(version),
        }
    }

    /// A feature that with version `v` moves to column `10 v`, and comes within a grid unit of the next.
    fn history(newest: i64) -> History {
        let recorded = |v: i64| Recorded {
            kind: (v > 1).then_some(Kind::AcrossTiles),
            transaction: v,
            drawn: {
                let x = 10 * u32::try_from(v).unwrap();
                Drawn {
                    surely: tiles(x..x + 1),
                    perhaps: tiles(x..x + 2),
                    by_box: tiles(x..x + 5),
                }
            },
        };
        let versions = (1..=newest).map(|v| (Version(v), recorded(v))).collect();
        History {
            versions: std::iter::once((id(1).key, versions)).collect(),
            epochs: std::iter::once((layer(), Epoch(1))).collect(),
        }
    }

    fn row(version: i64, arrival: Arrival, tiles: TileSet) -> JournalRow {
        JournalRow {
            number: 1,
            layer: layer(),
            tiles,
            events: vec![(id(version), arrival)],
        }
    }

    fn found(newest: i64, journal: &[JournalRow]) -> (u64, u64, usize) {
        let judgement = judge(&history(newest), journal, &[]);
        (judgement.n_overpurged, judgement.n_missed, judgement.lost.len())
    }

    #[test]
    fn an_edit_in_order_may_purge_what_it_left_and_entered_and_nothing_else() {
        let purged = tiles(10..11).union(&tiles(20..21));
        assert_eq!(found(2, &[row(2, Arrival::InOrder, purged.clone())]), (0, 0, 0));
        assert_eq!(
            found(2, &[row(2, Arrival::InOrder, purged.union(&tiles(21..23)))]),
            (1, 0, 0)
        );
        assert_eq!(found(2, &[row(2, Arrival::InOrder, tiles(10..11))]), (0, 1, 0));
    }

    #[test]
    fn a_jump_may_purge_boxes_and_the_geometry_it_carried() {
        let journal = |jump: TileSet| {
            [
                row(2, Arrival::Jump, jump),
                row(3, Arrival::Late, tiles(20..25)),
                row(4, Arrival::Late, tiles(30..35)),
            ]
        };
        assert_eq!(found(4, &journal(tiles(10..15).union(&tiles(40..41)))), (0, 0, 0));
        // What it carried was the fourth version, not the third.
        assert_eq!(
            found(4, &journal(tiles(10..15).union(&tiles(30..31)).union(&tiles(40..41)))),
            (1, 0, 0)
        );
        assert_eq!(found(4, &journal(tiles(10..15))), (0, 1, 0));
    }

    #[test]
    fn an_event_in_order_tells_what_the_jump_before_it_carried() {
        let versions = |first, last| Versions { first, last };
        let order = [
            (2, Arrival::Jump),
            (4, Arrival::InOrder),
            (3, Arrival::Late),
            (5, Arrival::Jump),
            (6, Arrival::Jump),
        ];
        let nothing = Versions::default();
        assert_eq!(
            versions_in(&order, 7),
            [versions(3, 3), versions(4, 4), nothing, versions(5, 6), versions(7, 7)]
        );
    }

    #[test]
    fn a_lost_an_invented_and_a_repeated_event_are_found() {
        let right = || row(2, Arrival::InOrder, tiles(10..11).union(&tiles(20..21)));
        assert_eq!(judge(&history(3), &[right()], &[]).lost, [id(3)]);
        assert_eq!(
            judge(&history(2), &[right(), row(9, Arrival::Late, TileSet::new())], &[]).invented,
            [id(9)]
        );
        assert_eq!(judge(&history(2), &[right(), right()], &[]).repeated, [id(2)]);
    }

    #[test]
    fn a_tile_that_no_row_names_is_untouched() {
        let asked = |x| LayerTile {
            layer: "roads",
            tile: TileId::new(8, x, 0).unwrap(),
        };
        let journal = [row(2, Arrival::InOrder, tiles(10..11))];
        assert_eq!(judge(&history(2), &journal, &[asked(10), asked(11)]).n_untouched, 1);
    }
}
