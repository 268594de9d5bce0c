//! Weakenings of the world, each of which breaks an invariant. The laws are worth something only if they notice.

use tilewake_core::{
    cover::CoverLimits,
    event::{Carried, EditEvent, Event},
    feature::{LonLatBox, Shape, Version},
    ledger::{self, Decision, Ledger, LedgerKey, LedgerRow, Start},
    timeline::{Arrival, Timeline},
};

use super::places::Places;

/// What a law says must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No stale tile.
    I1,
    /// No lost edit.
    I2,
    /// Repeats and disorder are harmless.
    I3,
    /// Nothing invented.
    I4,
    /// No watermark stuck.
    Watermark,
    /// No gap is called lost where nothing is lost.
    FalseGap,
    /// The ledger's geometry is the table's.
    Ledger,
    /// Nothing is purged beyond what the events name.
    Exactness,
}

/// Something done in a wrong order, or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    MarkBeforePublish,
    MarkByRange,
    InnerJoin,
    Cursor,
    AnnounceBeforeFlush,
    NoLastCheck,
    TwoSnapshots,
    TombstoneByAbsence,
    NoBoxOnLate,
    NoBoxOnJump,
    JumpAsInOrder,
    LateSkipped,
    NoFootprintOfNewGeometry,
    BaseVersionIgnored,
    EpochWithoutPurge,
    OvertakenEpochIgnored,
    SettingsIgnored,
    AcknowledgeBeforeLedger,
    RememberBeforeCommit,
    NumbersBeforeCommit,
    LostUpdate,
    GapsByClockAlone,
    CertainFromFirstSeen,
    PurgeBeforeOffsets,
    DropBeforeSpoil,
    NoFence,
    TicketAfterRead,
    CursorBeforePurge,
    KeepAfterCrash,
}

/// Every weakness, and the invariant that it breaks.
pub const CONTROLS: [(Weakness, Invariant); 29] = [
    (Weakness::MarkBeforePublish, Invariant::I2),
    (Weakness::MarkByRange, Invariant::I2),
    (Weakness::InnerJoin, Invariant::I2),
    (Weakness::Cursor, Invariant::I2),
    (Weakness::AnnounceBeforeFlush, Invariant::I4),
    (Weakness::NoLastCheck, Invariant::I4),
    (Weakness::TwoSnapshots, Invariant::I1),
    (Weakness::TombstoneByAbsence, Invariant::I1),
    (Weakness::NoBoxOnLate, Invariant::I1),
    (Weakness::NoBoxOnJump, Invariant::I1),
    (Weakness::JumpAsInOrder, Invariant::I1),
    (Weakness::LateSkipped, Invariant::I1),
    (Weakness::NoFootprintOfNewGeometry, Invariant::I1),
    (Weakness::BaseVersionIgnored, Invariant::FalseGap),
    (Weakness::EpochWithoutPurge, Invariant::I1),
    (Weakness::OvertakenEpochIgnored, Invariant::I1),
    (Weakness::SettingsIgnored, Invariant::I1),
    (Weakness::AcknowledgeBeforeLedger, Invariant::I2),
    (Weakness::RememberBeforeCommit, Invariant::I2),
    (Weakness::NumbersBeforeCommit, Invariant::I1),
    (Weakness::LostUpdate, Invariant::Watermark),
    (Weakness::GapsByClockAlone, Invariant::FalseGap),
    (Weakness::CertainFromFirstSeen, Invariant::FalseGap),
    (Weakness::PurgeBeforeOffsets, Invariant::I1),
    (Weakness::DropBeforeSpoil, Invariant::I1),
    (Weakness::NoFence, Invariant::I1),
    (Weakness::TicketAfterRead, Invariant::I1),
    (Weakness::CursorBeforePurge, Invariant::I1),
    (Weakness::KeepAfterCrash, Invariant::I1),
];

/// Decides event by event, with one thing wrong.
pub fn decide_weakly(weakness: Weakness, ledger: &mut Ledger, events: &[&Event], start: Start) -> Decision {
    let mut events = events.to_vec();
    events.sort_by_cached_key(|event| (event.epoch(), event.id()));
    let mut decision = Decision::default();
    for event in events {
        let mut event = event.clone();
        tamper(weakness, ledger, &mut event);
        let known = ledger.clone();
        let mut one = ledger::decide(ledger, &[&event], start, CoverLimits::default());
        if let Event::Edit(event) = &event {
            amend(weakness, &known, ledger, event, start, &mut one);
        }
        decision.journal.append(&mut one.journal);
        decision.arrivals.append(&mut one.arrivals);
    }
    decision
}

fn key_of(event: &EditEvent) -> LedgerKey {
    LedgerKey {
        feature: event.edit.key.clone(),
        epoch: event.edit.epoch,
    }
}

/// What the ledger would make of the event.
fn foresee(ledger: &Ledger, event: &EditEvent) -> (Timeline, Arrival) {
    let row = ledger.rows.get(&key_of(event));
    let timeline = row.map_or_else(|| Timeline::new(event.edit.base_version), |row| row.timeline.clone());
    let arrival = timeline.clone().apply(event).0;
    (timeline, arrival)
}

/// Changes what the decision is made from.
fn tamper(weakness: Weakness, ledger: &mut Ledger, event: &mut Event) {
    let is_overtaken = ledger
        .layers
        .get(event.layer())
        .is_some_and(|state| state.epoch > event.epoch());
    if weakness == Weakness::EpochWithoutPurge || (weakness == Weakness::OvertakenEpochIgnored && is_overtaken) {
        enter_silently(ledger, event);
    }
    match event {
        Event::Edit(event) => tamper_with_edit(weakness, ledger, event),
        Event::Epoch(event) => {
            let known = ledger.layers.get(&event.layer).and_then(|state| state.settings);
            if let (Weakness::SettingsIgnored, Some((_, known))) = (weakness, known) {
                event.settings = Some(known);
            }
        }
    }
}

fn tamper_with_edit(weakness: Weakness, ledger: &Ledger, event: &mut EditEvent) {
    let (timeline, arrival) = foresee(ledger, event);
    match (weakness, arrival) {
        (Weakness::NoBoxOnLate, Arrival::Late) | (Weakness::NoBoxOnJump, Arrival::Jump) => event.edit.before = None,
        // What was applied last is taken for what the edit replaced.
        (Weakness::JumpAsInOrder, Arrival::Jump) => {
            event.edit.before = timeline.newest().and_then(|(_, shape)| bounds(shape));
        }
        (Weakness::BaseVersionIgnored, _) => event.edit.base_version = Version::ZERO,
        _ => {}
    }
}

fn bounds(shape: &Shape) -> Option<LonLatBox> {
    match shape {
        Shape::Absent => None,
        Shape::Box(b) => Some(*b),
        Shape::Geometry(geometry) => Places::of(geometry).bounds(),
    }
}

/// Learns of a newer epoch and its settings before the decision, which then sees nothing new in it.
fn enter_silently(ledger: &mut Ledger, event: &Event) {
    let Some(state) = ledger.layers.get_mut(event.layer()) else {
        return;
    };
    state.epoch = state.epoch.max(event.epoch());
    if let Event::Epoch(event) = event
        && !state.raised.contains(&event.epoch)
    {
        state.raised.push(event.epoch);
        state.raised.sort_unstable();
        state.settings = event
            .settings
            .map(|settings| (event.epoch, settings))
            .or(state.settings);
    }
}

/// Changes what was decided.
fn amend(
    weakness: Weakness,
    known: &Ledger,
    ledger: &mut Ledger,
    event: &EditEvent,
    start: Start,
    decision: &mut Decision,
) {
    let arrived = decision.arrivals.last().map(|event| event.arrival);
    match (weakness, arrived) {
        (Weakness::LateSkipped, Some(Arrival::Late)) => decision.journal.clear(),
        (Weakness::NoFootprintOfNewGeometry, Some(Arrival::Jump)) => {
            let mut event = event.clone();
            event.carried = Carried::Tombstone;
            let event = Event::Edit(event);
            decision.journal = ledger::decide(&mut known.clone(), &[&event], start, CoverLimits::default()).journal;
        }
        (Weakness::CertainFromFirstSeen, _) => {
            if let Some(LedgerRow { certain_from, .. }) = ledger.rows.get_mut(&key_of(event)) {
                *certain_from = certain_from.or(Some(event.edit.version));
            }
        }
        _ => {}
    }
}
