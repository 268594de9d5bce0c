//! The features' database: what is visible, what a crash would leave, and who holds which lock.
//!
//! Everything that is written goes through a commit, which is visible at once and safe from crashes once the log is
//! flushed beyond it. Statements never wait here: who would have to, does nothing in this step of the history.

use std::collections::{BTreeMap, BTreeSet};

use tilewake_core::{
    event::{Edit, EventId, WalPosition},
    feature::{Epoch, Version},
    layer::LayerSettings,
    outbox::{OutboxRow, Record, Settlement},
};

use super::places::{N_TILES, Places};

pub const N_LAYERS: u8 = 2;
pub const N_FEATURES: u8 = 2;

/// A feature: the number of its layer, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Feature(pub u8, pub u8);

/// A row of a layer's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub places: Places,
    /// An attribute that is drawn.
    pub colour: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRow {
    pub epoch: Epoch,
    pub version: Version,
    pub base_version: Version,
    pub is_deleted: bool,
}

/// A row of the outbox with what only the database knows of it.
#[derive(Clone, Debug)]
pub struct Stored {
    pub row: OutboxRow,
    pub is_published: bool,
    pub available_at: i64,
}

/// An edit and what it truly changed.
#[derive(Clone, Debug)]
pub struct Truth {
    pub edit: Edit,
    pub before: Places,
    pub after: Places,
}

/// A layer's epoch, and its settings as long as it is tracked.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub epoch: Epoch,
    pub settings: Option<LayerSettings>,
}

/// The tables.
#[derive(Clone, Default)]
pub struct Tables {
    pub rows: BTreeMap<Feature, Row>,
    pub versions: BTreeMap<Feature, VersionRow>,
    pub layers: Vec<Layer>,
    pub outbox: BTreeMap<i64, Stored>,
    pub dead_letters: BTreeSet<i64>,
    /// Every edit that is committed: for the laws only.
    pub edits: BTreeMap<EventId, Truth>,
    /// The edits whose rows went when an epoch was raised instead.
    pub swallowed: BTreeSet<EventId>,
}

/// What a transaction writes.
#[derive(Clone, Debug)]
pub enum Write {
    Row(Feature, Option<Row>),
    Version(Feature, VersionRow),
    Settings(u8, Option<LayerSettings>),
    /// The highest holds, whichever is committed last.
    Epoch(u8, Epoch),
    Outbox(Stored),
    Edit(EventId, Truth),
    Settle(Settlement, i64),
    Swallow(i64),
}

/// What a tile shows: features and their colours. A tile that is not drawn shows nothing.
pub type Picture = Vec<(u8, u32)>;

impl Tables {
    fn apply(&mut self, write: &Write) {
        match write {
            Write::Row(feature, Some(row)) => drop(self.rows.insert(*feature, *row)),
            Write::Row(feature, None) => drop(self.rows.remove(feature)),
            Write::Version(feature, row) => drop(self.versions.insert(*feature, *row)),
            Write::Settings(layer, settings) => self.layers[usize::from(*layer)].settings = *settings,
            Write::Epoch(layer, epoch) => {
                let layer = &mut self.layers[usize::from(*layer)];
                layer.epoch = layer.epoch.max(*epoch);
            }
            Write::Outbox(row) => drop(self.outbox.insert(row.row.id, row.clone())),
            Write::Edit(id, truth) => drop(self.edits.insert(id.clone(), truth.clone())),
            Write::Settle(settlement, now) => self.settle(settlement, *now),
            Write::Swallow(id) => self.swallow(*id),
        }
    }

    fn settle(&mut self, settlement: &Settlement, now: i64) {
        for id in settlement.published.iter().chain(&settlement.buried) {
            self.outbox.entry(*id).and_modify(|stored| stored.is_published = true);
        }
        self.dead_letters.extend(&settlement.buried);
        for (id, attempts, _) in &settlement.retry {
            self.outbox.entry(*id).and_modify(|stored| {
                stored.row.attempts = *attempts;
                stored.available_at = now + 3;
            });
        }
    }

    fn swallow(&mut self, id: i64) {
        if let Some(Stored {
            row: OutboxRow {
                record: Record::Edit(edit),
                ..
            },
            ..
        }) = self.outbox.remove(&id)
        {
            self.swallowed.insert(edit.event_id());
        }
    }

    /// Draws a tile of a layer.
    pub fn render(&self, layer: u8, tile: u8) -> Picture {
        let zoom = u8::from(tile > 0);
        debug_assert!(tile < N_TILES);
        if !self.layers[usize::from(layer)]
            .settings
            .is_some_and(|settings| settings.zooms.contains(zoom))
        {
            return Picture::new();
        }
        let drawn = self
            .rows
            .iter()
            .filter(|(feature, row)| feature.0 == layer && row.places.meet(tile));
        drawn.map(|(feature, row)| (feature.1, row.colour)).collect()
    }
}

/// A session of the database; a crash ends all of them, and so may the server for one that idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session(u64);

/// A transaction of a writer.
#[derive(Default)]
pub struct Transaction {
    pub writes: Vec<Write>,
    /// The features it has locked by editing them.
    pub features: BTreeSet<Feature>,
    /// The layers whose settings it has locked by changing them.
    pub layers: BTreeSet<u8>,
    /// The tables it has locked whole, by truncating them or by making or dropping their triggers.
    pub tables: BTreeSet<u8>,
    /// What it sees, if it is one that sees nothing newer than its beginning.
    pub snapshot: Option<Tables>,
}

#[derive(Default)]
pub struct Database {
    pub visible: Tables,
    durable: Tables,
    /// The commits that a crash would take back.
    unflushed: Vec<Vec<Write>>,
    inserted: u64,
    flushed: u64,
    /// How often it has crashed.
    pub n_crashes: u32,
    sessions: BTreeSet<Session>,
    n_sessions: u64,
    claims: BTreeMap<i64, Session>,
    pub writers: BTreeMap<u8, Transaction>,
    last_row: i64,
    last_epoch: i64,
    /// The layers that were changed behind their triggers' back, and the newest epoch then.
    pub changed_unseen: BTreeMap<u8, Epoch>,
    /// The features that the relay's role does not see.
    pub hidden: BTreeSet<Feature>,
}

impl Database {
    /// Makes writes visible, and safe from crashes once the log is flushed up to the position returned.
    pub fn commit(&mut self, writes: Vec<Write>) -> WalPosition {
        for write in &writes {
            self.visible.apply(write);
        }
        self.unflushed.push(writes);
        self.inserted += 1;
        WalPosition(self.inserted)
    }

    /// Writes what was there before anything was tracked.
    pub fn commit_from_the_beginning(&mut self, writes: Vec<Write>) {
        self.durable.layers.clone_from(&self.visible.layers);
        self.commit(writes);
        self.flush();
    }

    /// The relay's role loses or regains sight of a feature.
    pub fn hide(&mut self, feature: Feature) {
        if !self.hidden.insert(feature) {
            self.hidden.remove(&feature);
        }
    }

    pub fn insert_position(&self) -> WalPosition {
        WalPosition(self.inserted)
    }

    pub fn has_flushed(&self, position: WalPosition) -> bool {
        position.0 <= self.flushed
    }

    pub fn flush(&mut self) {
        for writes in self.unflushed.drain(..) {
            for write in &writes {
                self.durable.apply(write);
            }
        }
        self.flushed = self.inserted;
    }

    /// What a replica that lags behind shows.
    pub fn replica(&self) -> &Tables {
        &self.durable
    }

    pub fn crash(&mut self) {
        self.visible = self.durable.clone();
        self.unflushed.clear();
        self.inserted = self.flushed;
        self.n_crashes += 1;
        self.sessions.clear();
        self.claims.clear();
        self.writers.clear();
        // Numbers of rows that were lost come again.
        self.last_row = self.visible.outbox.keys().next_back().copied().unwrap_or(0);
    }

    pub fn connect(&mut self) -> Session {
        self.n_sessions += 1;
        self.sessions.insert(Session(self.n_sessions));
        Session(self.n_sessions)
    }

    pub fn is_alive(&self, session: Session) -> bool {
        self.sessions.contains(&session)
    }

    /// Ends a session, which frees the rows it had claimed.
    pub fn end(&mut self, session: Session) {
        self.sessions.remove(&session);
        self.claims.retain(|_, holder| *holder != session);
    }

    /// Claims unpublished rows that nobody else has claimed, oldest first.
    pub fn claim(&mut self, session: Session, from: i64, now: i64, limit: usize) -> Vec<OutboxRow> {
        let is_free = |(id, stored): &(&i64, &Stored)| {
            !stored.is_published && stored.available_at <= now && !self.claims.contains_key(id)
        };
        let rows: Vec<_> = self.visible.outbox.range(from..).filter(is_free).take(limit).collect();
        let rows: Vec<_> = rows.into_iter().map(|(_, stored)| stored.row.clone()).collect();
        self.claims.extend(rows.iter().map(|row| (row.id, session)));
        rows
    }

    pub fn is_claimed(&self, id: i64) -> bool {
        self.claims.contains_key(&id)
    }

    /// Numbers of epochs are taken without waiting, and no two are the same.
    pub fn next_epoch(&mut self) -> Epoch {
        self.last_epoch += 1;
        Epoch(self.last_epoch)
    }

    pub fn newest_epoch(&self) -> Epoch {
        Epoch(self.last_epoch)
    }

    pub fn next_row(&mut self) -> i64 {
        self.last_row += 1;
        self.last_row
    }
}
