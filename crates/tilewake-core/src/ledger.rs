//! What a consumer decides about a batch of events.
//!
//! The shell reads the ledger rows that a batch needs, asks [`decide`], and writes rows and journal in one transaction.
//! Events of one batch are taken in the order of their versions, which makes more of them arrive in order; the tiles that
//! are stale in the end do not depend on it (I3).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::{
    cover::CoverLimits,
    event::{EditEvent, EpochEvent, Event},
    feature::{Epoch, FeatureKey, Version},
    journal::{JournalEntry, JournalEvent},
    layer::{LayerName, LayerSettings, Zooms},
    staleness,
    tile_set::TileSet,
    timeline::{Arrival, Stale, Timeline},
};

/// What names a ledger row of one consumer name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerKey {
    /// The feature.
    pub feature: FeatureKey,
    /// The layer's epoch.
    pub epoch: Epoch,
}

/// A ledger row.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow {
    /// The order of the feature's versions.
    pub timeline: Timeline,
    /// Versions from here on are certain to reach this consumer name; `None` while that is known of none. A consumer
    /// name that starts in the middle of a topic may have missed those before.
    pub certain_from: Option<Version>,
}

/// What a consumer name knows of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerState {
    /// The newest epoch seen.
    pub epoch: Epoch,
    /// The last known settings, and the epoch whose event brought them.
    pub settings: Option<(Epoch, LayerSettings)>,
}

/// Since when a consumer name has been sure to get every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Since the first event there ever was.
    Beginning,
    /// Since this moment, by the clock of the features' database. Its layers were purged once, after it.
    Late(DateTime<Utc>),
}

/// The part of a ledger that a batch needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// The layers of the batch, as far as they are known.
    pub layers: BTreeMap<LayerName, LayerState>,
    /// The rows of the batch's features, as far as there are any.
    pub rows: BTreeMap<LedgerKey, LedgerRow>,
}

/// What was decided about a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to write to the journal: at most one row a layer.
    pub journal: Vec<JournalEntry>,
    /// How every event arrived, in the order of the decision.
    pub arrivals: Vec<JournalEvent>,
}

/// Decides about a batch, and brings the ledger up to date.
pub fn decide(ledger: &mut Ledger, events: &[&Event], start: Start, limits: CoverLimits) -> Decision {
    let mut decision = Decision::default();
    for (layer, events) in by_layer(events) {
        let mut stale = StaleTiles::default();
        let mut arrivals = Vec::with_capacity(events.len());
        for event in events {
            enter_epoch(ledger, event, &mut stale);
            let arrival = match event {
                Event::Epoch(event) => take_settings(ledger, event, &mut stale),
                Event::Edit(event) => take_edit(ledger, event, start, limits, &mut stale),
            };
            arrivals.push(JournalEvent {
                id: event.id(),
                arrival,
                occurred_at: event.occurred_at(),
            });
        }
        let tiles = stale.into_tiles();
        if !tiles.is_empty() {
            let events = arrivals
                .iter()
                .filter(|event| event.arrival != Arrival::Duplicate)
                .cloned()
                .collect();
            decision.journal.push(JournalEntry { layer, tiles, events });
        }
        decision.arrivals.extend(arrivals);
    }
    decision
}

/// The keys of the ledger rows that [`decide`] needs, sorted: the order in which to lock them.
#[must_use]
pub fn keys(events: &[&Event]) -> BTreeMap<LedgerKey, Version> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Edit(event) => Some((key_of(event), event.edit.base_version)),
            Event::Epoch(_) => None,
        })
        .collect()
}

/// What became of versions that have stayed away for longer than a relay would go on trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// They are from before the consumer name's start, whose purge covered them.
    BeforeStart,
    /// They are lost: the layer is purged and a person must know.
    Lost {
        /// The first version missing.
        first: Version,
    },
}

/// Judges the gaps of a row and closes them; `None` where there are none.
pub fn judge_gaps(row: &mut LedgerRow) -> Option<Gap> {
    let newest = row.timeline.newest_seen();
    let last_gap = row.timeline.seen().last().map(|_| last_missing(&row.timeline))?;
    let first = row.timeline.watermark().next();
    row.timeline.close_gaps(newest);
    let is_certain = row.certain_from.is_some_and(|from| last_gap >= from);
    Some(if is_certain {
        Gap::Lost { first }
    } else {
        Gap::BeforeStart
    })
}

/// The journal entry that purges a whole layer, at every zoom that the consumer name has known it at.
#[must_use]
pub fn purge_layer(layer: LayerName, state: Option<&LayerState>) -> JournalEntry {
    JournalEntry {
        layer,
        tiles: TileSet::everything(zooms_of(state)),
        events: Vec::new(),
    }
}

fn last_missing(timeline: &Timeline) -> Version {
    let below_last = timeline.seen().last().map_or(timeline.watermark(), |(from, _)| *from);
    Version(below_last.0 - 1)
}

/// Tiles as they become stale one event after another; united once, at the end.
#[derive(Default)]
struct StaleTiles(Vec<TileSet>);

impl StaleTiles {
    fn add(&mut self, tiles: TileSet) {
        self.0.push(tiles);
    }

    fn into_tiles(self) -> TileSet {
        TileSet::from_ranges(self.0.iter().flat_map(TileSet::ranges).cloned())
    }
}

/// Epochs first, then versions.
fn by_layer<'a>(events: &[&'a Event]) -> BTreeMap<LayerName, Vec<&'a Event>> {
    let mut layers: BTreeMap<LayerName, Vec<&'a Event>> = BTreeMap::new();
    for event in events {
        layers.entry(event.layer().clone()).or_default().push(event);
    }
    for events in layers.values_mut() {
        events.sort_by_cached_key(|event| (event.epoch(), event.id()));
    }
    layers
}

/// The first event of a newer epoch, whatever it says, makes the layer stale as it was known until then.
fn enter_epoch(ledger: &mut Ledger, event: &Event, stale: &mut StaleTiles) {
    let state = ledger.layers.get_mut(event.layer());
    match state {
        Some(state) if state.epoch >= event.epoch() => {}
        Some(state) => {
            state.epoch = event.epoch();
            stale.add(TileSet::everything(zooms_of(Some(state))));
        }
        None => {
            ledger.layers.insert(
                event.layer().clone(),
                LayerState {
                    epoch: event.epoch(),
                    settings: None,
                },
            );
            stale.add(TileSet::everything(Zooms::ALL));
        }
    }
}

/// The settings of a newer epoch make stale what the old and what the new ones name.
fn take_settings(ledger: &mut Ledger, event: &EpochEvent, stale: &mut StaleTiles) -> Arrival {
    let Some(state) = ledger.layers.get_mut(&event.layer) else {
        return Arrival::Epoch;
    };
    if state.settings.is_some_and(|(epoch, _)| epoch >= event.epoch) {
        return Arrival::Epoch;
    }
    stale.add(TileSet::everything(zooms_of(Some(state))));
    if let Some(settings) = event.settings {
        stale.add(TileSet::everything(settings.zooms));
        state.settings = Some((event.epoch, settings));
    }
    Arrival::Epoch
}

fn take_edit(
    ledger: &mut Ledger,
    event: &EditEvent,
    start: Start,
    limits: CoverLimits,
    stale: &mut StaleTiles,
) -> Arrival {
    let state = ledger.layers.get(&event.edit.key.layer);
    let is_current = state.is_some_and(|state| state.epoch == event.edit.epoch);
    let row = ledger.rows.entry(key_of(event)).or_insert_with(|| LedgerRow {
        timeline: Timeline::new(event.edit.base_version),
        certain_from: matches!(start, Start::Beginning).then_some(Version::ZERO),
    });
    if !is_current {
        // What an older epoch knew of geometry is not judged any more; its rows still tell duplicates.
        row.timeline.forget_geometry();
    }
    let (arrival, what) = row.timeline.apply(event);
    if !is_current {
        row.timeline.forget_geometry();
    }
    if arrival != Arrival::Duplicate {
        note_certainty(row, event, start);
        stale.add(tiles_of(&what, state, limits));
    }
    arrival
}

/// An edit made after a late start is certain to arrive, and so is every later one of its feature.
fn note_certainty(row: &mut LedgerRow, event: &EditEvent, start: Start) {
    if let Start::Late(since) = start
        && event.edit.occurred_at > since
    {
        let version = event.edit.version;
        row.certain_from = Some(row.certain_from.map_or(version, |from| from.min(version)));
    }
}

fn tiles_of(stale: &Stale, state: Option<&LayerState>, limits: CoverLimits) -> TileSet {
    let Some((_, settings)) = state.and_then(|state| state.settings.as_ref()) else {
        // Until the first settings arrive nothing is known of zooms and buffer.
        return TileSet::everything(Zooms::ALL);
    };
    match stale {
        Stale::Change { before, after, changed } => staleness::stale_tiles(before, after, *changed, settings, limits),
        Stale::Footprints(shapes) => staleness::footprints(shapes, settings, limits).tiles,
    }
}

fn zooms_of(state: Option<&LayerState>) -> Zooms {
    state
        .and_then(|state| state.settings.as_ref())
        .map_or(Zooms::ALL, |(_, settings)| settings.zooms)
}

fn key_of(event: &EditEvent) -> LedgerKey {
    LedgerKey {
        feature: event.edit.key.clone(),
        epoch: event.edit.epoch,
    }
}
