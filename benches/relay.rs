//! What the relay costs beside the statements it cannot do without.
//!
//! In one run and in turns: the bare loop of statements (claim, join, mark, commit, over one session and without
//! tilewake), the relay to nowhere, and the relay with the consumer behind it. What counts is the ratio.
//!
//! `cargo bench -p tilewake --bench relay [-- --rows N --rounds N --json]`; small without `--bench`, and with `--quick`.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sqlx::{AssertSqlSafe, PgPool, Row as _, postgres::PgPoolOptions};
use tilewake::{
    consumer::{Consumer, ConsumerSettings},
    postgres::{
        self,
        layers::{self, NewLayer},
        relay_session::RelaySession,
    },
    relay::{self, Flush, RelaySettings},
    transport::{Publisher, direct::Direct},
};
use tilewake_core::{
    cover::CoverLimits,
    event::Event,
    layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms},
    outbox::Sent,
};
use tilewake_testbed::postgres::Server;
use tokio_util::sync::CancellationToken;

const BATCH: usize = 200;

/// How the rows are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bare,
    Nowhere,
    Direct,
}

const WAYS: [Way; 3] = [Way::Bare, Way::Nowhere, Way::Direct];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare loop",
            Self::Nowhere => "relay to nowhere",
            Self::Direct => "relay and consumer",
        }
    }
}

/// One way in one round.
struct Measured {
    way: Way,
    elapsed: Duration,
    batches: Vec<Duration>,
}

struct Arguments {
    n_rows: usize,
    n_rounds: usize,
    is_json: bool,
}

impl Arguments {
    fn read() -> Self {
        let words: Vec<String> = std::env::args().collect();
        let has = |word: &str| words.iter().any(|w| w == word);
        let number = |word: &str| words.iter().skip_while(|w| *w != word).nth(1)?.parse().ok();
        let is_quick = has("--quick") || !has("--bench");
        Self {
            n_rows: number("--rows").unwrap_or(if is_quick { 1000 } else { 20_000 }),
            n_rounds: number("--rounds").unwrap_or(if is_quick { 1 } else { 5 }),
            is_json: has("--json"),
        }
    }
}

fn main() {
    let arguments = Arguments::read();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let measured = runtime.block_on(measure(&arguments));
    report(&arguments, &measured);
}

async fn measure(arguments: &Arguments) -> Vec<Measured> {
    // Its commits wait for the disk, as in production.
    let server = Server::private(&[("fsync", "on")]).unwrap();
    let database = server.database().await.unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .connect_with(database.options())
        .await
        .unwrap();
    prepare(&pool, arguments.n_rows).await;
    let mut measured = Vec::new();
    for round in 0..arguments.n_rounds {
        for turn in 0..WAYS.len() {
            let way = WAYS[(round + turn) % WAYS.len()];
            edit_all(&pool).await;
            measured.push(measure_one(&pool, way, arguments.n_rows).await);
        }
    }
    measured
}

async fn prepare(pool: &PgPool, n_rows: usize) {
    postgres::migrate(pool).await.unwrap();
    execute(
        pool,
        "CREATE TABLE roads (id bigint PRIMARY KEY, name text, geom geometry(LineString, 4326))",
    )
    .await;
    // Lines as the streets of a town have them: fifteen vertices over some hundred metres.
    execute(
        pool,
        &format!(
            "INSERT INTO roads
             SELECT i, 'road ' || i, (
                 SELECT ST_SetSRID(ST_MakeLine(array_agg(
                            ST_Point(24.5 + i % 100 * 0.01 + v * 0.0004, 60 + i / 100 * 0.001 + sin(v) * 0.0002))), 4326)
                 FROM generate_series(1, 15) v)
             FROM generate_series(1, {n_rows}) i"
        ),
    )
    .await;
    let name = LayerName::new("roads").unwrap();
    let roads = NewLayer {
        name,
        settings: LayerSettings {
            zooms: Zooms::new(0, 14).unwrap(),
            buffer: Buffer::DEFAULT,
            policy: Policy::Footprint,
            beyond_180: Beyond180::Both,
        },
        table: "public.roads".to_owned(),
        id: None,
        geometry: None,
        columns: None,
    };
    layers::add(pool, &roads).await.unwrap();
    execute(pool, "UPDATE tilewake.outbox SET published_at = clock_timestamp()").await;
}

/// Fills the outbox with one row a road, and leaves no ruins of the last turn in the way.
async fn edit_all(pool: &PgPool) {
    execute(pool, "UPDATE roads SET geom = ST_Translate(geom, 0.0001, 0)").await;
    for table in ["tilewake.outbox", "tilewake.ledger", "tilewake.feature", "public.roads"] {
        execute(pool, &format!("VACUUM (ANALYZE) {table}")).await;
    }
    execute(pool, "CHECKPOINT").await;
}

async fn execute(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(pool)
        .await
        .unwrap();
}

async fn measure_one(pool: &PgPool, way: Way, n_rows: usize) -> Measured {
    let timed = match way {
        Way::Bare => return bare(pool, n_rows).await,
        Way::Nowhere => Timed::new(None),
        Way::Direct => {
            let settings = ConsumerSettings {
                name: "bench".to_owned(),
                remembered_events: 100_000,
                limits: CoverLimits::default(),
            };
            let consumer = Consumer::open(pool.clone(), settings).await.unwrap();
            Timed::new(Some(Direct::new(Arc::new(consumer))))
        }
    };
    let settings = RelaySettings {
        batch: BATCH.try_into().unwrap(),
        publish_bound: Duration::from_secs(30),
        poll: Duration::from_secs(1),
        max_attempts: 10,
        max_bytes: 8 << 20,
        flush: Flush::Forced,
    };
    let (timed, stop) = (Arc::new(timed), CancellationToken::new());
    let session = RelaySession::new(pool.clone(), settings.publish_bound);
    let start = Instant::now();
    let relay = tokio::spawn(relay::run(session, Arc::clone(&timed), settings, stop.clone()));
    timed.has(n_rows).await;
    // It marks and commits what it has in its hands, and ends.
    stop.cancel();
    relay.await.unwrap();
    Measured {
        way,
        elapsed: start.elapsed(),
        batches: intervals(start, &timed.published.lock().unwrap()),
    }
}

/// Acknowledges, after a consumer where there is one, and notes when.
struct Timed {
    direct: Option<Direct>,
    published: Mutex<Vec<Instant>>,
    n_events: tokio::sync::watch::Sender<usize>,
}

impl Timed {
    fn new(direct: Option<Direct>) -> Self {
        Self {
            direct,
            published: Mutex::default(),
            n_events: tokio::sync::watch::Sender::new(0),
        }
    }

    async fn has(&self, n_events: usize) {
        let mut seen = self.n_events.subscribe();
        seen.wait_for(|n| *n >= n_events).await.unwrap();
    }
}

impl Publisher for Timed {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let n_events = events.len();
        let sent = match &self.direct {
            Some(direct) => direct.publish(events).await,
            None => vec![Sent::Acknowledged; n_events],
        };
        assert!(sent.iter().all(|sent| *sent == Sent::Acknowledged));
        self.published.lock().unwrap().push(Instant::now());
        self.n_events.send_modify(|n| *n += n_events);
        sent
    }
}

fn intervals(start: Instant, ends: &[Instant]) -> Vec<Duration> {
    let starts = std::iter::once(&start).chain(ends);
    ends.iter().zip(starts).map(|(end, start)| *end - *start).collect()
}

/// The statements of the relay, one after the other over one session, and nothing done with what they answer.
async fn bare(pool: &PgPool, n_rows: usize) -> Measured {
    const CLAIM: &str = "
        SELECT id, layer, epoch, feature_id, feature_version, base_version, event_type, changed::text, before_box::text,
               after_box::text, route_point, previous_route_point, traceparent, created_at
        FROM tilewake.outbox
        WHERE published_at IS NULL AND id >= $1 AND (available_at IS NULL OR available_at <= clock_timestamp())
        ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED";
    const JOIN: &str = "
        SELECT key.id, feature.version, feature.deleted, row.wkb, row.omitted
        FROM unnest($1::text[]) AS key (id)
        LEFT JOIN tilewake.feature ON feature.layer = 'roads' AND feature.feature_id = key.id
        LEFT JOIN LATERAL (
            SELECT carried.wkb, carried.omitted FROM roads, tilewake.carried(roads.geom, 8388608) AS carried
            WHERE roads.id = key.id::bigint
        ) AS row ON true";
    const MARK: &str = "
        UPDATE tilewake.outbox SET published_at = clock_timestamp() WHERE id = ANY ($1) AND published_at IS NULL";
    let mut session = pool.acquire().await.unwrap();
    let start = Instant::now();
    let (mut ends, mut from, mut n_moved) = (Vec::new(), 0_i64, 0);
    while n_moved < n_rows {
        sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
        let claim = sqlx::query(CLAIM).bind(from).bind(i64::try_from(BATCH).unwrap());
        let rows = claim.fetch_all(&mut *session).await.unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
        let features: Vec<String> = rows.iter().map(|row| row.get("feature_id")).collect();
        let joined = sqlx::query(JOIN).bind(features).fetch_all(&mut *session).await.unwrap();
        assert_eq!(joined.len(), rows.len());
        sqlx::query(MARK).bind(&ids).execute(&mut *session).await.unwrap();
        sqlx::raw_sql("COMMIT").execute(&mut *session).await.unwrap();
        from = ids.last().map_or(from, |last| last + 1);
        n_moved += ids.len();
        ends.push(Instant::now());
    }
    Measured {
        way: Way::Bare,
        elapsed: start.elapsed(),
        batches: intervals(start, &ends),
    }
}

fn report(arguments: &Arguments, measured: &[Measured]) {
    let of = |way: Way| measured.iter().filter(move |m| m.way == way);
    let rate = |way: Way| {
        median(
            of(way)
                .map(|m| arguments.n_rows as f64 / m.elapsed.as_secs_f64())
                .collect(),
        )
    };
    // Within a round, for a machine that is busy now need not be so later.
    let ratio = |way: Way| {
        let pairs = of(way).zip(of(Way::Bare));
        median(
            pairs
                .map(|(m, bare)| bare.elapsed.as_secs_f64() / m.elapsed.as_secs_f64())
                .collect(),
        )
    };
    let batch = |way: Way, share: f64| {
        let batches = of(way).flat_map(|m| &m.batches);
        quantile(batches.map(|batch| batch.as_secs_f64() * 1000.0).collect(), share)
    };
    if arguments.is_json {
        let ways = WAYS.map(|way| {
            serde_json::json!({"way": way.name(), "rows_per_second": rate(way), "of_bare": ratio(way),
                               "batch_p50_ms": batch(way, 0.5), "batch_p99_ms": batch(way, 0.99)})
        });
        println!(
            "{}",
            serde_json::json!({"rows": arguments.n_rows, "rounds": arguments.n_rounds, "ways": ways})
        );
        return;
    }
    println!(
        "{} rows, batches of {BATCH}, median of {} rounds",
        arguments.n_rows, arguments.n_rounds
    );
    println!(
        "{:<20} {:>8} {:>8} {:>12} {:>12}",
        "", "rows/s", "of bare", "batch p50", "batch p99"
    );
    for way in WAYS {
        println!(
            "{:<20} {:>8.0} {:>8.2} {:>9.1} ms {:>9.1} ms",
            way.name(),
            rate(way),
            ratio(way),
            batch(way, 0.5),
            batch(way, 0.99)
        );
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a length is an index"
)]
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}
