//! A relay's session in the features' database: it holds the claim, and the lock that says whether the relay sleeps.

use std::time::Duration;

use sqlx::{
    ConnectOptions, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgListener},
};
use tilewake_core::{
    event::Event,
    outbox::{OutboxRow, Settlement},
};
use tracing::warn;

use super::{
    cluster::{self, Cluster},
    outbox, session,
};

/// A relay's session failed; its claim is gone, and its rows are free.
#[derive(Debug, thiserror::Error)]
#[error("could not {action}")]
pub struct SessionError {
    action: &'static str,
    #[source]
    source: sqlx::Error,
}

impl SessionError {
    /// Wraps an error with what was tried.
    pub fn failed(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self { action, source }
    }
}

/// The longest nap while another writer is in flight that took this relay for awake: it will not wake it.
const LONGEST_NAP: Duration = Duration::from_millis(50);
const SHORTEST_NAP: Duration = Duration::from_millis(2);

/// A session that claims rows, and sleeps when there are none.
pub struct RelaySession {
    pool: PgPool,
    publish_bound: Duration,
    connection: Option<PgConnection>,
    listener: Option<PgListener>,
    nap: Duration,
}

/// How a relay came to be awake again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It never slept: a row was found, perhaps one behind those it has claimed before.
    AtOnce,
    /// A writer committed, or the poll interval has passed.
    Later,
}

/// How a relay came to sleep.
enum Bed {
    /// It holds the lock: every writer that commits from now on wakes it.
    Mine,
    /// Another relay holds it, and writers wake all that listen; or wake-ups are off.
    Shared,
    /// A writer is in flight that saw relays awake, and will wake nobody.
    Taken,
}

impl RelaySession {
    /// A session that is opened when it is first needed.
    #[must_use]
    pub fn new(pool: PgPool, publish_bound: Duration) -> Self {
        Self {
            pool,
            publish_bound,
            connection: None,
            listener: None,
            nap: SHORTEST_NAP,
        }
    }

    /// Connections for what must not happen in the claiming transaction.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Forgets a broken session. The server rolls its transaction back.
    pub fn reset(&mut self) {
        self.connection = None;
    }

    /// Begins the transaction that holds the claim.
    pub async fn claim(&mut self, from: i64, limit: i64) -> Result<Vec<OutboxRow>, SessionError> {
        let connection = self
            .connection()
            .await
            .map_err(SessionError::failed("connect to the features' database"))?;
        execute(connection, "BEGIN")
            .await
            .map_err(SessionError::failed("begin a claim"))?;
        outbox::claim(connection, from, limit)
            .await
            .map_err(SessionError::failed("claim outbox rows"))
    }

    /// Ends a claim that found nothing.
    pub async fn release(&mut self) -> Result<(), SessionError> {
        let connection = self
            .connection()
            .await
            .map_err(SessionError::failed("connect to the features' database"))?;
        execute(connection, "ROLLBACK")
            .await
            .map_err(SessionError::failed("end a claim"))
    }

    /// Whether the claim still stands: if the session broke, the rows are free and perhaps claimed by another relay.
    pub async fn check(&mut self) -> Result<(), SessionError> {
        let lost = || SessionError::failed("keep the claim")(sqlx::Error::WorkerCrashed);
        let connection = self.connection.as_mut().ok_or_else(lost)?;
        execute(connection, "SELECT")
            .await
            .map_err(SessionError::failed("keep the claim"))
    }

    /// Writes what became of the claimed rows and commits.
    pub async fn settle(&mut self, settlement: &Settlement, buried: &[(i64, Event)]) -> Result<(), SessionError> {
        let lost = || SessionError::failed("keep the claim")(sqlx::Error::WorkerCrashed);
        let connection = self.connection.as_mut().ok_or_else(lost)?;
        outbox::settle(connection, settlement, buried, crate::jitter)
            .await
            .map_err(SessionError::failed("mark outbox rows"))?;
        execute(connection, "COMMIT")
            .await
            .map_err(SessionError::failed("commit marks"))?;
        self.nap = SHORTEST_NAP;
        Ok(())
    }

    /// Sleeps until a writer commits, or `poll` has passed.
    pub async fn sleep(&mut self, poll: Duration) -> Result<Woken, SessionError> {
        self.listen()
            .await
            .map_err(SessionError::failed("listen for wake-ups"))?;
        let bed = self
            .lie_down()
            .await
            .map_err(SessionError::failed("tell writers that a relay sleeps"))?;
        let mut woken = Woken::Later;
        match bed {
            Bed::Mine if self.has_work().await.map_err(SessionError::failed("look once more"))? => {
                woken = Woken::AtOnce;
            }
            Bed::Mine | Bed::Shared => self.wait(poll).await,
            Bed::Taken => {
                let nap = self.nap.min(poll);
                self.nap = (self.nap * 2).min(LONGEST_NAP);
                self.wait(nap).await;
            }
        }
        if let Bed::Mine = bed {
            self.get_up()
                .await
                .map_err(SessionError::failed("tell writers that the relay is awake"))?;
        }
        Ok(woken)
    }

    async fn wait(&mut self, time: Duration) {
        let Some(listener) = &mut self.listener else { return };
        // Whatever ends the wait, the next claim says what is there. A broken listener reconnects by itself, and the
        // poll covers what it missed.
        match tokio::time::timeout(time, listener.try_recv()).await {
            Ok(Ok(Some(_))) | Err(_) => {}
            Ok(Ok(None) | Err(_)) => tokio::time::sleep(time.min(LONGEST_NAP)).await,
        }
        while listener.next_buffered().is_some() {}
    }

    async fn lie_down(&mut self) -> Result<Bed, sqlx::Error> {
        let connection = self.connection().await?;
        let bed: &str = "SELECT tilewake.try_sleep()";
        let answer: String = sqlx::query_scalar(bed).fetch_one(connection).await?;
        Ok(match answer.as_str() {
            "asleep" => Bed::Mine,
            "busy" => Bed::Taken,
            // Another relay's lock has writers wake all that listen; or wake-ups are off, and only the poll is left.
            _ => Bed::Shared,
        })
    }

    async fn get_up(&mut self) -> Result<(), sqlx::Error> {
        let connection = self.connection().await?;
        execute(connection, "SELECT tilewake.awake()").await
    }

    /// Whether there is a row to claim, anywhere. What another relay holds is none, or this one would not sleep for as
    /// long as the other publishes.
    async fn has_work(&mut self) -> Result<bool, sqlx::Error> {
        const LOOK: &str = "
            SELECT FROM tilewake.outbox
            WHERE published_at IS NULL AND (available_at IS NULL OR available_at <= clock_timestamp())
            LIMIT 1
            FOR KEY SHARE SKIP LOCKED";
        let connection = self.connection().await?;
        Ok(sqlx::query(LOOK).fetch_optional(connection).await?.is_some())
    }

    async fn listen(&mut self) -> Result<(), sqlx::Error> {
        if self.listener.is_none() {
            let mut listener = PgListener::connect_with(&self.pool).await?;
            listener.listen(outbox::CHANNEL).await?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    async fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        if self.connection.is_none() {
            // The session before may have ended with its server, and another one taken that server's place.
            if cluster::look(&self.pool).await? == Cluster::Changed {
                warn!("the database cluster is another one than before; every layer is purged");
            }
            self.connection = Some(self.options().connect().await?);
        }
        self.connection.as_mut().ok_or(sqlx::Error::WorkerCrashed)
    }

    /// The server itself frees the rows of a relay that froze or whose machine went away.
    fn options(&self) -> PgConnectOptions {
        let options = PgConnectOptions::clone(&self.pool.connect_options());
        // A mark that a crash takes back is made again: the event is then published twice, which is harmless (I3).
        session::bounded(options, "tilewake relay", self.publish_bound).options([("synchronous_commit", "off")])
    }
}

async fn execute(connection: &mut PgConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql).execute(connection).await.map(drop)
}
