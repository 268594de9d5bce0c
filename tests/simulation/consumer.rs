//! Consumer names with their ledgers, and the processes that work for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tilewake_core::{
    cover::CoverLimits,
    event::{Event, EventId},
    journal::{JournalEntry, Page},
    layer::LayerName,
    ledger::{self, Decision, LayerState, Ledger, LedgerKey, LedgerRow, Start},
    timeline::Timeline,
};

use super::{
    controls::{self, Weakness},
    transport::{Kind, Transport},
};

/// How many ids of events a process remembers.
const REMEMBERED: usize = 3;

/// What a consumer name keeps in its database.
pub struct Name {
    pub start: Start,
    /// The first message it gets.
    pub first: usize,
    next: usize,
    pub pending: Vec<usize>,
    pub consumed: BTreeSet<EventId>,
    /// The same, never forgotten: for the laws only.
    pub ever_consumed: BTreeSet<EventId>,
    pub layers: BTreeMap<LayerName, LayerState>,
    pub rows: BTreeMap<LedgerKey, LedgerRow>,
    pub journal: BTreeMap<i64, JournalEntry>,
    pub head: i64,
}

impl Name {
    pub fn new(start: Start, first: usize) -> Self {
        Self {
            start,
            first,
            next: first,
            pending: Vec::new(),
            consumed: BTreeSet::new(),
            ever_consumed: BTreeSet::new(),
            layers: BTreeMap::new(),
            rows: BTreeMap::new(),
            journal: BTreeMap::new(),
            head: 0,
        }
    }

    /// Begins to consume from here on; the journal goes on.
    pub fn begin(&mut self, start: Start, first: usize) {
        (self.start, self.first, self.next) = (start, first, first);
    }

    /// Learns of what was published since.
    pub fn fetch(&mut self, transport: &Transport) {
        let end = transport.log.len().max(self.next);
        self.pending.extend(self.next..end);
        self.next = end;
    }

    /// Whether it has not yet learned of all messages before `end`.
    pub fn lags_behind(&self, end: usize) -> bool {
        self.next < end
    }

    /// Appends to the journal: the lock for its numbers is taken last, so this and the commit are one.
    pub fn append(&mut self, entry: JournalEntry) {
        self.head += 1;
        self.journal.insert(self.head, entry);
    }

    /// What a purger reads with one statement.
    pub fn page(&self, cursor: i64, limit: usize) -> Page {
        let rows = self.journal.range(cursor + 1..).take(limit);
        Page {
            head: self.head,
            rows: rows
                .map(|(number, entry)| (*number, entry.layer.clone(), entry.tiles.clone()))
                .collect(),
        }
    }

    /// What a transaction reads of the features once it holds their rows.
    fn load(&self, events: &[&Event]) -> Ledger {
        let stored = |key: &LedgerKey| {
            self.rows.get(key).map(|row| {
                let (timeline, certain_from) = (&row.timeline, row.certain_from);
                let seen = timeline.seen().iter().rev().copied().collect();
                let timeline = Timeline::restore(timeline.watermark(), seen, timeline.newest().cloned());
                (key.clone(), LedgerRow { timeline, certain_from })
            })
        };
        Ledger {
            layers: BTreeMap::new(),
            rows: ledger::keys(events).keys().filter_map(stored).collect(),
        }
    }
}

/// What a transaction has written and not yet committed.
struct Draft {
    ids: BTreeSet<EventId>,
    ledger: Ledger,
    decision: Decision,
    /// The numbers of its journal rows, where they are taken too early.
    numbers: Vec<i64>,
}

impl Draft {
    /// Whether both write the same rows, so that one has to wait for the other.
    fn meets(&self, other: &Self, weakness: Option<Weakness>) -> bool {
        self.ids.iter().any(|id| other.ids.contains(id))
            || weakness != Some(Weakness::LostUpdate)
                && self.ledger.rows.keys().any(|key| other.ledger.rows.contains_key(key))
    }
}

enum Stage {
    Taken,
    Decided(Draft),
    Committed(BTreeSet<EventId>),
}

struct Work {
    messages: Vec<usize>,
    /// The layers as they were known when the transaction began: nobody locks them.
    layers: BTreeMap<LayerName, LayerState>,
    stage: Stage,
}

/// How a commit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Done,
    /// Rolled back; the process lives and knows.
    Failed,
    /// Committed, but the process takes it for a failure.
    Unheard,
}

/// A process that works for a consumer name.
pub struct Consumer {
    pub name: usize,
    remembered: VecDeque<EventId>,
    work: Option<Work>,
    weakness: Option<Weakness>,
}

/// What was decided, for the laws.
pub struct Judged<'a> {
    pub known: &'a Ledger,
    pub events: &'a [&'a Event],
    pub decision: &'a Decision,
}

impl Consumer {
    pub fn new(name: usize, weakness: Option<Weakness>) -> Self {
        Self {
            name,
            remembered: VecDeque::new(),
            work: None,
            weakness,
        }
    }

    fn is_weak(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }

    pub fn is_idle(&self) -> bool {
        self.work.is_none()
    }

    pub fn messages(&self) -> impl Iterator<Item = usize> {
        self.work.iter().flat_map(|work| work.messages.iter().copied())
    }

    /// Takes pending messages, in any order.
    pub fn take(&mut self, name: &mut Name, transport: &mut Transport, picks: &[u8]) {
        if !self.is_idle() {
            return;
        }
        name.fetch(transport);
        let mut messages = Vec::new();
        for pick in picks {
            if !name.pending.is_empty() {
                messages.push(name.pending.swap_remove(usize::from(*pick) % name.pending.len()));
            }
        }
        if messages.is_empty() {
            return;
        }
        if self.is_weak(Weakness::AcknowledgeBeforeLedger) {
            for message in &messages {
                transport.acknowledge(*message);
            }
        }
        self.work = Some(Work {
            messages,
            layers: name.layers.clone(),
            stage: Stage::Taken,
        });
    }

    /// Opens the transaction and decides; waits, and so does nothing yet, where another one holds the rows.
    pub fn decide(
        consumers: &mut [Self],
        number: usize,
        name: &mut Name,
        transport: &Transport,
        judge: impl FnOnce(Judged<'_>),
    ) {
        let this = &consumers[number];
        let Some(Work {
            messages,
            layers,
            stage: Stage::Taken,
        }) = &this.work
        else {
            return;
        };
        let mut ids = BTreeSet::new();
        let events: Vec<&Event> = messages
            .iter()
            .map(|message| &transport.log[*message].event)
            .filter(|event| !this.remembered.contains(&event.id()) && !name.consumed.contains(&event.id()))
            .filter(|event| ids.insert(event.id()))
            .collect();
        let layers = layers.clone();
        let known = Ledger {
            layers,
            ..name.load(&events)
        };
        let mut ledger = known.clone();
        let decision = match this.weakness {
            Some(weakness) => controls::decide_weakly(weakness, &mut ledger, &events, name.start),
            None => ledger::decide(&mut ledger, &events, name.start, CoverLimits::default()),
        };
        let mut draft = Draft {
            ids,
            ledger,
            decision,
            numbers: Vec::new(),
        };
        let is_blocked = consumers.iter().any(|other| match &other.work {
            Some(Work {
                stage: Stage::Decided(theirs),
                ..
            }) => other.name == this.name && draft.meets(theirs, this.weakness),
            _ => false,
        });
        if is_blocked {
            return;
        }
        judge(Judged {
            known: &known,
            events: &events,
            decision: &draft.decision,
        });
        let this = &mut consumers[number];
        if this.is_weak(Weakness::NumbersBeforeCommit) {
            let n_rows = i64::try_from(draft.decision.journal.len()).unwrap();
            draft.numbers = (name.head + 1..=name.head + n_rows).collect();
            name.head += n_rows;
        }
        if this.is_weak(Weakness::RememberBeforeCommit) {
            this.remember(draft.ids.clone());
        }
        this.set_stage(Stage::Decided(draft));
    }

    pub fn commit(&mut self, name: &mut Name, transport: &Transport, commit: Commit) {
        let Some(Work {
            stage: Stage::Decided(_),
            ..
        }) = &self.work
        else {
            return;
        };
        let Some(Work {
            messages,
            layers,
            stage: Stage::Decided(draft),
        }) = self.work.take()
        else {
            return;
        };
        if commit == Commit::Failed {
            self.give_back(name, transport, messages);
            return;
        }
        let ids = draft.ids.clone();
        write(name, draft);
        if commit == Commit::Unheard {
            self.give_back(name, transport, messages);
            return;
        }
        let stage = Stage::Committed(ids);
        self.work = Some(Work {
            messages,
            layers,
            stage,
        });
    }

    /// Acknowledges, and remembers the ids: both only after the commit.
    pub fn acknowledge(&mut self, transport: &mut Transport) {
        if let Some(Work {
            messages,
            stage: Stage::Committed(ids),
            ..
        }) = &self.work
        {
            for message in messages {
                transport.acknowledge(*message);
            }
            let ids = ids.clone();
            self.remember(ids);
            self.work = None;
        }
    }

    /// Dies at whatever it was doing. A topic delivers again what was not acknowledged; a relay sends it again.
    pub fn die(&mut self, name: &mut Name, transport: &Transport) {
        if let Some(work) = self.work.take() {
            self.give_back(name, transport, work.messages);
        }
        self.remembered.clear();
    }

    fn give_back(&self, name: &mut Name, transport: &Transport, messages: Vec<usize>) {
        if transport.kind == Kind::Topic && !self.is_weak(Weakness::AcknowledgeBeforeLedger) {
            name.pending.extend(messages);
        }
    }

    fn remember(&mut self, ids: BTreeSet<EventId>) {
        self.remembered.extend(ids);
        while self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(work) = &mut self.work {
            work.stage = stage;
        }
    }
}

fn write(name: &mut Name, draft: Draft) {
    name.ever_consumed.extend(draft.ids.iter().cloned());
    name.consumed.extend(draft.ids);
    name.rows.extend(draft.ledger.rows);
    for (layer, state) in draft.ledger.layers {
        let merged = name
            .layers
            .remove(&layer)
            .map_or(state.clone(), |known| known.merge(&state));
        name.layers.insert(layer, merged);
    }
    let mut numbers = draft.numbers.into_iter();
    for entry in draft.decision.journal {
        match numbers.next() {
            Some(number) => drop(name.journal.insert(number, entry)),
            None => name.append(entry),
        }
    }
}
