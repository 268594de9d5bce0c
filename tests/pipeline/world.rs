//! A database with one layer of points, and what can be asked of it.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, PgConnection, PgPool, postgres::PgPoolOptions};
use tilewake::{
    consumer::{Consumer, ConsumerSettings},
    postgres::{
        self, journal,
        layers::{self, NewLayer},
        outbox,
        relay_session::RelaySession,
    },
    relay::{self, Flush, RelaySettings},
    transport::{Publisher, direct::Direct},
};
use tilewake_core::{
    cover::CoverLimits,
    layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms},
};
use tilewake_testbed::postgres::{Database, Server};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// No test waits longer than this for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A database of its own with the layer `places`: points with a name, drawn at zooms 0 to 14.
pub(crate) struct World {
    pub(crate) pool: PgPool,
    pub(crate) database: Database,
}

/// A relay at work, stopped when dropped.
pub(crate) struct RunningRelay {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(Server::shared()).await
    }

    pub(crate) async fn on(server: &Server) -> Self {
        // Shown for tests that fail. An error means that another test has started it.
        let _ = tracing_subscriber::fmt()
            .with_env_filter("warn")
            .with_test_writer()
            .try_init();
        let database = server.database().await.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(40)
            .connect_with(database.options())
            .await
            .unwrap();
        postgres::migrate(&pool).await.unwrap();
        let world = Self { pool, database };
        world
            .sql("CREATE TABLE places (id bigint PRIMARY KEY, name text, geom geometry(Point, 4326))")
            .await;
        layers::add(&world.pool, &places()).await.unwrap();
        world
    }

    /// Runs statements, each in a transaction of its own.
    pub(crate) async fn sql(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.pool)
            .await
            .unwrap();
    }

    /// Inserts the places 1 to `n_places`.
    pub(crate) async fn insert(&self, n_places: usize) {
        let places = format!("SELECT i, 'n', ST_Point(i, 1, 4326) FROM generate_series(1, {n_places}) i");
        self.sql(&format!("INSERT INTO places {places}")).await;
    }

    /// Another session.
    pub(crate) async fn session(&self) -> PgConnection {
        self.database.connect().await.unwrap()
    }

    /// A single number.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn consumer(&self, remembered_events: u64) -> Consumer {
        let settings = ConsumerSettings {
            name: "test".to_owned(),
            remembered_events,
            limits: CoverLimits::default(),
        };
        Consumer::open(self.pool.clone(), settings).await.unwrap()
    }

    pub(crate) async fn direct(&self) -> Direct {
        Direct::new(Arc::new(self.consumer(1000).await))
    }

    pub(crate) fn relay<P: Publisher + 'static>(&self, publisher: Arc<P>) -> RunningRelay {
        self.relay_with(publisher, settings())
    }

    pub(crate) fn relay_with<P: Publisher + 'static>(
        &self,
        publisher: Arc<P>,
        settings: RelaySettings,
    ) -> RunningRelay {
        let stop = CancellationToken::new();
        let session = RelaySession::new(self.pool.clone(), settings.publish_bound);
        let task = tokio::spawn(relay::run(session, publisher, settings, stop.clone()));
        RunningRelay { stop, task: Some(task) }
    }

    /// Waits until every outbox row is published.
    pub(crate) async fn drained(&self) {
        eventually("the outbox is empty", || async {
            outbox::backlog(&self.pool).await.unwrap().unpublished_rows == 0
        })
        .await;
    }

    /// Event id and arrival of everything in the journal, in its order.
    pub(crate) async fn journal(&self) -> Vec<(String, String)> {
        let read = journal::read(&self.pool, "test", 0, i64::MAX).await.unwrap();
        let events = read.events.into_iter().flatten();
        events
            .map(|event| (event.id, event.arrival))
            .filter(|(_, arrival)| arrival != "epoch")
            .collect()
    }

    /// Whether the ledger knows exactly the versions and geometries that the table has.
    pub(crate) async fn ledger_disagreements(&self) -> i64 {
        self.count(
            "SELECT count(*) FROM tilewake.feature
             LEFT JOIN tilewake.ledger ON ledger.consumer = 'test' AND ledger.layer = feature.layer
                                      AND ledger.epoch = feature.epoch AND ledger.feature_id = feature.feature_id
             LEFT JOIN places ON places.id = feature.feature_id::bigint
             WHERE ledger.watermark IS DISTINCT FROM feature.version
                OR ledger.state_version IS DISTINCT FROM feature.version
                OR ledger.seen <> '{}'
                OR ST_GeomFromWKB(ledger.geometry, 4326) IS DISTINCT FROM places.geom",
        )
        .await
    }
}

impl RunningRelay {
    /// Stops it and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
        }
    }

    /// Ends it wherever it is, as a crash would.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

fn places() -> NewLayer {
    NewLayer {
        name: LayerName::new("places").unwrap(),
        settings: LayerSettings {
            zooms: Zooms::new(0, 14).unwrap(),
            buffer: Buffer::DEFAULT,
            policy: Policy::Footprint,
            beyond_180: Beyond180::Both,
        },
        table: "public.places".to_owned(),
        id: None,
        geometry: None,
        columns: None,
    }
}

/// The settings of a relay that retries soon.
pub(crate) fn settings() -> RelaySettings {
    RelaySettings {
        batch: 200,
        publish_bound: Duration::from_secs(20),
        poll: Duration::from_millis(200),
        max_attempts: 10,
        max_bytes: 1 << 20,
        flush: Flush::Forced,
    }
}

/// Waits for something to become true; fails after [`PATIENCE`].
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let is_so_at_last = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, is_so_at_last).await.is_ok(),
        "waited in vain: {what}"
    );
}
