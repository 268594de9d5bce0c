//! The world: it takes one step after another, and then comes to rest.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use tilewake_core::{
    feature::Version,
    ledger::{LedgerKey, Start, purge_layer},
};

use super::{
    cache::Cache,
    capture::{Raise, layer_name},
    consumer::{Commit, Consumer, Name},
    controls::{Invariant, Weakness},
    database::{Database, Feature, Layer, N_LAYERS, Row, Write},
    gaps::Patience,
    laws,
    places::{N_TILES, Places},
    relay::{Claim, Fate, Relay, Source},
    step::{History, N_CACHES, N_CONSUMERS, N_RELAYS, N_WRITERS, Step},
    transport::{Kind, Transport},
};

/// How far a consumer name is that begins when others have long been at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    Unknown,
    HalfWay,
    Done,
}

pub struct World {
    pub database: Database,
    pub transport: Transport,
    /// The first name has been there from the beginning; the second begins late.
    pub names: Vec<Name>,
    pub caches: Vec<Cache>,
    pub violations: BTreeSet<(Invariant, String)>,
    pub consumers: Vec<Consumer>,
    pub patience: BTreeMap<(usize, LedgerKey, Version), Patience>,
    pub weakness: Option<Weakness>,
    relays: Vec<Relay>,
    second: Beginning,
    now: i64,
}

impl World {
    /// Two layers that are tracked, with a feature each that is older than its layer.
    pub fn new(transport: Kind, weakness: Option<Weakness>) -> Self {
        let mut database = Database::default();
        database.visible.layers = vec![
            Layer {
                epoch: tilewake_core::feature::Epoch(0),
                settings: None
            };
            2
        ];
        let rows = (0..N_LAYERS).map(|layer| {
            let places = Places(1 << layer);
            Write::Row(Feature(layer, 0), Some(Row { places, colour: 0 }))
        });
        database.commit_from_the_beginning(rows.collect());
        for layer in 0..N_LAYERS {
            database.raise(0, layer, Raise::Alter((1, 1)), 0);
        }
        let names = vec![Name::new(Start::Beginning, 0), Name::new(Start::Beginning, usize::MAX)];
        // Only a topic lets a second name begin in its middle.
        let follows = |cache: usize| if transport == Kind::Topic { cache } else { 0 };
        let mut world = Self {
            transport: Transport::new(transport),
            caches: (0..N_CACHES)
                .map(|i| Cache::start(follows(i), &names[0], &database, weakness))
                .collect(),
            names,
            violations: BTreeSet::new(),
            relays: (0..N_RELAYS).map(|number| Relay::new(number, weakness)).collect(),
            consumers: (0..N_CONSUMERS).map(|i| Consumer::new(i / 2, weakness)).collect(),
            second: Beginning::Unknown,
            patience: BTreeMap::new(),
            now: 1,
            database,
            weakness,
        };
        world.commit(0);
        world.database.flush();
        world
    }

    /// Lives through a history and comes to rest.
    pub fn live(history: &History, weakness: Option<Weakness>) -> Self {
        let mut world = Self::new(history.transport, weakness);
        for step in &history.steps {
            world.now += 1;
            world.step(step);
        }
        world.rest();
        world
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin { writer, snapshot } => self.database.begin(*writer, *snapshot),
            Step::Edit {
                writer,
                feature,
                change,
            } => {
                self.database.edit(*writer, *feature, *change, self.now);
            }
            Step::Raise { writer, layer, raise } => self.database.raise(*writer, *layer, *raise, self.now),
            Step::Commit { writer } => self.commit(*writer),
            Step::Rollback { writer } => drop(self.database.writers.remove(writer)),
            Step::EditAlone { feature, change } => {
                self.database.edit(N_WRITERS, *feature, *change, self.now);
                self.commit(N_WRITERS);
            }
            Step::RaiseAlone { layer, raise } => {
                self.database.raise(N_WRITERS, *layer, *raise, self.now);
                self.commit(N_WRITERS);
            }
            Step::FlushLog => self.database.flush(),
            Step::CrashDatabase => self.crash_database(),
            Step::Hide { feature } => self.database.hide(*feature),
            Step::Claim { relay, claim } => self.relays[*relay].claim(&mut self.database, *claim, self.now),
            Step::Relay { relay, source, fates } => self.relay(*relay, *source, fates),
            Step::RelayBatch { relay, fates } => self.relay_batch(*relay, fates),
            Step::TimeOutRelay { relay } => self.relays[*relay].time_out(&mut self.database),
            Step::KillRelay { relay } => self.relays[*relay].die(&mut self.database),
            Step::Request { cache, layer, tile } => self.caches[*cache].request((*layer, *tile)),
            Step::Fill { cache, fill } => self.caches[*cache].fill(usize::from(*fill), &self.database),
            Step::FillAll { cache } => self.caches[*cache].fill_all(&self.database),
            Step::Render { cache, layer } => self.render(*cache, *layer),
            Step::Warm { cache, layer } => {
                self.render(*cache, *layer);
                self.caches[*cache].fill_all(&self.database);
            }
            Step::Follow { cache, n_times } => (0..*n_times).for_each(|_| self.follow(*cache)),
            Step::FollowAll { cache } => (0..40).for_each(|_| self.follow(*cache)),
            Step::FailPurge { cache } => self.caches[*cache].fail(),
            Step::RestartCache { cache } => self.restart_cache(*cache),
            Step::Propagate { relay } => self.propagate(*relay),
            step => self.consumer_step(step),
        }
    }

    fn consumer_step(&mut self, step: &Step) {
        match step {
            Step::Take { consumer, picks } => self.take(*consumer, picks),
            Step::Decide { consumer } => self.decide(*consumer),
            Step::CommitLedger { consumer, commit } => self.commit_ledger(*consumer, *commit),
            Step::Acknowledge { consumer } => self.consumers[*consumer].acknowledge(&mut self.transport),
            Step::Consume {
                consumer,
                picks,
                commit,
            } => self.consume(*consumer, picks, *commit),
            Step::KillConsumer { consumer } => self.kill_consumer(*consumer),
            Step::Repeat { name, message } => self.repeat(*name, usize::from(*message)),
            Step::StartLate => self.start_late(),
            Step::JudgeGaps { name } => self.judge_gaps(*name),
            Step::ForgetIds { name } => self.names[*name].consumed.clear(),
            Step::PruneJournal { name, keep } => {
                let oldest = self.names[*name].head - i64::from(*keep);
                self.names[*name].journal.retain(|number, _| *number > oldest);
            }
            _ => unreachable!("{step:?} is no step of a consumer"),
        }
    }

    fn commit(&mut self, writer: u8) {
        if let Some(transaction) = self.database.writers.remove(&writer) {
            self.database.commit(transaction.writes);
        }
    }

    fn crash_database(&mut self) {
        self.database.crash();
    }

    fn relay(&mut self, relay: usize, source: Source, fates: &[Fate]) {
        self.relays[relay].advance(&mut self.database, &mut self.transport, source, fates, self.now);
    }

    fn relay_batch(&mut self, relay: usize, fates: &[Fate]) {
        self.relays[relay].claim(&mut self.database, Claim::Full, self.now);
        while !self.relays[relay].is_idle() {
            self.relay(relay, Source::Primary, fates);
        }
    }

    fn propagate(&mut self, relay: usize) {
        for _ in 0..4 {
            self.relays[relay].claim(&mut self.database, Claim::Full, self.now);
            (0..3).for_each(|_| self.relay(relay, Source::Primary, &[Fate::Taken]));
            (1..N_CONSUMERS).for_each(|consumer| self.consume(consumer, &[0, 0, 0], Commit::Done));
            self.relay(relay, Source::Primary, &[Fate::Taken]);
        }
    }

    fn take(&mut self, consumer: usize, picks: &[u8]) {
        let name = self.consumers[consumer].name;
        if name == 0 || self.second != Beginning::Unknown {
            self.consumers[consumer].take(&mut self.names[name], &mut self.transport, picks);
        }
    }

    fn decide(&mut self, consumer: usize) {
        let name = self.consumers[consumer].name;
        let database = &self.database;
        let violations = &mut self.violations;
        let is_weak = self.weakness.is_some();
        Consumer::decide(
            &mut self.consumers,
            consumer,
            &mut self.names[name],
            &self.transport,
            |judged| {
                if !is_weak {
                    violations.extend(laws::exactness(&judged, database));
                }
            },
        );
    }

    fn commit_ledger(&mut self, consumer: usize, commit: Commit) {
        let name = self.consumers[consumer].name;
        self.consumers[consumer].commit(&mut self.names[name], &self.transport, commit);
    }

    fn consume(&mut self, consumer: usize, picks: &[u8], commit: Commit) {
        self.take(consumer, picks);
        self.decide(consumer);
        self.commit_ledger(consumer, commit);
        self.consumers[consumer].acknowledge(&mut self.transport);
    }

    fn kill_consumer(&mut self, consumer: usize) {
        let name = self.consumers[consumer].name;
        self.consumers[consumer].die(&mut self.names[name], &self.transport);
    }

    fn repeat(&mut self, name: usize, message: usize) {
        let name = &mut self.names[name];
        let n_messages = self.transport.log.len().saturating_sub(name.first);
        if n_messages > 0 {
            name.fetch(&self.transport);
            name.pending.push(name.first + message % n_messages);
        }
    }

    /// The second name begins: fixes where in the topic, and only then purges its layers.
    fn start_late(&mut self) {
        if self.transport.kind == Kind::Direct {
            return;
        }
        let purges_first = self.weakness == Some(Weakness::PurgeBeforeOffsets);
        match (self.second, purges_first) {
            (Beginning::Unknown, false) | (Beginning::HalfWay, true) => {
                let now = DateTime::from_timestamp(self.now, 0).unwrap();
                self.names[1].begin(Start::Late(now), self.transport.log.len());
            }
            (Beginning::HalfWay, false) | (Beginning::Unknown, true) => {
                (0..N_LAYERS).for_each(|layer| self.names[1].append(purge_layer(layer_name(layer))));
            }
            (Beginning::Done, _) => {}
        }
        self.second = if self.second == Beginning::Unknown {
            Beginning::HalfWay
        } else {
            Beginning::Done
        };
    }

    fn render(&mut self, cache: usize, layer: u8) {
        let cache = &mut self.caches[cache];
        (0..N_TILES).for_each(|tile| cache.request((layer, tile)));
        cache.read_all(&self.database);
    }

    fn follow(&mut self, cache: usize) {
        let cache = &mut self.caches[cache];
        if let Err(needless) = cache.follow(&self.names[cache.name], &self.database) {
            self.violations.insert((Invariant::Exactness, needless));
        }
    }

    fn restart_cache(&mut self, cache: usize) {
        let name = self.caches[cache].name;
        self.caches[cache] = Cache::start(name, &self.names[name], &self.database, self.weakness);
    }

    /// The edits stop, everybody lives, and all queues empty themselves; the slowest renders end last.
    fn rest(&mut self) {
        (0..N_WRITERS).for_each(|writer| self.commit(writer));
        self.database.reconcile(N_WRITERS, self.now);
        self.commit(N_WRITERS);
        self.start_late();
        self.start_late();
        for _ in 0..400 {
            self.now += 1;
            self.round();
            if self.is_quiet() {
                return self.caches.iter_mut().for_each(|cache| cache.fill_all(&self.database));
            }
        }
        self.violations
            .insert((Invariant::I2, "the queues never empty themselves".into()));
    }

    fn round(&mut self) {
        for relay in 0..N_RELAYS {
            self.relays[relay].claim(&mut self.database, Claim::Full, self.now);
            self.relay(relay, Source::Primary, &[Fate::Taken]);
        }
        (0..N_CONSUMERS).for_each(|consumer| self.consume(consumer, &[0, 0, 0], Commit::Done));
        (0..2).for_each(|name| self.judge_gaps(name));
        for cache in 0..N_CACHES {
            self.follow(cache);
        }
    }

    fn is_quiet(&self) -> bool {
        self.relays.iter().all(Relay::is_idle)
            && laws::unpublished(&self.database).next().is_none()
            && self.consumers.iter().all(Consumer::is_idle)
            && self
                .names
                .iter()
                .all(|name| name.pending.is_empty() && !name.lags_behind(self.transport.log.len()))
            && (0..2).all(|name| self.gaps(name).is_empty())
            && self
                .caches
                .iter()
                .all(|cache| cache.is_quiet(&self.names[cache.name], &self.database))
    }
}
