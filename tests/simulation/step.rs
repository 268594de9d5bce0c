//! What can happen next, and how histories are drawn.

use std::fmt;

use proptest::{collection::vec, prelude::*, strategy::Union};

use super::{
    capture::{Change, Raise, Snapshot},
    consumer::Commit,
    database::{Feature, N_FEATURES, N_LAYERS},
    places::{N_TILES, Places},
    relay::{Claim, Fate, Source},
    transport::Kind,
};

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    Begin {
        writer: u8,
        snapshot: Snapshot,
    },
    Edit {
        writer: u8,
        feature: Feature,
        change: Change,
    },
    Raise {
        writer: u8,
        layer: u8,
        raise: Raise,
    },
    Commit {
        writer: u8,
    },
    Rollback {
        writer: u8,
    },
    /// An edit in a transaction of its own.
    EditAlone {
        feature: Feature,
        change: Change,
    },
    /// An epoch raised in a transaction of its own.
    RaiseAlone {
        layer: u8,
        raise: Raise,
    },
    FlushLog,
    CrashDatabase,
    /// The relay's role loses or regains sight of a feature.
    Hide {
        feature: Feature,
    },
    Claim {
        relay: usize,
        claim: Claim,
    },
    Relay {
        relay: usize,
        source: Source,
        fates: Vec<Fate>,
    },
    /// A relay takes a batch all the way.
    RelayBatch {
        relay: usize,
        fates: Vec<Fate>,
    },
    TimeOutRelay {
        relay: usize,
    },
    KillRelay {
        relay: usize,
    },
    Take {
        consumer: usize,
        picks: Vec<u8>,
    },
    Decide {
        consumer: usize,
    },
    CommitLedger {
        consumer: usize,
        commit: Commit,
    },
    Acknowledge {
        consumer: usize,
    },
    /// A consumer takes a batch all the way.
    Consume {
        consumer: usize,
        picks: Vec<u8>,
        commit: Commit,
    },
    KillConsumer {
        consumer: usize,
    },
    Repeat {
        name: usize,
        message: u8,
    },
    StartLate,
    JudgeGaps {
        name: usize,
    },
    ForgetIds {
        name: usize,
    },
    PruneJournal {
        name: usize,
        keep: u8,
    },
    Request {
        cache: usize,
        layer: u8,
        tile: u8,
    },
    Fill {
        cache: usize,
        fill: u8,
    },
    /// All fills read that have not read yet, and all end.
    FillAll {
        cache: usize,
    },
    /// Every tile of a layer is asked for, and read; the renders end later.
    Render {
        cache: usize,
        layer: u8,
    },
    /// Every tile of a layer is asked for and filled.
    Warm {
        cache: usize,
        layer: u8,
    },
    Follow {
        cache: usize,
        n_times: u8,
    },
    /// A purger goes on to the journal's end.
    FollowAll {
        cache: usize,
    },
    FailPurge {
        cache: usize,
    },
    RestartCache {
        cache: usize,
    },
    /// A relay and a consumer of each name do what there is to do.
    Propagate {
        relay: usize,
    },
}

/// A world's beginning, and what happens in it.
#[derive(Clone)]
pub struct History {
    pub transport: Kind,
    pub steps: Vec<Step>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a history over {:?}:", self.transport)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// What a history dwells on, in small steps; the rest happens in large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Writers,
    Relays,
    Consumers,
    Caches,
}

/// Histories of up to `n_steps` steps.
pub fn history(n_steps: usize) -> impl Strategy<Value = History> {
    let transport = prop_oneof![2 => Just(Kind::Topic), 1 => Just(Kind::Direct)];
    let focus = [Focus::Writers, Focus::Relays, Focus::Consumers, Focus::Caches].map(Just);
    let steps = Union::new(focus).prop_flat_map(move |focus| vec(step(focus), 1..n_steps));
    (transport, steps).prop_map(|(transport, steps)| History { transport, steps })
}

pub const N_WRITERS: u8 = 3;
pub const N_RELAYS: usize = 3;
pub const N_CONSUMERS: usize = 3;
pub const N_CACHES: usize = 2;

fn step(focus: Focus) -> impl Strategy<Value = Step> {
    let weight = |on: Focus| if on == focus { 14 } else { 1 };
    prop_oneof![
        weight(Focus::Writers) => writer_step(),
        weight(Focus::Relays) => relay_step(),
        weight(Focus::Consumers) => consumer_step(),
        weight(Focus::Caches) => cache_step(),
        14 => large_step(),
    ]
}

fn large_step() -> impl Strategy<Value = Step> {
    let relay = || 1..N_RELAYS;
    prop_oneof![
        8 => (feature(), change()).prop_map(|(feature, change)| Step::EditAlone { feature, change }),
        1 => (layer(), raise()).prop_map(|(layer, raise)| Step::RaiseAlone { layer, raise }),
        3 => (relay(), vec(fate(), 1..4)).prop_map(|(relay, fates)| Step::RelayBatch { relay, fates }),
        2 => (consumer(), vec(any::<u8>(), 1..4), commit())
            .prop_map(|(consumer, picks, commit)| Step::Consume { consumer, picks, commit }),
        4 => relay().prop_map(|relay| Step::Propagate { relay }),
        3 => (cache(), layer()).prop_map(|(cache, layer)| Step::Warm { cache, layer }),
        2 => (cache(), layer()).prop_map(|(cache, layer)| Step::Render { cache, layer }),
        1 => cache().prop_map(|cache| Step::FillAll { cache }),
        4 => cache().prop_map(|cache| Step::FollowAll { cache }),
        1 => Just(Step::StartLate),
        1 => Just(Step::CrashDatabase),
    ]
}

fn consumer() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0usize), 1 => Just(1usize), 2 => 2..N_CONSUMERS]
}

fn commit() -> impl Strategy<Value = Commit> {
    prop_oneof![4 => Just(Commit::Done), 1 => Just(Commit::Failed), 1 => Just(Commit::Unheard)]
}

fn cache() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0usize), 1 => 1..N_CACHES]
}

/// Mostly the same feature, so that histories keep coming back to it.
fn feature() -> impl Strategy<Value = Feature> {
    prop_oneof![
        4 => Just(Feature(0, 0)),
        1 => (0..N_LAYERS, 0..N_FEATURES).prop_map(|(layer, number)| Feature(layer, number)),
    ]
}

fn places() -> impl Strategy<Value = Places> {
    prop_oneof![6 => (0..4u8).prop_map(|place| Places(1 << place)), 2 => (0..16u8).prop_map(Places)]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![5 => places().prop_map(Change::Put), 1 => Just(Change::Paint), 2 => Just(Change::Delete)]
}

fn raise() -> impl Strategy<Value = Raise> {
    let zooms = prop_oneof![Just((1, 1)), Just((0, 1)), Just((0, 0))];
    prop_oneof![
        Just(Raise::Truncate),
        zooms.prop_map(Raise::Alter),
        Just(Raise::Remove),
        Just(Raise::Swallow),
        places().prop_map(Raise::Reconcile),
    ]
}

fn layer() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0u8), 1 => Just(1u8)]
}

fn writer_step() -> impl Strategy<Value = Step> {
    let snapshot = prop_oneof![Just(Snapshot::Statement), Just(Snapshot::Transaction)];
    let writer = || 0..N_WRITERS;
    prop_oneof![
        2 => (writer(), snapshot).prop_map(|(writer, snapshot)| Step::Begin { writer, snapshot }),
        6 => (writer(), feature(), change())
            .prop_map(|(writer, feature, change)| Step::Edit { writer, feature, change }),
        2 => (writer(), layer(), raise()).prop_map(|(writer, layer, raise)| Step::Raise { writer, layer, raise }),
        6 => writer().prop_map(|writer| Step::Commit { writer }),
        1 => writer().prop_map(|writer| Step::Rollback { writer }),
        2 => Just(Step::FlushLog),
        1 => feature().prop_map(|feature| Step::Hide { feature }),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![5 => Just(Fate::Taken), 2 => Just(Fate::Refused), 1 => Just(Fate::TakenUnheard), 1 => Just(Fate::Lost)]
}

fn relay_step() -> impl Strategy<Value = Step> {
    let relay = || prop_oneof![3 => Just(0usize), 1 => 1..N_RELAYS];
    let source = prop_oneof![4 => Just(Source::Primary), 1 => Just(Source::Replica)];
    let claim = prop_oneof![Just(Claim::Remembered), Just(Claim::Full)];
    prop_oneof![
        5 => (relay(), claim).prop_map(|(relay, claim)| Step::Claim { relay, claim }),
        16 => (relay(), source, vec(fate(), 1..4))
            .prop_map(|(relay, source, fates)| Step::Relay { relay, source, fates }),
        1 => relay().prop_map(|relay| Step::TimeOutRelay { relay }),
        1 => relay().prop_map(|relay| Step::KillRelay { relay }),
    ]
}

fn consumer_step() -> impl Strategy<Value = Step> {
    let name = || 0..2usize;
    let picks = || vec(any::<u8>(), 1..4);
    prop_oneof![
        6 => (consumer(), picks()).prop_map(|(consumer, picks)| Step::Take { consumer, picks }),
        6 => consumer().prop_map(|consumer| Step::Decide { consumer }),
        5 => (consumer(), commit()).prop_map(|(consumer, commit)| Step::CommitLedger { consumer, commit }),
        4 => consumer().prop_map(|consumer| Step::Acknowledge { consumer }),
        1 => consumer().prop_map(|consumer| Step::KillConsumer { consumer }),
        1 => (name(), any::<u8>()).prop_map(|(name, message)| Step::Repeat { name, message }),
        2 => Just(Step::StartLate),
        2 => name().prop_map(|name| Step::JudgeGaps { name }),
        1 => name().prop_map(|name| Step::ForgetIds { name }),
        1 => (name(), 0..3u8).prop_map(|(name, keep)| Step::PruneJournal { name, keep }),
    ]
}

fn cache_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (cache(), layer(), 0..N_TILES).prop_map(|(cache, layer, tile)| Step::Request { cache, layer, tile }),
        4 => (cache(), any::<u8>()).prop_map(|(cache, fill)| Step::Fill { cache, fill }),
        4 => cache().prop_map(|cache| Step::FillAll { cache }),
        6 => (cache(), 1..5u8).prop_map(|(cache, n_times)| Step::Follow { cache, n_times }),
        1 => cache().prop_map(|cache| Step::FailPurge { cache }),
        1 => cache().prop_map(|cache| Step::RestartCache { cache }),
    ]
}
