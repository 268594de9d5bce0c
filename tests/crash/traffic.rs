//! Writers that edit and readers that ask for tiles while things break, and the judgement afterwards.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use hyper::StatusCode;
use sqlx::{AssertSqlSafe, PgConnection};
use tilewake::tiles::render;
use tilewake_core::{layer::LayerName, tile::TileId};
use tilewake_testbed::{http::Client, postgres::Database};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    program::Program,
    world::{World, eventually},
};

/// Features that each writer has for itself.
const PLACES_A_WRITER: i64 = 12;
/// The deepest zoom that readers ask for: few enough tiles that they come back to them.
const DEEPEST: u8 = 8;
/// Where the features are, in degrees, and the tiles of the deepest zoom there.
const WEST_SOUTH: (f64, f64) = (19.8, 60.0);
const WIDTH_HEIGHT: (f64, f64) = (5.4, 2.7);
const COLUMNS: RangeInclusive<u32> = 142..=145;
const ROWS: RangeInclusive<u32> = 70..=74;

/// The seed of everything random here: fixed, unless `TILEWAKE_SEED` says otherwise.
pub(crate) fn random() -> fastrand::Rng {
    let seed = std::env::var("TILEWAKE_SEED").map_or(0x7769_6b65, |seed| seed.parse().unwrap());
    println!("seed {seed}: set TILEWAKE_SEED to try another");
    fastrand::Rng::with_seed(seed)
}

/// The tiles that readers ask for: those around the features.
pub(crate) fn tiles() -> Vec<TileId> {
    let shown = |z: u8, range: RangeInclusive<u32>| range.start() >> (DEEPEST - z)..=range.end() >> (DEEPEST - z);
    (0..=DEEPEST)
        .flat_map(|z| shown(z, COLUMNS).flat_map(move |x| shown(z, ROWS).map(move |y| TileId::new(z, x, y).unwrap())))
        .collect()
}

fn path(tile: TileId) -> String {
    format!("/places/{}/{}/{}.mvt", tile.z(), tile.x(), tile.y())
}

/// Writers and readers at work until stopped.
pub(crate) struct Traffic {
    writers: JoinSet<()>,
    readers: JoinSet<()>,
    stop: CancellationToken,
    address: watch::Sender<Option<SocketAddr>>,
    n_edits: Arc<AtomicI64>,
}

impl Traffic {
    /// No traffic yet.
    pub(crate) fn new() -> Self {
        Self {
            writers: JoinSet::new(),
            readers: JoinSet::new(),
            stop: CancellationToken::new(),
            address: watch::Sender::new(None),
            n_edits: Arc::default(),
        }
    }

    /// Writers with features of their own, so that each knows what it has committed.
    pub(crate) async fn write(&mut self, database: &Database, n_writers: i64, random: &mut fastrand::Rng) {
        for number in 0..n_writers {
            let writer = Writer {
                session: database.connect().await.unwrap(),
                first: number * PLACES_A_WRITER + 1,
                random: fastrand::Rng::with_seed(random.u64(..)),
                n_edits: Arc::clone(&self.n_edits),
            };
            let stop = self.stop.clone();
            self.writers.spawn(async move {
                // The server may be killed under it: that is the point.
                let _ = stop.run_until_cancelled_owned(writer.write()).await;
            });
        }
    }

    /// Readers of whatever process serves at the time.
    pub(crate) fn read(&mut self, n_readers: usize, random: &mut fastrand::Rng) {
        for _ in 0..n_readers {
            let random = fastrand::Rng::with_seed(random.u64(..));
            self.readers.spawn(read(self.address.subscribe(), random));
        }
    }

    /// Tells the readers whom to ask.
    pub(crate) fn ask(&self, address: SocketAddr) {
        self.address.send_replace(Some(address));
    }

    /// Waits until this many edits more have been committed.
    pub(crate) async fn flows(&self, n_edits: i64) {
        let enough = self.n_edits.load(Ordering::SeqCst) + n_edits;
        eventually("edits are committed", || async {
            self.n_edits.load(Ordering::SeqCst) >= enough
        })
        .await;
    }

    /// Ends the writers, an edit under way being committed or not. The readers go on: the last edits are the ones whose
    /// tiles nobody will purge later.
    pub(crate) async fn rest(&mut self) {
        self.stop.cancel();
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        self.stop = CancellationToken::new();
    }

    /// Ends the readers, too.
    pub(crate) async fn stop(mut self) {
        self.rest().await;
        self.readers.abort_all();
        while let Some(ended) = self.readers.join_next().await {
            assert!(
                ended.unwrap_err().is_cancelled(),
                "a reader has seen what it should not"
            );
        }
    }
}

struct Writer {
    session: PgConnection,
    first: i64,
    random: fastrand::Rng,
    n_edits: Arc<AtomicI64>,
}

impl Writer {
    async fn write(mut self) -> Result<(), sqlx::Error> {
        loop {
            let sql = self.edit();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.session).await?;
            self.n_edits.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(self.random.u64(0..20))).await;
        }
    }

    fn edit(&mut self) -> String {
        let id = self.first + self.random.i64(0..PLACES_A_WRITER);
        let longitude = WEST_SOUTH.0 + self.random.f64() * WIDTH_HEIGHT.0;
        let latitude = WEST_SOUTH.1 + self.random.f64() * WIDTH_HEIGHT.1;
        let point = format!("ST_Point({longitude}, {latitude}, 4326)");
        match self.random.u8(0..10) {
            0 => format!("DELETE FROM places WHERE id = {id}"),
            1 => format!("UPDATE places SET name = 'n{longitude}' WHERE id = {id}"),
            2 => format!(
                "BEGIN; DELETE FROM places WHERE id = {id}; INSERT INTO places VALUES ({id}, 'again', {point}); COMMIT"
            ),
            _ => format!(
                "INSERT INTO places VALUES ({id}, 'new', {point}) ON CONFLICT (id) DO UPDATE SET geom = excluded.geom"
            ),
        }
    }
}

/// Asks for tiles at random, without end. Whoever serves may die meanwhile.
async fn read(mut address: watch::Receiver<Option<SocketAddr>>, mut random: fastrand::Rng) {
    let tiles = tiles();
    loop {
        let at = *address.wait_for(Option::is_some).await.unwrap();
        if let Ok(mut client) = Client::connect(at.unwrap()).await {
            while let Ok((status, _)) = client.get(&path(tiles[random.usize(..tiles.len())])).await {
                assert!(
                    status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE,
                    "{status}"
                );
                tokio::time::sleep(Duration::from_millis(random.u64(0..10))).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// With the queues empty: the ledger is the table, what is marked was consumed, and no tile is stale (I1, I2).
pub(crate) async fn judge(world: &World, programs: &[&Program]) {
    world.drained().await;
    assert_eq!(world.ledger_disagreements().await, 0);
    assert_eq!(never_consumed(world).await, 0, "marked, though no consumer has it");
    for program in programs {
        let mut stale = usize::MAX;
        for _ in 0..200 {
            stale = n_stale(world, program).await;
            if stale == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(stale, 0, "tiles stay stale: {}", program.log());
    }
}

/// Rows that are marked as published without having reached the ledger.
pub(crate) async fn never_consumed(world: &World) -> i64 {
    world
        .count(
            "SELECT count(*) FROM tilewake.outbox WHERE published_at IS NOT NULL AND NOT EXISTS (
                 SELECT FROM tilewake.consumed
                 WHERE consumed.consumer = 'test' AND consumed.version = outbox.feature_version
                   AND (consumed.layer, consumed.feature_id, consumed.epoch)
                       = (outbox.layer, outbox.feature_id, outbox.epoch))",
        )
        .await
}

async fn n_stale(world: &World, program: &Program) -> usize {
    let layer = LayerName::new("places").unwrap();
    let mut client = Client::connect(program.address()).await.unwrap();
    let mut n_stale = 0;
    for tile in tiles() {
        let (status, served) = client.get(&path(tile)).await.unwrap();
        let fresh = render::render(&world.pool, &layer, tile).await.unwrap();
        n_stale += usize::from(status != StatusCode::OK || served != fresh);
    }
    n_stale
}

/// With the queues empty and readers asking: what is cached now could be stale, and is not.
pub(crate) async fn judge_and_stop(world: &World, traffic: Traffic, program: &mut Program) {
    judge(world, &[program]).await;
    eventually("tiles come from the cache", || async { n_hits(program).await > 0 }).await;
    traffic.stop().await;
    assert!(program.stop().await.success());
}

/// How many of a process' requests its cache has answered.
async fn n_hits(program: &Program) -> u64 {
    let (_, metrics) = program.get("/metrics").await;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let hits = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tilewake_cache_requests_total{outcome=\"hit\"} "));
    hits.map_or(0, |hits| hits.parse().unwrap())
}
