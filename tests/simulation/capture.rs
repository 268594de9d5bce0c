//! Writers, and what the triggers of capture write in their transactions.

use chrono::DateTime;
use tilewake_core::{
    event::{Action, Changed, Edit},
    feature::{Epoch, FeatureId, FeatureKey, Version},
    layer::{LayerName, LayerSettings},
    outbox::{OutboxRow, Record},
};

use super::{
    database::{Database, Feature, N_FEATURES, Row, Stored, Tables, Transaction, Truth, VersionRow, Write},
    places::{Places, settings},
};

/// What a writer does to a feature.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Inserts it there, or moves it there.
    Put(Places),
    /// Changes an attribute that is drawn.
    Paint,
    Delete,
}

/// What raises an epoch.
#[derive(Clone, Copy, Debug)]
pub enum Raise {
    Truncate,
    /// Tracked (again) with these zooms.
    Alter((u8, u8)),
    /// Not tracked any more.
    Remove,
    /// The layer's backlog is given up.
    Swallow,
    /// A feature was moved unseen by triggers, and the layer is reconciled wholesale.
    Reconcile(Places),
    /// Nothing but caution.
    Again,
}

/// Whether a writer's snapshot is as old as its transaction or as its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    Statement,
    Transaction,
}

pub fn layer_name(layer: u8) -> LayerName {
    LayerName::new(["roads", "areas"][usize::from(layer)]).unwrap()
}

pub fn layer_number(name: &LayerName) -> u8 {
    u8::from(name.as_str() == "areas")
}

pub fn key(feature: Feature) -> FeatureKey {
    FeatureKey {
        layer: layer_name(feature.0),
        id: FeatureId::new(feature.1.to_string()),
    }
}

impl Transaction {
    pub fn row(&self, tables: &Tables, feature: Feature) -> Option<Row> {
        let own = self.writes.iter().rev().find_map(|write| match write {
            Write::Row(written, row) if *written == feature => Some(*row),
            _ => None,
        });
        own.unwrap_or_else(|| tables.rows.get(&feature).copied())
    }

    fn version(&self, tables: &Tables, feature: Feature) -> Option<VersionRow> {
        let own = self.writes.iter().rev().find_map(|write| match write {
            Write::Version(written, row) if *written == feature => Some(*row),
            _ => None,
        });
        own.or_else(|| tables.versions.get(&feature).copied())
    }

    /// The layer's epoch as the transaction sees it: its own, else its snapshot's.
    fn epoch(&self, tables: &Tables, layer: u8) -> Epoch {
        let seen = self.snapshot.as_ref().unwrap_or(tables).layers[usize::from(layer)].epoch;
        self.raised(layer).map_or(seen, |raised| raised.max(seen))
    }

    /// The epoch that it has raised itself.
    fn raised(&self, layer: u8) -> Option<Epoch> {
        self.writes.iter().rev().find_map(|write| match write {
            Write::Epoch(raised, epoch) if *raised == layer => Some(*epoch),
            _ => None,
        })
    }

    /// The settings, if the layer is tracked. Triggers fire for all that they are there for, however old its snapshot.
    fn settings(&self, tables: &Tables, layer: u8) -> Option<LayerSettings> {
        let own = self.writes.iter().rev().find_map(|write| match write {
            Write::Settings(written, settings) if *written == layer => Some(*settings),
            _ => None,
        });
        own.unwrap_or(tables.layers[usize::from(layer)].settings)
    }

    /// Whether its snapshot is too old to write this row: Postgres refuses, and the transaction is lost.
    fn is_outdated(&self, tables: &Tables, feature: Feature) -> bool {
        let seen = |snapshot: &Tables| {
            snapshot.rows.get(&feature) == tables.rows.get(&feature)
                && snapshot.versions.get(&feature) == tables.versions.get(&feature)
        };
        self.snapshot.as_ref().is_some_and(|snapshot| !seen(snapshot))
    }
}

impl Database {
    /// Edits a feature in a writer's transaction, unless another writer holds what that needs.
    pub fn edit(&mut self, writer: u8, feature: Feature, change: Change, now: i64) {
        let is_locked = self.writers.iter().any(|(other, transaction)| {
            *other != writer && (transaction.features.contains(&feature) || transaction.tables.contains(&feature.0))
        });
        let transaction = self.writers.entry(writer).or_default();
        if is_locked {
            return;
        }
        if transaction.is_outdated(&self.visible, feature) {
            self.writers.remove(&writer);
            return;
        }
        let mut transaction = self.writers.remove(&writer).unwrap_or_default();
        self.capture(&mut transaction, feature, change, now);
        self.writers.insert(writer, transaction);
    }

    /// Begins a transaction, if the writer has none.
    pub fn begin(&mut self, writer: u8, snapshot: Snapshot) {
        let tables = (snapshot == Snapshot::Transaction).then(|| self.visible.clone());
        self.writers.entry(writer).or_insert_with(|| Transaction {
            snapshot: tables,
            ..Transaction::default()
        });
    }

    fn capture(&mut self, transaction: &mut Transaction, feature: Feature, change: Change, now: i64) {
        let before = transaction.row(&self.visible, feature);
        let Some((after, changed)) = outcome(before, change, now) else {
            return;
        };
        transaction.features.insert(feature);
        transaction.writes.push(Write::Row(feature, after));
        if transaction.settings(&self.visible, feature.0).is_none() {
            return;
        }
        let epoch = transaction.epoch(&self.visible, feature.0);
        let versions = transaction.version(&self.visible, feature);
        let versions = next_version(versions, before.is_some(), after.is_none(), epoch);
        transaction.writes.push(Write::Version(feature, versions));
        let places = |row: Option<Row>| row.map(|row| row.places).unwrap_or_default();
        let truth = Truth {
            edit: edit(feature, versions, changed, (places(before), places(after)), now),
            before: places(before),
            after: places(after),
        };
        let record = Record::Edit(truth.edit.clone());
        transaction.writes.push(Write::Edit(truth.edit.event_id(), truth));
        self.record(transaction, record);
    }

    fn record(&mut self, transaction: &mut Transaction, record: Record) {
        let row = OutboxRow {
            id: self.next_row(),
            attempts: 0,
            record,
        };
        transaction.writes.push(Write::Outbox(Stored {
            row,
            is_published: false,
            available_at: 0,
        }));
    }

    /// Raises a layer's epoch in a writer's transaction, unless another writer holds what that needs.
    pub fn raise(&mut self, writer: u8, layer: u8, raise: Raise, now: i64) {
        let mut transaction = self.writers.remove(&writer).unwrap_or_default();
        let settings = transaction.settings(&self.visible, layer);
        let needs_settings = matches!(raise, Raise::Alter(_) | Raise::Remove);
        let needs_table = match raise {
            Raise::Truncate | Raise::Remove => true,
            Raise::Alter(_) => settings.is_none(),
            Raise::Swallow | Raise::Reconcile(_) | Raise::Again => false,
        };
        let is_locked = self.writers.values().any(|other| {
            let is_edited = other.features.iter().any(|feature| feature.0 == layer) || other.tables.contains(&layer);
            (needs_settings && other.layers.contains(&layer)) || (needs_table && is_edited)
        });
        if !is_locked && (settings.is_some() || matches!(raise, Raise::Alter(_))) {
            transaction.layers.extend(needs_settings.then_some(layer));
            transaction.tables.extend(needs_table.then_some(layer));
            self.write_raised(&mut transaction, layer, raise, now);
        }
        self.writers.insert(writer, transaction);
    }

    fn write_raised(&mut self, transaction: &mut Transaction, layer: u8, raise: Raise, now: i64) {
        match raise {
            Raise::Truncate => {
                let features = (0..N_FEATURES).map(|number| Feature(layer, number));
                transaction
                    .writes
                    .extend(features.map(|feature| Write::Row(feature, None)));
            }
            Raise::Swallow => self.swallow(transaction, layer),
            Raise::Reconcile(places) => self.move_unseen(transaction, Feature(layer, 0), places, now),
            Raise::Alter(zooms) => transaction.writes.push(Write::Settings(layer, Some(settings(zooms)))),
            Raise::Remove => transaction.writes.push(Write::Settings(layer, None)),
            Raise::Again => {}
        }
        // Once a transaction, unless others have raised it since: edits may have been made in their epoch.
        let newest = self.visible.layers[usize::from(layer)].epoch;
        if transaction.raised(layer).is_none_or(|raised| raised < newest) {
            let epoch = self.next_epoch();
            transaction.writes.push(Write::Epoch(layer, epoch));
            let (layer, occurred_at) = (layer_name(layer), DateTime::from_timestamp(now, 0).unwrap_or_default());
            self.record(
                transaction,
                Record::Epoch {
                    layer,
                    epoch,
                    occurred_at,
                },
            );
        }
    }

    /// Removes the layer's unpublished rows, except those that a relay has claimed.
    fn swallow(&self, transaction: &mut Transaction, layer: u8) {
        let of_layer = |record: &Record| matches!(record, Record::Edit(edit) if edit.key.layer == layer_name(layer));
        let backlog = self
            .visible
            .outbox
            .iter()
            .filter(|(id, stored)| !stored.is_published && !self.is_claimed(**id) && of_layer(&stored.row.record));
        transaction.writes.extend(backlog.map(|(id, _)| Write::Swallow(*id)));
    }

    /// Moves a feature without its triggers, or inserts or deletes it so, if nobody else edits it. The layer is reconciled
    /// after this has been committed.
    fn move_unseen(&mut self, transaction: &Transaction, feature: Feature, places: Places, now: i64) {
        let holds = |other: &Transaction| other.features.contains(&feature) || other.tables.contains(&feature.0);
        if !self.writers.values().chain([transaction]).any(holds) {
            let row = (places.0 > 0).then_some(Row {
                places,
                colour: colour(now),
            });
            self.commit(vec![Write::Row(feature, row)]);
            self.changed_unseen.insert(feature.0, self.newest_epoch());
        }
    }

    /// Reconciles the layers that were changed unseen where a crash has taken that back.
    pub fn reconcile(&mut self, writer: u8, now: i64) {
        for (layer, epoch) in self.changed_unseen.clone() {
            if self.visible.layers[usize::from(layer)].epoch <= epoch {
                self.raise(writer, layer, Raise::Again, now);
            }
        }
    }
}

fn colour(now: i64) -> u32 {
    u32::try_from(now).unwrap_or_default()
}

/// The row afterwards, and what changed; `None` for what is no edit.
fn outcome(before: Option<Row>, change: Change, now: i64) -> Option<(Option<Row>, Changed)> {
    match (before, change) {
        (None, Change::Put(places)) => Some((
            Some(Row {
                places,
                colour: colour(now),
            }),
            Changed::Both,
        )),
        (Some(row), Change::Put(places)) => {
            (row.places != places).then_some((Some(Row { places, ..row }), Changed::Geometry))
        }
        (Some(row), Change::Paint) => Some((
            Some(Row {
                colour: colour(now),
                ..row
            }),
            Changed::Attributes,
        )),
        (Some(_), Change::Delete) => Some((None, Changed::Both)),
        (None, _) => None,
    }
}

/// The version row afterwards. A row older than its layer counts as version 1; an epoch never goes back, also when the
/// writer's snapshot is from before it was raised.
fn next_version(known: Option<VersionRow>, was_there: bool, is_deleted: bool, epoch: Epoch) -> VersionRow {
    let last = known.map_or(Version(i64::from(was_there)), |row| row.version);
    let epoch = known.map_or(epoch, |row| epoch.max(row.epoch));
    VersionRow {
        epoch,
        version: last.next(),
        base_version: known
            .filter(|row| row.epoch == epoch)
            .map_or(last, |row| row.base_version),
        is_deleted,
    }
}

fn edit(feature: Feature, versions: VersionRow, changed: Changed, places: (Places, Places), now: i64) -> Edit {
    Edit {
        key: key(feature),
        epoch: versions.epoch,
        version: versions.version,
        base_version: versions.base_version,
        action: Action::new(Action::MOVED),
        changed,
        before: places.0.bounds(),
        after: places.1.bounds(),
        routing_key: None,
        previous_routing_key: None,
        occurred_at: DateTime::from_timestamp(now, 0).unwrap_or_default(),
        traceparent: None,
    }
}
