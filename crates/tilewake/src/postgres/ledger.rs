//! The ledger of a consumer name: which events it has seen, and the newest geometry of every feature.
//!
//! A [`LedgerTransaction`] goes one way: ids, locks, decision, rows, journal, commit. Rows are inserted and locked in the
//! order of their keys, so that consumers of one name wait for each other instead of dying of each other.

mod row;

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use sqlx::{PgPool, Postgres, Row, Transaction};
use tilewake_core::{
    event::{Event, EventId},
    journal::JournalEntry,
    layer::LayerName,
    ledger::{LayerState, Ledger, LedgerKey, LedgerRow, Start, keys},
};

use self::row::{box_of, read_layer, read_row, wkb_of};
use super::{journal, values};

/// The ledger's database refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A statement failed.
    #[error("could not {action}")]
    Database {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// What the ledger holds cannot be read.
    #[error("the ledger row of {feature} cannot be read")]
    Corrupt {
        /// Layer and feature id.
        feature: String,
        /// Why.
        #[source]
        source: values::InvalidValue,
    },
}

impl LedgerError {
    /// Whether the data of one event is to blame: classes 22, 23 and 54 of SQLSTATE (data exception, integrity,
    /// program limit).
    #[must_use]
    pub fn is_about_an_event(&self) -> bool {
        match self {
            Self::Database {
                source: sqlx::Error::Database(error),
                ..
            } => error
                .code()
                .is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class))),
            Self::Database {
                source: sqlx::Error::Encode(_) | sqlx::Error::Decode(_),
                ..
            }
            | Self::Corrupt { .. } => true,
            Self::Database { .. } => false,
        }
    }
}

fn failed(action: &'static str) -> impl FnOnce(sqlx::Error) -> LedgerError {
    move |source| LedgerError::Database { action, source }
}

/// Registers a consumer name if it is new, and says since when it has got every event.
///
/// A name that begins in a database whose outbox has never had a row has missed nothing.
pub async fn start_consumer(pool: &PgPool, name: &str) -> Result<Start, LedgerError> {
    // An update that changes nothing answers with the row that somebody else has just inserted; looking for it would not.
    const START: &str = "
        INSERT INTO tilewake.consumer AS known (name, late_since)
        VALUES ($1, CASE WHEN tilewake.has_had_events() THEN clock_timestamp() END)
        ON CONFLICT (name) DO UPDATE SET late_since = known.late_since
        RETURNING late_since";
    let late_since: Option<DateTime<Utc>> = sqlx::query_scalar(START)
        .bind(name)
        .fetch_one(pool)
        .await
        .map_err(failed("register the consumer name"))?;
    Ok(late_since.map_or(Start::Beginning, Start::Late))
}

/// One batch's transaction in the ledger.
pub struct LedgerTransaction<'a> {
    transaction: Transaction<'a, Postgres>,
    consumer: &'a str,
}

impl<'a> LedgerTransaction<'a> {
    /// Begins, with a commit that no crash can take back, whatever the database's default: it acknowledges.
    pub async fn begin(pool: &PgPool, consumer: &'a str) -> Result<Self, LedgerError> {
        let transaction = pool
            .begin_with("BEGIN; SET LOCAL synchronous_commit = on")
            .await
            .map_err(failed("begin a ledger transaction"))?;
        Ok(Self { transaction, consumer })
    }

    /// Inserts the events' ids; returns the events that were not there. The unique constraint is the truth about
    /// duplicates, also between consumers of one name: whoever comes second waits here for the first to commit.
    pub async fn mark_consumed<'e>(&mut self, events: &[&'e Event]) -> Result<Vec<&'e Event>, LedgerError> {
        const MARK: &str = "
            INSERT INTO tilewake.consumed (consumer, layer, feature_id, epoch, version)
            SELECT $1, layer, feature_id, epoch, version
            FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS event (layer, feature_id, epoch, version)
            ON CONFLICT DO NOTHING
            RETURNING layer, feature_id, epoch, version";
        let by_id: BTreeMap<EventId, &'e Event> = events.iter().map(|event| (event.id(), *event)).collect();
        let ids = || by_id.keys();
        let rows = sqlx::query(MARK)
            .bind(self.consumer)
            .bind(ids().map(|id| id.key.layer.as_str()).collect::<Vec<_>>())
            .bind(ids().map(|id| id.key.id.as_str()).collect::<Vec<_>>())
            .bind(ids().map(|id| id.epoch.0).collect::<Vec<_>>())
            .bind(ids().map(|id| id.version.0).collect::<Vec<_>>())
            .fetch_all(&mut *self.transaction)
            .await
            .map_err(failed("insert the ids of the events"))?;
        let new: HashSet<(String, String, i64, i64)> = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)))
            .collect::<Result<_, sqlx::Error>>()
            .map_err(failed("read the ids of the events"))?;
        let is_new = |id: &EventId| {
            new.contains(&(
                id.key.layer.to_string(),
                id.key.id.to_string(),
                id.epoch.0,
                id.version.0,
            ))
        };
        Ok(by_id
            .into_iter()
            .filter(|(id, _)| is_new(id))
            .map(|(_, event)| event)
            .collect())
    }

    /// Inserts missing ledger rows, locks all that the events need, and reads them.
    pub async fn lock(&mut self, events: &[&Event]) -> Result<Ledger, LedgerError> {
        const INSERT: &str = "
            INSERT INTO tilewake.ledger (consumer, layer, epoch, feature_id, base_version, watermark, is_new)
            SELECT $1, layer, epoch, feature_id, base_version, base_version, true
            FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS key (layer, feature_id, epoch, base_version)
            ON CONFLICT DO NOTHING";
        const LOCK: &str = "
            SELECT ledger.layer, ledger.feature_id, ledger.epoch, watermark, seen::text, state_version, geometry,
                   box::text, certain_from, is_new
            FROM tilewake.ledger
            JOIN unnest($2::text[], $3::text[], $4::bigint[]) AS key (layer, feature_id, epoch)
              ON (ledger.layer, ledger.feature_id, ledger.epoch) = (key.layer, key.feature_id, key.epoch)
            WHERE consumer = $1
            ORDER BY ledger.layer, ledger.feature_id, ledger.epoch
            FOR NO KEY UPDATE OF ledger";
        let layers: Vec<_> = events.iter().map(|event| event.layer().as_str()).collect();
        let mut ledger = Ledger {
            layers: self.read_layers(&layers).await?,
            ..Ledger::default()
        };
        let keys = keys(events);
        if keys.is_empty() {
            return Ok(ledger);
        }
        let layers: Vec<_> = keys.keys().map(|key| key.feature.layer.as_str()).collect();
        let features: Vec<_> = keys.keys().map(|key| key.feature.id.as_str()).collect();
        let epochs: Vec<_> = keys.keys().map(|key| key.epoch.0).collect();
        sqlx::query(INSERT)
            .bind(self.consumer)
            .bind(&layers)
            .bind(&features)
            .bind(&epochs)
            .bind(keys.values().map(|version| version.0).collect::<Vec<_>>())
            .execute(&mut *self.transaction)
            .await
            .map_err(failed("insert ledger rows"))?;
        let rows = sqlx::query(LOCK)
            .bind(self.consumer)
            .bind(&layers)
            .bind(&features)
            .bind(&epochs)
            .fetch_all(&mut *self.transaction)
            .await
            .map_err(failed("lock ledger rows"))?;
        for row in rows {
            let (key, row) = read_row(&row)?;
            if let Some(row) = row {
                ledger.rows.insert(key, row);
            }
        }
        Ok(ledger)
    }

    /// Locks rows whose gap has been open for longer than `patience`, with what is known of their layers.
    ///
    /// Not those of older epochs: what is missing there may have been given up for the epoch, or may still come.
    pub async fn lock_old_gaps(&mut self, patience: Duration) -> Result<Ledger, LedgerError> {
        const LOCK: &str = "
            SELECT layer, feature_id, epoch, watermark, seen::text, state_version, geometry, box::text, certain_from, is_new
            FROM tilewake.ledger
            WHERE consumer = $1 AND gap_since < clock_timestamp() - make_interval(secs => $2)
              AND epoch = (SELECT known.epoch FROM tilewake.consumer_layer AS known
                           WHERE known.consumer = ledger.consumer AND known.layer = ledger.layer)
            ORDER BY layer, feature_id, epoch
            LIMIT 1000
            FOR NO KEY UPDATE";
        let rows = sqlx::query(LOCK)
            .bind(self.consumer)
            .bind(patience.as_secs_f64())
            .fetch_all(&mut *self.transaction)
            .await
            .map_err(failed("look for gaps"))?;
        let mut ledger = Ledger::default();
        for row in rows {
            if let (key, Some(row)) = read_row(&row)? {
                ledger.rows.insert(key, row);
            }
        }
        let layers: Vec<_> = ledger.rows.keys().map(|key| key.feature.layer.as_str()).collect();
        ledger.layers = self.read_layers(&layers).await?;
        Ok(ledger)
    }

    /// Reads what is known of layers. Without a lock: an epoch raised meanwhile by another consumer purges
    /// all that was decided before its commit, and what is rendered after it draws what these events say.
    async fn read_layers(&mut self, names: &[&str]) -> Result<BTreeMap<LayerName, LayerState>, LedgerError> {
        const READ: &str = "
            SELECT layer, epoch, raised, settings_epoch, settings FROM tilewake.consumer_layer
            WHERE consumer = $1 AND layer = ANY ($2)";
        let rows = sqlx::query(READ)
            .bind(self.consumer)
            .bind(names)
            .fetch_all(&mut *self.transaction)
            .await
            .map_err(failed("read the consumer's layers"))?;
        rows.iter()
            .map(read_layer)
            .collect::<Result<_, sqlx::Error>>()
            .map_err(failed("read the consumer's layers"))
    }

    /// Writes what was decided back.
    pub async fn write(
        &mut self,
        ledger: &Ledger,
        before: &BTreeMap<LayerName, LayerState>,
    ) -> Result<(), LedgerError> {
        self.write_rows(&ledger.rows).await?;
        for (layer, state) in &ledger.layers {
            if before.get(layer) != Some(state) {
                self.write_layer(layer, state).await?;
            }
        }
        Ok(())
    }

    async fn write_rows(&mut self, rows: &BTreeMap<LedgerKey, LedgerRow>) -> Result<(), LedgerError> {
        // `gap_since` is when the oldest gap opened: it begins anew whenever the watermark moves.
        const WRITE: &str = "
            UPDATE tilewake.ledger SET
                watermark = new.watermark, seen = new.seen::int8multirange, state_version = new.state_version,
                geometry = new.geometry, box = new.box::box, certain_from = new.certain_from, is_new = false,
                gap_since = CASE WHEN new.seen = '{}' THEN NULL
                                 WHEN ledger.watermark < new.watermark OR ledger.gap_since IS NULL THEN clock_timestamp()
                                 ELSE ledger.gap_since END
            FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bytea[], $9::text[],
                        $10::bigint[])
                 AS new (layer, feature_id, epoch, watermark, seen, state_version, geometry, box, certain_from)
            WHERE ledger.consumer = $1
              AND (ledger.layer, ledger.feature_id, ledger.epoch) = (new.layer, new.feature_id, new.epoch)";
        if rows.is_empty() {
            return Ok(());
        }
        let timelines = || rows.values().map(|row| &row.timeline);
        let shapes = || timelines().map(|timeline| timeline.newest().map(|(_, shape)| shape));
        sqlx::query(WRITE)
            .bind(self.consumer)
            .bind(rows.keys().map(|key| key.feature.layer.as_str()).collect::<Vec<_>>())
            .bind(rows.keys().map(|key| key.feature.id.as_str()).collect::<Vec<_>>())
            .bind(rows.keys().map(|key| key.epoch.0).collect::<Vec<_>>())
            .bind(timelines().map(|timeline| timeline.watermark().0).collect::<Vec<_>>())
            .bind(
                timelines()
                    .map(|timeline| values::multirange(timeline.seen()))
                    .collect::<Vec<_>>(),
            )
            .bind(
                timelines()
                    .map(|timeline| timeline.newest().map(|(version, _)| version.0))
                    .collect::<Vec<_>>(),
            )
            .bind(shapes().map(wkb_of).collect::<Vec<_>>())
            .bind(shapes().map(box_of).collect::<Vec<_>>())
            .bind(
                rows.values()
                    .map(|row| row.certain_from.map(|version| version.0))
                    .collect::<Vec<_>>(),
            )
            .execute(&mut *self.transaction)
            .await
            .map_err(failed("write ledger rows"))?;
        Ok(())
    }

    /// Writes what is now known of a layer, together with what another consumer of the name has written meanwhile.
    async fn write_layer(&mut self, layer: &LayerName, state: &LayerState) -> Result<(), LedgerError> {
        const INSERT: &str = "
            INSERT INTO tilewake.consumer_layer (consumer, layer, epoch) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        const LOCK: &str = "
            SELECT layer, epoch, raised, settings_epoch, settings FROM tilewake.consumer_layer
            WHERE consumer = $1 AND layer = $2
            FOR NO KEY UPDATE";
        const WRITE: &str = "
            UPDATE tilewake.consumer_layer SET epoch = $3, raised = $4, settings_epoch = $5, settings = $6
            WHERE consumer = $1 AND layer = $2";
        let (consumer, connection) = (self.consumer, &mut *self.transaction);
        let write = async {
            let insert = sqlx::query(INSERT)
                .bind(consumer)
                .bind(layer.as_str())
                .bind(state.epoch.0);
            insert.execute(&mut *connection).await?;
            let lock = sqlx::query(LOCK).bind(consumer).bind(layer.as_str());
            let (_, known) = read_layer(&lock.fetch_one(&mut *connection).await?)?;
            let state = known.merge(state);
            sqlx::query(WRITE)
                .bind(consumer)
                .bind(layer.as_str())
                .bind(state.epoch.0)
                .bind(state.raised.iter().map(|epoch| epoch.0).collect::<Vec<_>>())
                .bind(state.settings.map(|(epoch, _)| epoch.0))
                .bind(state.settings.map(|(_, settings)| sqlx::types::Json(settings)))
                .execute(connection)
                .await
        };
        write.await.map_err(failed("write the consumer's layer"))?;
        Ok(())
    }

    /// Appends to the journal. Last before the commit: the numbers are taken under a lock that is held until then, so
    /// their order is the order of the commits.
    pub async fn append(&mut self, entries: &[JournalEntry]) -> Result<(), LedgerError> {
        journal::append(&mut self.transaction, self.consumer, entries)
            .await
            .map_err(failed("append to the journal"))
    }

    /// Commits; only now may the batch be acknowledged.
    pub async fn commit(self) -> Result<(), LedgerError> {
        self.transaction.commit().await.map_err(failed("commit the ledger"))
    }
}
