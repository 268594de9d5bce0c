//! Moves outbox rows to the transport, joining the geometry that is current when it reads.
//!
//! A batch's way: claim, read, check, publish, mark, commit. Publish comes before mark, so a relay that dies in between
//! publishes twice and loses nothing (I2, I3); exactly the acknowledged rows are marked. Any number of relays may run.

use std::{io, sync::Arc, time::Duration};

use tilewake_core::{
    event::{Event, WalPosition},
    outbox::{self, OutboxRow, Record, Sent},
};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    metrics,
    postgres::{
        cluster,
        current::{self, CurrentFeatures},
        relay_session::{RelaySession, SessionError, Woken},
    },
    transport::Publisher,
};

/// What a relay is made with.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Rows a batch.
    pub batch: i64,
    /// How long a publish may take before the batch is given up; the session's
    /// `idle_in_transaction_session_timeout` lies just above it, so that a frozen relay's rows become free.
    pub publish_bound: Duration,
    /// How often to look without having been woken.
    pub poll: Duration,
    /// How often an event may fail alone before it goes out without geometry and its row is buried.
    pub max_attempts: u32,
    /// Geometries larger than this many bytes of well-known binary go out as boxes.
    pub max_bytes: i64,
    /// Whether the edit's log is forced to disk before it is announced.
    pub flush: Flush,
}

/// Whether to force the write-ahead log to disk before an edit is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// It is: an edit with `synchronous_commit = off` could still be taken back by a crash. Also where the ledger commits in
    /// the same cluster: it may do so in a session younger than the crash, and would then take the next edit of that
    /// version for a repeat.
    Forced,
    /// It is not: only to prove that checks notice.
    Never,
}

/// From which row number on to claim.
///
/// Rows behind the last batch are mostly published, and stepping over their dead index entries costs; but late commits,
/// retries and the rows of dead relays lie there too. So once a second the claim starts from zero.
struct Floor {
    from: i64,
    last_full: Option<Instant>,
}

const FULL_CLAIM: Duration = Duration::from_secs(1);

/// How long the server may take for what is neither reading nor publishing, before the session counts as broken.
const SERVER_BOUND: Duration = Duration::from_secs(15);

impl Floor {
    fn next(&mut self, now: Instant) -> i64 {
        if self.last_full.is_none_or(|last| now - last >= FULL_CLAIM) {
            self.last_full = Some(now);
            self.from = 0;
        }
        self.from
    }

    /// Has the next claim start from zero.
    fn sink(&mut self) {
        self.last_full = None;
    }

    fn claimed(&mut self, rows: &[OutboxRow]) {
        if let Some(last) = rows.last() {
            self.from = last.id + 1;
        }
    }
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// Nothing to claim.
    Empty,
    /// This many rows were sent, all with an answer.
    Sent(usize),
    /// The transport as a whole failed; the rows stay.
    TransportDown,
}

/// Relays rows until stopped. A broken session is begun anew; it ends only on `stop`.
pub async fn run<P: Publisher>(
    session: RelaySession,
    publisher: Arc<P>,
    settings: RelaySettings,
    stop: CancellationToken,
) {
    let mut relay = Relay {
        session,
        publisher,
        settings,
        floor: Floor {
            from: 0,
            last_full: None,
        },
        failures: 0,
        size: 0,
    };
    relay.size = relay.settings.batch;
    info!("relay started");
    while !stop.is_cancelled() {
        match relay.bounded_batch().await {
            Ok(Batch::Sent(n_rows)) => {
                relay.failures = 0;
                relay.size = (relay.size * 2).min(relay.settings.batch);
                debug!(n_rows, "batch published");
            }
            Ok(Batch::Empty) => {
                relay.failures = 0;
                relay.sleep(&stop).await;
            }
            Ok(Batch::TransportDown) => relay.wait_out_a_failure(&stop).await,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "batch dropped; its rows stay in the outbox"
                );
                relay.session.reset();
                relay.wait_out_a_failure(&stop).await;
            }
        }
    }
    info!("relay stopped");
}

struct Relay<P> {
    session: RelaySession,
    publisher: Arc<P>,
    settings: RelaySettings,
    floor: Floor,
    failures: u32,
    /// Rows of the next batch. Half as many after a failure: if it was too much to read or to take in within the bound, it
    /// would be for ever.
    size: i64,
}

impl<P: Publisher> Relay<P> {
    /// Gives a batch up that waits for a server which will never answer.
    async fn bounded_batch(&mut self) -> Result<Batch, SessionError> {
        // Whatever is read for longer than the publish bound is lost: the server has ended the claim by then.
        let bound = 2 * self.settings.publish_bound + SERVER_BOUND;
        let late = |_| SessionError::failed("finish a batch in time")(io::Error::from(io::ErrorKind::TimedOut).into());
        timeout(bound, self.batch()).await.map_err(late)?
    }

    /// Takes one batch all the way. Dropped at any point, its transaction rolls back and its rows are free.
    async fn batch(&mut self) -> Result<Batch, SessionError> {
        let from = self.floor.next(Instant::now());
        let rows = self.session.claim(from, self.size).await?;
        self.floor.claimed(&rows);
        if rows.is_empty() {
            self.session.release().await?;
            return Ok(Batch::Empty);
        }
        let events = self.events(&rows).await?;
        // If the claim's session broke, another relay may hold these rows already: the batch is dropped.
        self.session.check().await?;
        let sent = self.publish(events.clone()).await;
        let is_down = sent.iter().all(|sent| *sent == Sent::Unknown);
        let settlement = outbox::settle(rows.iter().zip(sent.iter().cloned()), self.settings.max_attempts);
        let buried: Vec<_> = rows
            .iter()
            .zip(&events)
            .filter(|(row, _)| settlement.buried.contains(&row.id))
            .map(|(row, event)| (row.id, event.clone()))
            .collect();
        self.session.settle(&settlement, &buried).await?;
        for (id, event) in &buried {
            error!(row = id, event = %event.id(), "row moved to the dead letters; its tiles were purged by box");
        }
        count(&events, &sent);
        Ok(if is_down {
            Batch::TransportDown
        } else {
            Batch::Sent(rows.len())
        })
    }

    /// Joins what is current, after the claim and from one snapshot a layer.
    async fn events(&self, rows: &[OutboxRow]) -> Result<Vec<Event>, SessionError> {
        let pool = self.session.pool();
        let current = current::read(pool, rows, self.settings.max_bytes)
            .await
            .map_err(SessionError::failed("read the features"))?;
        let wal_position = cluster::insert_position(pool)
            .await
            .map_err(SessionError::failed("read the log position"))?;
        if self.settings.flush == Flush::Forced {
            cluster::flush(pool, wal_position)
                .await
                .map_err(SessionError::failed("flush the log"))?;
        }
        Ok(rows.iter().map(|row| self.event(row, &current, wal_position)).collect())
    }

    fn event(&self, row: &OutboxRow, current: &CurrentFeatures, wal_position: WalPosition) -> Event {
        match &row.record {
            Record::Edit(edit) if outbox::is_exhausted(row, self.settings.max_attempts) => {
                Event::Edit(outbox::without_geometry(edit.clone(), wal_position))
            }
            Record::Edit(edit) => Event::Edit(outbox::join(edit.clone(), current.feature(&edit.key), wal_position)),
            Record::Epoch {
                layer,
                epoch,
                occurred_at,
            } => outbox::raised(
                layer.clone(),
                *epoch,
                current.settings(layer),
                *occurred_at,
                wal_position,
            ),
        }
    }

    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let n_events = events.len();
        let published = timeout(self.settings.publish_bound, self.publisher.publish(events)).await;
        published.unwrap_or_else(|_| {
            warn!(bound = ?self.settings.publish_bound, "publish took too long; the rows stay in the outbox");
            vec![Sent::Unknown; n_events]
        })
    }

    /// Sleeps until a writer commits, or the poll interval has passed.
    async fn sleep(&mut self, stop: &CancellationToken) {
        let poll = self.settings.poll;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            slept = timeout(poll + SERVER_BOUND, self.session.sleep(poll)) => match slept {
                Ok(Ok(Woken::Later)) => {}
                Ok(Ok(Woken::AtOnce)) => self.floor.sink(),
                Ok(Err(error)) => {
                    warn!(error = &error as &dyn std::error::Error, "session lost while asleep");
                    self.session.reset();
                }
                Err(_) => {
                    warn!("the server did not answer a relay that was about to sleep");
                    self.session.reset();
                }
            }
        }
    }

    async fn wait_out_a_failure(&mut self, stop: &CancellationToken) {
        self.failures = self.failures.saturating_add(1);
        self.size = (self.size / 2).max(1);
        // Half of the bound at least, so that a failing transport is not hammered.
        let wait = tilewake_core::backoff::delay(self.failures, 0.5 + crate::jitter() / 2.0);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait.min(Duration::from_secs(30))) => {}
        }
    }
}

fn count(events: &[Event], sent: &[Sent]) {
    for (event, sent) in events.iter().zip(sent) {
        if *sent == Sent::Acknowledged {
            metrics::published(event.action(), 1);
        }
    }
}
