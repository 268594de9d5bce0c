//! Turns events into stale tiles: decided exactly once, whatever arrives how often and in which order.
//!
//! One transaction a batch: ids, ledger, journal. Only after its commit is the batch acknowledged, and only then does
//! the cache of known ids learn of it; the unique constraint behind the cache is the truth about duplicates.

use std::collections::BTreeSet;

use moka::sync::Cache;
use sqlx::PgPool;
use tilewake_core::{
    cover::CoverLimits,
    event::{Event, EventId},
    feature::FeatureKey,
    ledger::{self, Decision, Gap, Start},
    timeline::Arrival,
};

use crate::{
    metrics,
    postgres::ledger::{LedgerError, LedgerTransaction, start_consumer},
};

/// A consumer cannot take a batch in.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The ledger's database failed.
    #[error("could not write the ledger of consumer {consumer:?}")]
    Ledger {
        /// The consumer name.
        consumer: String,
        /// Why.
        #[source]
        source: LedgerError,
    },
}

impl ConsumeError {
    /// Whether one of the events is to blame, so that the others would pass without it.
    #[must_use]
    pub fn is_about_an_event(&self) -> bool {
        match self {
            Self::Ledger { source, .. } => source.is_about_an_event(),
        }
    }
}

/// What a consumer is made with.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// Owns a ledger and a journal; consumers of one name share them.
    pub name: String,
    /// How many ids of events to remember, so that a repeat costs no round trip.
    pub remembered_events: u64,
    /// How exact the stale tiles of one event or batch may be.
    pub limits: CoverLimits,
}

/// A consumer of events; any number of one name may run at once.
pub struct Consumer {
    pool: PgPool,
    settings: ConsumerSettings,
    remembered: Cache<EventId, ()>,
    start: Start,
}

/// How a batch was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Events that were new.
    pub n_new: usize,
    /// Events seen before.
    pub n_duplicates: usize,
    /// Tiles that became stale.
    pub n_stale_tiles: u64,
}

impl Consumer {
    /// Opens the ledger of a consumer name, or begins one.
    pub async fn open(pool: PgPool, settings: ConsumerSettings) -> Result<Self, ConsumeError> {
        let start = start_consumer(&pool, &settings.name)
            .await
            .map_err(|source| ConsumeError::Ledger {
                consumer: settings.name.clone(),
                source,
            })?;
        let remembered = Cache::new(settings.remembered_events);
        Ok(Self {
            pool,
            settings,
            remembered,
            start,
        })
    }

    /// The consumer name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Takes a batch in; when this returns, it is committed.
    pub async fn consume(&self, events: &[Event]) -> Result<Consumed, ConsumeError> {
        let (known, unknown): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|event| self.remembered.contains_key(&event.id()));
        metrics::duplicates("cache", known.len());
        let mut consumed = Consumed {
            n_duplicates: known.len(),
            ..Consumed::default()
        };
        if unknown.is_empty() {
            return Ok(consumed);
        }
        let decision = self.transact(&unknown).await.map_err(|source| ConsumeError::Ledger {
            consumer: self.settings.name.clone(),
            source,
        })?;
        for event in unknown {
            self.remembered.insert(event.id(), ());
        }
        count(&decision, &mut consumed, events.len() - known.len());
        Ok(consumed)
    }

    async fn transact(&self, events: &[&Event]) -> Result<Decision, LedgerError> {
        let mut transaction = LedgerTransaction::begin(&self.pool, &self.settings.name).await?;
        let new = transaction.mark_consumed(events).await?;
        if new.is_empty() {
            return Ok(Decision::default());
        }
        let mut ledger = transaction.lock(&new).await?;
        let before = ledger.layers.clone();
        let decision = ledger::decide(&mut ledger, &new, self.start, self.settings.limits);
        transaction.write(&ledger, &before).await?;
        transaction.append(&decision.journal).await?;
        transaction.commit().await?;
        Ok(decision)
    }
}

fn count(decision: &Decision, consumed: &mut Consumed, n_sent: usize) {
    let caught_by_constraint = n_sent - decision.arrivals.len();
    metrics::duplicates("constraint", caught_by_constraint);
    let mut n_new = 0;
    for event in &decision.arrivals {
        metrics::arrival(event.arrival);
        n_new += usize::from(event.arrival != Arrival::Duplicate);
    }
    metrics::duplicates("ledger", decision.arrivals.len() - n_new);
    consumed.n_new = n_new;
    consumed.n_duplicates += n_sent - n_new;
    consumed.n_stale_tiles = decision.journal.iter().map(|entry| entry.tiles.n_tiles()).sum();
}

impl Consumer {
    /// Judges the gaps that have been open for longer than `patience`; returns the features of those that are real.
    ///
    /// A real gap means that an edit was never published: its layer is purged, the watermark moves on, and a person must
    /// know.
    pub async fn judge_gaps(&self, patience: std::time::Duration) -> Result<Vec<String>, ConsumeError> {
        let failed = |source| ConsumeError::Ledger {
            consumer: self.settings.name.clone(),
            source,
        };
        let mut transaction = LedgerTransaction::begin(&self.pool, &self.settings.name)
            .await
            .map_err(failed)?;
        let mut ledger = transaction.lock_old_gaps(patience).await.map_err(failed)?;
        if ledger.rows.is_empty() {
            return Ok(Vec::new());
        }
        let before = ledger.layers.clone();
        let mut lost = Vec::new();
        let mut layers = BTreeSet::new();
        for (key, row) in &mut ledger.rows {
            if let Some(Gap::Lost { first, last }) = ledger::judge_gap(row) {
                let FeatureKey { layer, id } = &key.feature;
                lost.push(format!("{layer}/{id}, versions {first} to {last}"));
                layers.insert(key.feature.layer.clone());
            }
        }
        let purges: Vec<_> = layers.into_iter().map(ledger::purge_layer).collect();
        transaction.write(&ledger, &before).await.map_err(failed)?;
        transaction.append(&purges).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(lost)
    }
}
