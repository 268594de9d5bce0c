//! Follows the journal of a consumer name and drops stale tiles from the cache of this process.
//!
//! The cache begins empty, so its cursor may begin at the journal's end: it is read before the first fill. From then on
//! the cursor moves behind the purge, never before it (I1). While the cache is not at the journal's end it answers
//! `no-store`; when the database session breaks it empties itself, because it may hold the picture of an edit that a
//! crash took back.

use std::{io, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{PgPool, postgres::PgListener};
use tilewake_core::{
    backoff,
    journal::{Purge, plan},
    layer::LayerName,
};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    metrics,
    postgres::journal::{self, NamedEvent, Read},
    tiles::{cache::TileCache, render::RenderError},
};

/// The name of the cache of this process in metrics.
const TARGET: &str = "cache";
/// Rows read at once.
const PAGE: i64 = 500;
/// A cache further behind than this rather begins anew.
const MAX_BEHIND: i64 = 20_000;
/// A session that has not answered for this long counts as broken: the cache must not be trusted for as long as the network
/// takes to admit that the server is gone.
const ANSWER_BOUND: Duration = Duration::from_secs(10);

/// Says that tiles have been dropped from the cache.
#[derive(Clone, Debug)]
pub enum PurgeNotice {
    /// The tiles of one journal row.
    Tiles(PurgedTiles),
    /// Whatever was in it.
    Everything,
}

/// The tiles of a journal row, dropped.
#[derive(Clone, Debug, Serialize)]
pub struct PurgedTiles {
    /// The journal row.
    pub number: i64,
    /// The layer.
    pub layer: LayerName,
    /// The stale tiles, as ranges of PMTiles tile ids: first id and number of tiles.
    pub ranges: Vec<(u64, u64)>,
    /// What made them stale.
    pub events: Vec<NamedEvent>,
    /// When they had been dropped, by the clock of this machine.
    pub purged_at: DateTime<Utc>,
}

/// Whether purges reach the cache: off only to prove that checks notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purging {
    /// They do.
    #[default]
    On,
    /// They are read and forgotten.
    Off,
}

/// Follows one consumer name's journal for the cache of this process.
pub struct CachePurger {
    /// The ledger's database.
    pub pool: PgPool,
    /// The consumer name.
    pub consumer: String,
    /// What is purged.
    pub cache: Arc<TileCache<RenderError>>,
    /// Who wants to know.
    pub notices: broadcast::Sender<PurgeNotice>,
    /// How often to look without having been told.
    pub poll: Duration,
    /// Whether to purge at all.
    pub purging: Purging,
}

impl CachePurger {
    /// Follows until stopped; a broken session is begun anew with an empty cache.
    pub async fn run(self, stop: CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let followed = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                followed = self.follow(&mut failures) => followed,
            };
            self.cache.close();
            let _ = self.notices.send(PurgeNotice::Everything);
            if let Err(error) = followed {
                failures += 1;
                let wait = backoff::delay(failures, crate::jitter()).min(Duration::from_secs(5));
                warn!(
                    error = &error as &dyn std::error::Error,
                    "lost the journal; the cache was emptied"
                );
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
        self.cache.close();
    }

    /// One session: ends with the error that broke it.
    async fn follow(&self, failures: &mut u32) -> Result<(), sqlx::Error> {
        let mut session = answer(PgListener::connect_with(&self.pool)).await?;
        session.eager_reconnect(false);
        answer(session.listen(journal::CHANNEL)).await?;
        let mut cursor = answer(journal::head(&mut session, &self.consumer)).await?;
        self.cache.open();
        info!(consumer = self.consumer, cursor, "following the journal");
        loop {
            let read = answer(journal::read(&mut session, &self.consumer, cursor, PAGE)).await?;
            *failures = 0;
            let head = read.page.head;
            if head != cursor {
                self.cache.fall_behind();
                cursor = self.purge(cursor, read);
            }
            if cursor == head {
                self.cache.catch_up();
                self.wait(&mut session).await?;
            }
        }
    }

    /// Purges what stands behind the cursor; returns where the cursor stands then.
    fn purge(&self, cursor: i64, read: Read) -> i64 {
        let notices = notices_of(&read);
        let plan = plan(cursor, read.page, MAX_BEHIND);
        match plan.purge {
            _ if self.purging == Purging::Off => {}
            Purge::Nothing => {}
            Purge::Tiles(tiles) => {
                let n_dropped = self.cache.purge(&tiles);
                metrics::purged(TARGET, n_dropped);
                debug!(cursor = plan.cursor, n_dropped, "purged");
                self.tell(notices);
            }
            Purge::Everything => {
                self.cache.empty();
                metrics::emptied(TARGET);
                let _ = self.notices.send(PurgeNotice::Everything);
                info!(
                    cursor = plan.cursor,
                    "the cache fell out of the journal and was emptied"
                );
            }
        }
        plan.cursor
    }

    fn tell(&self, notices: Vec<PurgedTiles>) {
        let purged_at = Utc::now();
        for mut notice in notices {
            notice.purged_at = purged_at;
            for event in &notice.events {
                metrics::edit_to_purge((purged_at - event.occurred_at).to_std().unwrap_or_default());
            }
            // Nobody listening is no error.
            let _ = self.notices.send(PurgeNotice::Tiles(notice));
        }
    }

    /// Waits for the journal to grow. `Err` when the session broke meanwhile.
    async fn wait(&self, session: &mut PgListener) -> Result<(), sqlx::Error> {
        let deadline = tokio::time::Instant::now() + self.poll;
        loop {
            match tokio::time::timeout_at(deadline, session.try_recv()).await {
                Err(_) => return Ok(()),
                Ok(Ok(Some(told))) if told.payload() == self.consumer => return Ok(()),
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return Err(sqlx::Error::WorkerCrashed),
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}

async fn answer<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let answered = tokio::time::timeout(ANSWER_BOUND, asked).await;
    answered.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

fn notices_of(read: &Read) -> Vec<PurgedTiles> {
    read.page
        .rows
        .iter()
        .zip(&read.events)
        .map(|((number, layer, tiles), events)| PurgedTiles {
            number: *number,
            layer: layer.clone(),
            ranges: tiles
                .ranges()
                .iter()
                .map(|range| (range.start, range.end - range.start))
                .collect(),
            events: events.clone(),
            purged_at: DateTime::UNIX_EPOCH,
        })
        .collect()
}
