//! What must hold once a world has come to rest, and what a decision may purge.

use std::collections::BTreeMap;

use tilewake_core::{
    event::{Carried, Event, EventId},
    feature::Version,
    layer::LayerName,
    ledger::{LedgerKey, LedgerRow},
    outbox::{OutboxRow, Record},
    timeline::Arrival,
};

use super::{
    capture::{key, layer_name},
    consumer::{Commit, Consumer, Judged, Name},
    controls::Invariant,
    database::{Database, Feature, N_LAYERS, Truth},
    places::Places,
    transport::Kind,
    world::World,
};

pub type Violation = (Invariant, String);

/// All that does not hold.
pub fn broken(world: &mut World) -> Vec<Violation> {
    let mut broken: Vec<_> = world.violations.iter().cloned().collect();
    broken.extend(stale_tiles(world));
    broken.extend(lost_edits(world));
    broken.extend(inventions(world));
    for name in &world.names {
        broken.extend(stuck_watermarks(world, name));
        broken.extend(false_geometry(world, name));
    }
    for name in 0..world.names.len() {
        broken.extend(replay(world, name));
    }
    broken
}

/// The rows that nobody has published.
pub fn unpublished(database: &Database) -> impl Iterator<Item = &OutboxRow> {
    database
        .visible
        .outbox
        .values()
        .filter(|stored| !stored.is_published)
        .map(|stored| &stored.row)
}

pub fn layer_of(row: &OutboxRow) -> LayerName {
    match &row.record {
        Record::Edit(edit) => edit.key.layer.clone(),
        Record::Epoch { layer, .. } => layer.clone(),
    }
}

/// I1: every cached tile draws what a fresh render draws.
fn stale_tiles(world: &World) -> Vec<Violation> {
    let tiles = world.caches.iter().flat_map(|cache| &cache.tiles);
    let fresh = |(layer, tile): (u8, u8)| world.database.visible.render(layer, tile);
    let stale = tiles.filter(|(tile, picture)| **picture != fresh(**tile));
    stale
        .map(|(tile, picture)| {
            (
                Invariant::I1,
                format!("tile {tile:?} shows {picture:?}, not {:?}", fresh(*tile)),
            )
        })
        .collect()
}

/// I2: every committed edit is consumed, with its tiles purged by box if it went to the dead letters, or was swallowed.
fn lost_edits(world: &World) -> Vec<Violation> {
    let tables = &world.database.visible;
    let mut lost = Vec::new();
    for row in unpublished(&world.database) {
        lost.push((Invariant::I2, format!("row {} stays unpublished", row.id)));
    }
    for id in tables.edits.keys().filter(|id| !tables.swallowed.contains(id)) {
        if !world.names[0].ever_consumed.contains(id) {
            lost.push((Invariant::I2, format!("{id} was never consumed")));
        }
    }
    lost
}

/// I4: what was announced was committed, and stays so.
fn inventions(world: &World) -> Vec<Violation> {
    let edits = &world.database.visible.edits;
    let announced = world.transport.log.iter().filter_map(|message| match &message.event {
        Event::Edit(event) => Some(&event.edit),
        Event::Epoch(_) => None,
    });
    let invented = announced.filter(|edit| edits.get(&edit.event_id()).is_none_or(|truth| truth.edit != **edit));
    invented
        .map(|edit| {
            (
                Invariant::I4,
                format!("{} was announced and never made", edit.event_id()),
            )
        })
        .collect()
}

/// The watermark of every feature edited in the layer's epoch is its version.
fn stuck_watermarks(world: &World, name: &Name) -> Vec<Violation> {
    let is_stuck = |row: &Known<'_>| row.watermark() != row.version || !row.ledger.timeline.seen().is_empty();
    let stuck = known(world, name).filter(is_stuck);
    stuck
        .map(|row| (Invariant::Watermark, format!("the watermark is stuck in {row:?}")))
        .collect()
}

/// What the ledger holds of a feature is what the table holds.
fn false_geometry(world: &World, name: &Name) -> Vec<Violation> {
    let agrees = |row: &Known<'_>| {
        let newest = row.ledger.timeline.newest();
        newest.is_some_and(|(version, shape)| *version == row.version && row.places.agrees_with(shape))
    };
    let false_rows = known(world, name).filter(|row| !agrees(row));
    false_rows
        .map(|row| (Invariant::Ledger, format!("the geometry is false in {row:?}")))
        .collect()
}

/// A feature and what the ledger knows of it.
#[derive(Debug)]
struct Known<'a> {
    #[expect(dead_code, reason = "printed")]
    feature: Feature,
    version: Version,
    places: Places,
    ledger: &'a LedgerRow,
}

impl Known<'_> {
    fn watermark(&self) -> Version {
        self.ledger.timeline.watermark()
    }
}

/// The features whose newest edit was made in their layer's epoch, and reached the consumer name.
fn known<'a>(world: &'a World, name: &'a Name) -> impl Iterator<Item = Known<'a>> {
    let tables = &world.database.visible;
    tables.versions.iter().filter_map(move |(feature, row)| {
        // What was truncated in the transaction that had edited it has no row and no last edit.
        let is_whole = tables.rows.contains_key(feature) || row.is_deleted;
        let layer = tables.layers[usize::from(feature.0)];
        let is_current = layer.epoch == row.epoch && layer.settings.is_some() && is_whole;
        let ledger = name.rows.get(&LedgerKey {
            feature: key(*feature),
            epoch: row.epoch,
        });
        let newest = EventId {
            key: key(*feature),
            epoch: row.epoch,
            version: row.version,
        };
        let ours = world.transport.log.iter().skip(name.first);
        let reached = ours.map(|message| message.event.id()).any(|id| id == newest);
        let places = tables.rows.get(feature).map(|row| row.places).unwrap_or_default();
        let known = |ledger| Known {
            feature: *feature,
            version: row.version,
            places,
            ledger,
        };
        ledger.filter(|_| is_current && reached).map(known)
    })
}

/// I3: the whole topic once more, through a consumer that remembers nothing, changes nothing and purges nothing; also
/// when the ids of the events have been forgotten.
fn replay(world: &mut World, number: usize) -> Vec<Violation> {
    let name = &mut world.names[number];
    name.consumed.clear();
    let before = (name.rows.clone(), name.layers.clone(), name.head);
    let topic = &mut world.transport;
    let is_there = |message: &usize| {
        // What a consumer in the relay's process lost when it died was never in a topic.
        topic.kind == Kind::Topic || name.ever_consumed.contains(&topic.log[*message].event.id())
    };
    name.pending = (name.first.min(topic.log.len())..topic.log.len())
        .filter(is_there)
        .collect();
    topic.kind = Kind::Topic;
    let mut consumer = [Consumer::new(0, None)];
    while !name.pending.is_empty() {
        consumer[0].take(name, topic, &[0, 1]);
        Consumer::decide(&mut consumer, 0, name, topic, |_| {});
        consumer[0].commit(name, topic, Commit::Done);
        consumer[0].acknowledge(topic);
    }
    let after = (name.rows.clone(), name.layers.clone(), name.head);
    if before == after {
        Vec::new()
    } else {
        vec![(Invariant::I3, format!("a replay changed {before:?} to {after:?}"))]
    }
}

/// No journal row names a tile beyond what its events call for; of layers that were changed unseen nobody can say.
pub fn exactness(judged: &Judged<'_>, database: &Database) -> Vec<Violation> {
    let layers = (0..N_LAYERS).filter(|layer| !database.changed_unseen.contains_key(layer));
    layers
        .filter_map(|layer| exactness_of(&layer_name(layer), judged, &database.visible.edits))
        .collect()
}

fn exactness_of(layer: &LayerName, judged: &Judged<'_>, truth: &BTreeMap<EventId, Truth>) -> Option<Violation> {
    let state = judged.known.layers.get(layer)?;
    let events = || judged.events.iter().filter(|event| event.layer() == layer);
    let raises = |event: &&&Event| event.epoch() > state.epoch || matches!(event, Event::Epoch(_));
    if state.settings.is_none() || events().any(|event| raises(&event)) {
        return None;
    }
    let entry = judged.decision.journal.iter().find(|entry| entry.layer == *layer)?;
    let allowed = events()
        .map(|event| allowed(event, judged, truth))
        .fold(Places::default(), Places::and);
    let text = || {
        format!(
            "{:?} purges {:?}, where {allowed:?} would do",
            entry.events, entry.tiles
        )
    };
    (!allowed.cover(&entry.tiles)).then(|| (Invariant::Exactness, text()))
}

/// What one event may purge: exactly the two sides of the edit if it is in order, else boxes and what it carries.
fn allowed(event: &Event, judged: &Judged<'_>, truth: &BTreeMap<EventId, Truth>) -> Places {
    let Event::Edit(edit) = event else {
        return Places::default();
    };
    let id = event.id();
    let arrival = judged
        .decision
        .arrivals
        .iter()
        .find(|arrived| arrived.id == id)
        .map(|arrived| arrived.arrival);
    let Some(Truth { before, after, .. }) = truth.get(&id) else {
        return Places::default();
    };
    let carried = match &edit.carried {
        Carried::Geometry(geometry) => Places::of(geometry),
        Carried::Tombstone => Places::default(),
        Carried::Omitted(_) => after.boxed(),
    };
    match arrival {
        Some(Arrival::InOrder) => before.and(*after),
        Some(Arrival::Jump) => before.boxed().and(carried),
        Some(Arrival::Late) => before.boxed(),
        _ => Places::default(),
    }
}
