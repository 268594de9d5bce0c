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
    /// The epochs whose own events have arrived, sorted; at most the newest [`MAX_RAISED`].
    pub raised: Vec<Epoch>,
    /// The last known settings, and the epoch whose event brought them.
    pub settings: Option<(Epoch, LayerSettings)>,
}

/// How many raised epochs of a layer are remembered: the event of an older one purges its layer again if it comes again.
pub const MAX_RAISED: usize = 256;

impl LayerState {
    /// A layer of which no event has arrived.
    const UNKNOWN: Self = Self {
        epoch: Epoch(i64::MIN),
        raised: Vec::new(),
        settings: None,
    };

    /// What two consumers of one name know together, whoever of them wrote first.
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        self.epoch = self.epoch.max(other.epoch);
        for epoch in &other.raised {
            self.note_raised(*epoch);
        }
        self.learn(other.settings);
        self
    }

    /// Whether the event of this epoch arrives for the first time.
    fn note_raised(&mut self, epoch: Epoch) -> bool {
        let Err(at) = self.raised.binary_search(&epoch) else {
            return false;
        };
        self.raised.insert(at, epoch);
        let n_forgotten = self.raised.len().saturating_sub(MAX_RAISED);
        self.raised.drain(..n_forgotten);
        true
    }

    /// Whether these are other settings than those known, and newer ones.
    fn learn(&mut self, settings: Option<(Epoch, LayerSettings)>) -> bool {
        let Some((epoch, new)) = settings else {
            return false;
        };
        match self.settings.replace((epoch, new)) {
            Some(known) if known.0 >= epoch => {
                self.settings = Some(known);
                false
            }
            known => known.is_none_or(|(_, known)| known != new),
        }
    }
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
                Event::Epoch(event) => take_epoch(ledger, event, &mut stale),
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
        /// The last version missing.
        last: Version,
    },
}

/// Judges the oldest gap of a row and closes it; `None` where there is none.
///
/// Only this gap has been open since the watermark last moved. A younger one above it may be of an event that is still on
/// its way: closed too, it would make a duplicate of that event, and what only the event knows would stay stale (I1).
pub fn judge_gap(row: &mut LedgerRow) -> Option<Gap> {
    let (above, _) = row.timeline.seen().first()?;
    let (first, last) = (row.timeline.watermark().next(), Version(above.0 - 1));
    row.timeline.close_gaps(last);
    let is_certain = row.certain_from.is_some_and(|from| last >= from);
    Some(if is_certain {
        Gap::Lost { first, last }
    } else {
        Gap::BeforeStart
    })
}

/// The journal entry that purges a whole layer, at every zoom: the settings may have named others before, or name others
/// since.
#[must_use]
pub fn purge_layer(layer: LayerName) -> JournalEntry {
    JournalEntry {
        layer,
        tiles: TileSet::everything(Zooms::ALL),
        events: Vec::new(),
    }
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

/// The first event of a newer epoch, whatever it says, makes the layer stale.
fn enter_epoch(ledger: &mut Ledger, event: &Event, stale: &mut StaleTiles) {
    let state = ledger
        .layers
        .entry(event.layer().clone())
        .or_insert(LayerState::UNKNOWN);
    if state.epoch < event.epoch() {
        state.epoch = event.epoch();
        stale.add(TileSet::everything(Zooms::ALL));
    }
}

/// Takes in what raised an epoch.
///
/// Other settings make the layer stale again: edits that came before them were decided with those known until then. And
/// so does an epoch that was overtaken by a newer one: epochs are taken before their commits and raised without waiting
/// for each other, so the purge for the newer one may have come before this one's commit (I1).
fn take_epoch(ledger: &mut Ledger, event: &EpochEvent, stale: &mut StaleTiles) -> Arrival {
    let state = ledger.layers.entry(event.layer.clone()).or_insert(LayerState::UNKNOWN);
    if !state.note_raised(event.epoch) {
        return Arrival::Duplicate;
    }
    let has_others = state.learn(event.settings.map(|settings| (event.epoch, settings)));
    if has_others || event.epoch < state.epoch {
        stale.add(TileSet::everything(Zooms::ALL));
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
    if row.timeline.has_seen(event.edit.version) {
        return Arrival::Duplicate;
    }
    if !is_current {
        // What an older epoch knew of geometry is not judged any more; its rows still tell duplicates.
        row.timeline.forget_geometry();
    }
    let (arrival, what) = row.timeline.apply(event);
    if !is_current {
        row.timeline.forget_geometry();
    }
    note_certainty(row, event, start);
    stale.add(tiles_of(&what, state, limits));
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

fn key_of(event: &EditEvent) -> LedgerKey {
    LedgerKey {
        feature: event.edit.key.clone(),
        epoch: event.edit.epoch,
    }
}
