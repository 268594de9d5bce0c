//! The database's processes all killed at once, with commits that it had confirmed and not yet written.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::BodyExt;
use sqlx::PgConnection;
use tilewake::{
    relay::{Flush, RelaySettings},
    transport::Publisher,
};
use tilewake_core::{event::Event, feature::Version, outbox::Sent};
use tilewake_testbed::{http::Client, postgres::Server};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    program::Program,
    traffic::{Traffic, judge, judge_and_stop, random},
    world::{World, eventually, settings},
};

/// A server that writes what is committed asynchronously as late as it can.
fn server() -> Server {
    Server::private(&[("wal_writer_delay", "10s"), ("wal_writer_flush_after", "1GB")]).unwrap()
}

/// Every session commits asynchronously unless it says otherwise: the writers', and those of tilewake.
async fn commit_asynchronously(world: &World) {
    let database: String = sqlx::query_scalar("SELECT current_database()")
        .fetch_one(&world.pool)
        .await
        .unwrap();
    world
        .sql(&format!("ALTER DATABASE {database} SET synchronous_commit = off"))
        .await;
}

/// Ends the server and starts it again; the pool's connections have noticed.
async fn crash(server: &mut Server, world: &World) {
    server.kill_9().unwrap();
    server.restart().unwrap();
    is_back(world).await;
}

async fn is_back(world: &World) {
    eventually("the server is back", || async {
        sqlx::query("SELECT").execute(&world.pool).await.is_ok()
    })
    .await;
}

type Versions = BTreeMap<String, i64>;

/// The newest version of every feature, as the database has it.
async fn versions(world: &World) -> Versions {
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT feature_id, version FROM tilewake.feature")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    rows.into_iter().collect()
}

/// How many features were seen at a newer version than the database has.
fn n_taken_back(seen: &Versions, now: &Versions) -> usize {
    seen.iter()
        .filter(|(feature, version)| now.get(*feature).is_none_or(|now| now < version))
        .count()
}

/// Follows what a process tells the world of its purges: the newest version of every feature that was announced.
struct Follower {
    announced: Arc<Mutex<Versions>>,
    task: JoinHandle<()>,
}

impl Follower {
    async fn start(address: SocketAddr) -> Self {
        let announced = Arc::<Mutex<Versions>>::default();
        let mut client = Client::connect(address).await.unwrap();
        let mut stream = client.stream("/events").await.unwrap();
        let heard = Arc::clone(&announced);
        let task = tokio::spawn(async move {
            let mut text = String::new();
            while let Some(Ok(frame)) = stream.frame().await {
                text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
                while let Some(end) = text.find('\n') {
                    let line: String = text.drain(..=end).collect();
                    note(&line, &mut heard.lock().unwrap());
                }
            }
        });
        Self { announced, task }
    }

    fn announced(&self) -> Versions {
        self.announced.lock().unwrap().clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes the events out of a line of `/events`: `places/7@123.4` is version 4 of feature 7.
fn note(line: &str, announced: &mut Versions) {
    let Some(Ok(purge)) = line
        .strip_prefix("data: ")
        .map(serde_json::from_str::<serde_json::Value>)
    else {
        return;
    };
    for event in purge["events"].as_array().into_iter().flatten() {
        let (feature, version) = event["id"].as_str().unwrap().split_once('@').unwrap();
        let feature = feature.strip_prefix("places/").unwrap();
        let version: i64 = version.split_once('.').unwrap().1.parse().unwrap();
        if version > 0 {
            let newest = announced.entry(feature.to_owned()).or_default();
            *newest = version.max(*newest);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_database_takes_back_nothing_that_was_announced() {
    let mut server = server();
    let world = World::on(&server).await;
    commit_asynchronously(&world).await;
    let mut random = random();
    let mut program = Program::new(world.database.url(), "consumer = 'test'\npoll = '100ms'", &[]);
    program.start().await;
    let mut n_lost = 0;
    for round in 0..5 {
        let follower = Follower::start(program.address()).await;
        let mut traffic = Traffic::new();
        traffic.ask(program.address());
        traffic.write(&world.database, 4, &mut random).await;
        traffic.read(2, &mut random);
        traffic.flows(50).await;
        eventually("it purges again", || async { !follower.announced().is_empty() }).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..50))).await;
        // Every other time the process stands still meanwhile, with whatever it has in its hands, and finds a server that
        // knows nothing of it when it goes on.
        let stands_still = round % 2 == 0;
        if stands_still {
            program.freeze();
            traffic.rest().await;
            let mut session = world.session().await;
            for _ in 0..3 {
                edit(&mut session, 900).await;
            }
        }
        let visible = versions(&world).await;
        crash(&mut server, &world).await;
        let now = versions(&world).await;
        n_lost += n_taken_back(&visible, &now);
        assert_eq!(n_taken_back(&follower.announced(), &now), 0, "announced and lost");
        if stands_still {
            program.thaw();
        }
        traffic.stop().await;
        // Nor does the ledger take anything in, before or after, that is no more.
        judge(&world, &[&program]).await;
        let consumed = "SELECT count(*) FROM tilewake.consumed JOIN tilewake.feature USING (layer, feature_id)
                        WHERE consumed.version > feature.version";
        assert_eq!(world.count(consumed).await, 0, "consumed and lost");
    }
    println!("{n_lost} visible edits were lost in the crashes");
    assert!(n_lost > 0, "no visible edit was lost: the crashes prove nothing");
    // The same process goes on, with a cache that fills and is purged again.
    let mut traffic = Traffic::new();
    traffic.ask(program.address());
    traffic.write(&world.database, 4, &mut random).await;
    traffic.read(2, &mut random);
    traffic.flows(100).await;
    traffic.rest().await;
    judge_and_stop(&world, traffic, &mut program).await;
    assert!(program.log().contains("the cache was emptied"), "{}", program.log());
}

/// A ledger elsewhere, which takes in whatever it is sent and, once told to, says nothing more.
#[derive(Default)]
struct Elsewhere {
    announced: Mutex<Versions>,
    is_mute: AtomicBool,
    has_one: Notify,
}

impl Publisher for Elsewhere {
    async fn publish(&self, events: Vec<Event>) -> Vec<Sent> {
        let ids = events.iter().map(Event::id).filter(|id| id.version > Version::ZERO);
        self.announced
            .lock()
            .unwrap()
            .extend(ids.map(|id| (id.key.id.to_string(), id.version.0)));
        if self.is_mute.load(Ordering::SeqCst) {
            self.has_one.notify_one();
            std::future::pending::<()>().await;
        }
        vec![Sent::Acknowledged; events.len()]
    }
}

/// Crashes the database right behind a publish to another cluster; says how many of the edits that were visible, and
/// of those that were published, are gone.
///
/// The server writes every full page of its log at once, whatever its settings: only what fits into a page can be lost.
/// So the edits are small, and of rows that were edited before.
async fn published_and_gone(server: &mut Server, flush: Flush) -> (usize, usize) {
    let world = World::on(server).await;
    commit_asynchronously(&world).await;
    let elsewhere = Arc::new(Elsewhere::default());
    let settings = RelaySettings { flush, ..settings() };
    let relay = world.relay_with(Arc::clone(&elsewhere), settings);
    let mut session = world.session().await;
    for id in [1, 2, 1, 2, 1, 2] {
        edit(&mut session, id).await;
    }
    world.drained().await;
    elsewhere.is_mute.store(true, Ordering::SeqCst);
    edit(&mut session, 1).await;
    elsewhere.has_one.notified().await;
    // Behind the publish, and so never announced.
    edit(&mut session, 2).await;
    let visible = versions(&world).await;
    server.kill_9().unwrap();
    relay.kill();
    server.restart().unwrap();
    is_back(&world).await;
    let now = versions(&world).await;
    let announced = elsewhere.announced.lock().unwrap().clone();
    (n_taken_back(&visible, &now), n_taken_back(&announced, &now))
}

async fn edit(session: &mut PgConnection, id: i64) {
    const EDIT: &str = "INSERT INTO places VALUES ($1, 'n', ST_Point(1, 1, 4326))
                        ON CONFLICT (id) DO UPDATE SET geom = ST_Translate(places.geom, 1, 0)";
    sqlx::query(EDIT).bind(id).execute(session).await.unwrap();
}

/// A ledger in another cluster does not flush the log of the features' database: the relay has to.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_to_another_cluster_is_forced_to_disk_before() {
    let mut server = server();
    let mut n_lost = 0;
    for _ in 0..3 {
        let (n_visible, n_published) = published_and_gone(&mut server, Flush::Forced).await;
        n_lost += n_visible;
        assert_eq!(n_published, 0);
    }
    assert!(n_lost > 0, "no visible edit was lost: the crashes prove nothing");
    // The opposite, or the check could not fail. Now and then an edit comes to the end of a page.
    for _ in 0..10 {
        if published_and_gone(&mut server, Flush::Never).await.1 > 0 {
            return;
        }
    }
    panic!("published without a flush, and never taken back");
}
