//! What clients of the tile server see, over a real connection and from a real Postgres.
#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};
use tilewake::{
    http::{self, Site},
    postgres::{
        self,
        layers::{self, NewLayer},
    },
    tiles::cache::{Fencing, TileCache},
};
use tilewake_core::{
    layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms},
    tile_set::TileSet,
};
use tilewake_testbed::postgres::{Database, Server as Postgres};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::broadcast,
};
use tokio_util::sync::CancellationToken;

/// A server with one layer, `dots`, of one point at (0, 0).
struct Served {
    address: SocketAddr,
    site: Site,
    _database: Database,
}

struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Served {
    async fn start(public_url: &str) -> Self {
        let database = Postgres::shared().database().await.unwrap();
        let pool = PgPoolOptions::new().connect_with(database.options()).await.unwrap();
        prepare(&pool).await;
        let site = Site {
            renders: pool.clone(),
            pool,
            cache: Arc::new(TileCache::new(1 << 20, Fencing::On)),
            notices: broadcast::channel(16).0,
            metrics: PrometheusBuilder::new().build_recorder().handle(),
            public_url: public_url.to_owned(),
            render_delay: Duration::ZERO,
            stop: CancellationToken::new(),
        };
        site.cache.open();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(http::serve(listener, site.clone()));
        Self {
            address,
            site,
            _database: database,
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_with(path, "").await
    }

    /// Asks with further header lines.
    async fn get_with(&self, path: &str, headers: &str) -> Answer {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: maps.example\r\nConnection: close\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        Answer {
            status,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: answer[end + 4..].to_vec(),
        }
    }

    async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.site.pool)
            .await
            .unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.site.stop.cancel();
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn prepare(pool: &PgPool) {
    postgres::migrate(pool).await.unwrap();
    let table = "CREATE TABLE dots (id integer PRIMARY KEY, name text, height real, geom geometry(Point, 4326));
                 INSERT INTO dots VALUES (1, 'here', 2.5, 'SRID=4326;POINT(0 0)');";
    sqlx::raw_sql(table).execute(pool).await.unwrap();
    let layer = NewLayer {
        name: LayerName::new("dots").unwrap(),
        settings: LayerSettings {
            zooms: Zooms::new(0, 14).unwrap(),
            buffer: Buffer::DEFAULT,
            policy: Policy::default(),
            beyond_180: Beyond180::default(),
        },
        table: "dots".to_owned(),
        id: None,
        geometry: None,
        columns: None,
    };
    layers::add(pool, &layer).await.unwrap();
}

fn everything() -> BTreeMap<LayerName, TileSet> {
    BTreeMap::from([(LayerName::new("dots").unwrap(), TileSet::everything(Zooms::ALL))])
}

#[tokio::test]
async fn a_tile_is_served_under_all_its_names() {
    let served = Served::start("").await;
    let tile = served.get("/dots/3/4/4.mvt").await;
    assert_eq!(tile.status, 200);
    assert_eq!(tile.header("content-type"), "application/vnd.mapbox-vector-tile");
    assert_eq!(tile.header("access-control-allow-origin"), "*");
    let reader = mvt_reader::Reader::new(tile.body.clone()).unwrap();
    assert_eq!(reader.get_layer_names().unwrap(), ["dots"]);
    assert_eq!(reader.get_features(0).unwrap()[0].id, Some(1));
    for name in ["/dots/3/4/4", "/dots/3/4/4.pbf"] {
        assert!(served.get(name).await.body == tile.body);
    }
}

#[tokio::test]
async fn a_client_that_asks_again_is_told_when_nothing_changed() {
    let served = Served::start("").await;
    let first = served.get("/dots/0/0/0.mvt").await;
    assert_eq!(first.header("cache-control"), "no-cache");
    let if_none_match = format!("If-None-Match: {}\r\n", first.header("etag"));
    let again = served.get_with("/dots/0/0/0.mvt", &if_none_match).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), first.header("etag"));

    served.run("UPDATE dots SET geom = 'SRID=4326;POINT(1 1)'").await;
    let cached = served.get_with("/dots/0/0/0.mvt", &if_none_match).await;
    assert_eq!(cached.status, 304, "only a purge makes a cached tile stale");
    served.site.cache.purge(&everything());
    let edited = served.get_with("/dots/0/0/0.mvt", &if_none_match).await;
    assert_eq!(edited.status, 200);
    assert_ne!(edited.header("etag"), first.header("etag"));
}

#[tokio::test]
async fn what_the_cache_cannot_vouch_for_must_not_be_stored() {
    let served = Served::start("").await;
    served.site.cache.fall_behind();
    assert_eq!(served.get("/dots/0/0/0.mvt").await.header("cache-control"), "no-store");
    served.site.cache.catch_up();
    assert_eq!(served.get("/dots/0/0/0.mvt").await.header("cache-control"), "no-cache");
    served.site.cache.close();
    assert_eq!(served.get("/dots/0/0/0.mvt").await.header("cache-control"), "no-store");
}

#[tokio::test]
async fn an_empty_tile_is_a_tile() {
    let served = Served::start("").await;
    let tile = served.get("/dots/14/0/0.mvt").await;
    assert_eq!((tile.status, tile.body.len()), (200, 0));
    assert!(!tile.header("etag").is_empty());
}

#[tokio::test]
async fn what_is_not_there_is_not_found_with_the_reason() {
    let served = Served::start("").await;
    for (path, reason) in [
        ("/roads/0/0/0.mvt", "there is no layer roads"),
        ("/dots/15/0/0.mvt", "layer dots is drawn at zooms 0-14, not at 15"),
        ("/dots/1/2/0.mvt", "there is no tile 1/2/0"),
        ("/roads.json", "there is no layer roads"),
        ("/", "there is nothing here"),
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().starts_with(reason), "{path}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn nonsense_is_a_bad_request_with_the_reason() {
    let served = Served::start("").await;
    for (path, reason) in [
        ("/dots/a/0/0.mvt", "z is \"a\""),
        ("/dots/1/-1/0.mvt", "x is \"-1\""),
        ("/dots/1/0/0.png", "y is \"0.png\""),
        ("/Dots/0/0/0.mvt", "\"Dots\" cannot name a layer"),
        ("/Dots.json", "\"Dots\" cannot name a layer"),
    ] {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().starts_with(reason), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn tilejson_tells_a_map_all_it_needs() {
    let served = Served::start("").await;
    served
        .run("INSERT INTO dots VALUES (2, 'there', 1, 'SRID=4326;POINT(10 20)'); ANALYZE dots")
        .await;
    let answer = served.get_with("/dots.json", "X-Forwarded-Proto: https\r\n").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let mut told: Value = serde_json::from_slice(&answer.body).unwrap();
    let bounds: [f64; 4] = serde_json::from_value(told["bounds"].take()).unwrap();
    let data = [0.0, 0.0, 10.0, 20.0];
    assert!(
        bounds.iter().zip(data).all(|(told, is)| (told - is).abs() < 0.5),
        "{bounds:?}"
    );
    assert_eq!(
        told,
        json!({
            "tilejson": "3.0.0",
            "name": "dots",
            "tiles": ["https://maps.example/dots/{z}/{x}/{y}.mvt"],
            "minzoom": 0,
            "maxzoom": 14,
            "bounds": null,
            "vector_layers": [{
                "id": "dots",
                "minzoom": 0,
                "maxzoom": 14,
                "fields": {"name": "String", "height": "Number"},
            }],
        })
    );
}

#[tokio::test]
async fn a_configured_url_beats_what_the_client_asked_for() {
    let served = Served::start("https://cdn.example/tiles/").await;
    let told: Value = serde_json::from_slice(&served.get("/dots.json").await.body).unwrap();
    assert_eq!(told["tiles"], json!(["https://cdn.example/tiles/dots/{z}/{x}/{y}.mvt"]));
}

#[tokio::test]
async fn a_database_that_is_away_is_told_apart_from_a_process_that_is() {
    let served = Served::start("").await;
    assert_eq!(served.get("/readyz").await.status, 200);
    served.site.pool.close().await;
    assert_eq!(served.get("/livez").await.status, 200);
    assert_eq!(served.get("/readyz").await.status, 503);
    assert_eq!(served.get("/metrics").await.status, 200);
    let tile = served.get("/dots/0/0/0.mvt").await;
    assert_eq!((tile.status, tile.header("cache-control")), (503, "no-store"));
}
