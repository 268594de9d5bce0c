//! What the renderer reads from PostGIS is what a tile shows: nothing is missed by the index, and no row fails a tile.
#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

use std::sync::Arc;

use mvt_reader::Reader;
use sqlx::{AssertSqlSafe, PgPool, Row, postgres::PgPoolOptions};
use tilewake::{
    postgres::{
        self,
        layers::{self, Layer, NewLayer},
    },
    tiles::render::{RenderError, render},
};
use tilewake_core::{
    feature::FeatureId,
    geometry,
    layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms},
    picture::{FeatureToDraw, draw},
    tile::{TileId, first_id},
};
use tilewake_testbed::postgres::{Database, Server};

struct World {
    pool: PgPool,
    // Dropped after the pool.
    _database: Database,
}

impl World {
    async fn new(sql: &str) -> Self {
        let database = Server::shared().database().await.unwrap();
        let pool = PgPoolOptions::new().connect_with(database.options()).await.unwrap();
        postgres::migrate(&pool).await.unwrap();
        let world = Self {
            pool,
            _database: database,
        };
        world.run(sql).await;
        world
    }

    async fn run(&self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await;
        done.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    }

    /// Makes the table `t` a layer.
    async fn add(&self, buffer: f64) -> Layer {
        let layer = NewLayer {
            name: LayerName::new("t").unwrap(),
            settings: LayerSettings {
                zooms: Zooms::new(0, 20).unwrap(),
                buffer: Buffer::new(buffer).unwrap(),
                policy: Policy::default(),
                beyond_180: Beyond180::default(),
            },
            table: "t".to_owned(),
            id: Some("id".to_owned()),
            geometry: Some("geom".to_owned()),
            columns: None,
        };
        layers::add(&self.pool, &layer).await.unwrap()
    }

    async fn tile(&self, tile: TileId) -> Vec<u8> {
        render(&self.pool, &LayerName::new("t").unwrap(), tile)
            .await
            .unwrap()
            .into()
    }

    /// All rows as features, however far away.
    async fn all_features(&self) -> Vec<FeatureToDraw> {
        let rows = sqlx::query("SELECT id::text, (tilewake.carried(geom, 1000000)).wkb AS wkb FROM t");
        let rows = rows.fetch_all(&self.pool).await.unwrap();
        let feature = |row: sqlx::postgres::PgRow| {
            let geometry = geometry::from_wkb(row.get::<Option<&[u8]>, _>("wkb")?).unwrap();
            Some(FeatureToDraw {
                id: FeatureId::new(row.get::<&str, _>("id")),
                geometry: Arc::new(geometry),
                attributes: vec![],
            })
        };
        rows.into_iter().filter_map(feature).collect()
    }

    /// That tiles read through the index are those drawn from all rows; says how many showed something.
    async fn check(&self, layer: &Layer, tiles: impl IntoIterator<Item = TileId>) -> usize {
        let features = self.all_features().await;
        let mut n_shown = 0;
        for tile in tiles {
            let picture = draw(tile, layer.settings.buffer, features.iter().cloned());
            assert!(
                self.tile(tile).await == picture.encode(&layer.name),
                "tile {tile} misses something of {picture:?}"
            );
            n_shown += usize::from(!picture.is_empty());
        }
        n_shown
    }
}

fn all_tiles(zoom: u8) -> impl Iterator<Item = TileId> {
    (0..first_id(zoom + 1)).filter_map(TileId::from_pmtiles_id)
}

/// The tiles around a place.
fn tiles_at(lon: f64, lat: f64, zoom: u8) -> impl Iterator<Item = TileId> {
    let (u, v) = tilewake_core::mercator::project(lon, lat);
    let n = f64::from(1u32 << zoom);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place on the map"
    )]
    let (x, y) = ((u * n) as u32, (v * n) as u32);
    (x - 2..=x + 2).flat_map(move |x| (y - 2..=y + 2).filter_map(move |y| TileId::new(zoom, x, y)))
}

/// Random points, lines and triangles with corners in `lon ± span`, `lat ± span`, of any size; the same at every run.
fn scatter(srid: i32, n: usize, lon: f64, lat: f64, span: f64) -> String {
    format!(
        "SELECT setseed(0.5);
         CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Geometry, {srid}));
         INSERT INTO t
         SELECT i, tilewake_test_to(CASE i % 3
             WHEN 0 THEN ST_StartPoint(line) WHEN 1 THEN line
             ELSE ST_MakePolygon(ST_AddPoint(line, ST_StartPoint(line))) END, {srid})
         FROM (SELECT i, ST_SetSRID(ST_MakeLine(ARRAY[
                 ST_Point({lon} + x, {lat} + y),
                 ST_Point({lon} + x + size * (random() - 0.5), {lat} + y + size * (random() - 0.5) / 3),
                 ST_Point({lon} + x + size * (random() - 0.5), {lat} + y + size * (random() - 0.5) / 3)]), 4326) AS line
               FROM (SELECT i, {span} * (2 * random() - 1) AS x, {span} / 8 * (2 * random() - 1) AS y,
                            {span} * random() ^ 6 AS size
                     FROM generate_series(1, {n}) AS i) AS places) AS shapes;
         CREATE INDEX ON t USING gist (geom);
         ANALYZE t;"
    )
}

/// Like `ST_Transform`, but as data is that runs on beyond ±180 degrees: that function wraps longitudes. To EPSG:3857 by
/// stretching degrees: where latitudes come to lie does not matter.
const TO: &str = "
    CREATE FUNCTION tilewake_test_to(geom geometry, srid integer) RETURNS geometry LANGUAGE sql IMMUTABLE RETURN CASE srid
        WHEN 4326 THEN geom
        WHEN 3857 THEN ST_SetSRID(ST_Scale(geom, 40075016.68557849 / 360, 40075016.68557849 / 360), 3857)
        ELSE ST_Transform(geom, srid) END;";

#[tokio::test]
async fn every_tile_of_the_world_shows_what_is_there_also_beyond_180() {
    for srid in [4326, 3857] {
        for (buffer, zoom) in [(64.0 / 4096.0, 4), (1.0, 2)] {
            let world = World::new(&format!("{TO} {}", scatter(srid, 200, 0.0, 0.0, 640.0))).await;
            let layer = world.add(buffer).await;
            let n_shown = world.check(&layer, all_tiles(zoom)).await;
            assert!(n_shown > 10 * usize::from(zoom), "{n_shown}");
        }
    }
}

#[tokio::test]
async fn tiles_of_a_national_grid_show_what_is_there() {
    let world = World::new(&format!("{TO} {}", scatter(3067, 800, 25.0, 61.0, 0.4))).await;
    let layer = world.add(64.0 / 4096.0).await;
    let mut n_shown = world.check(&layer, all_tiles(2)).await;
    for zoom in [5, 8, 11, 13, 16, 20] {
        n_shown += world.check(&layer, tiles_at(25.0, 61.0, zoom)).await;
    }
    assert!(n_shown > 30, "{n_shown}");
    // Beyond the grid's domain all rows are read, and nothing is there.
    world.check(&layer, tiles_at(-70.0, -20.0, 8)).await;
}

/// 50 km along a parallel of the grid: on the map the line is straight, and 90 m off it in the middle.
#[tokio::test]
async fn a_long_line_is_found_where_the_grid_has_it_elsewhere() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(LineString, 3067));
         INSERT INTO t VALUES (1, 'SRID=3067;LINESTRING(375000 6760000, 425000 6760000)');",
    )
    .await;
    let layer = world.add(0.0).await;
    let middle: (f64, f64) = sqlx::query_as(
        "SELECT ST_X(p), ST_Y(p) FROM (
             SELECT ST_Transform(ST_Centroid(ST_Transform(ST_Transform(geom, 4326), 3857)), 4326) AS p FROM t) AS middle",
    )
    .fetch_one(&world.pool)
    .await
    .unwrap();
    assert!(world.check(&layer, tiles_at(middle.0, middle.1, 20)).await > 3);
}

#[tokio::test]
async fn a_column_of_several_reference_systems_is_drawn() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry);
         INSERT INTO t VALUES (1, 'SRID=4326;POINT(25 61)'), (2, ST_Transform('SRID=4326;POINT(25 61)'::geometry, 3067));",
    )
    .await;
    world.add(0.0).await;
    world.run("INSERT INTO t VALUES (3, 'POINT(25 61)')").await;
    let shown = features(world.tile(tiles_at(25.0, 61.0, 12).nth(12).unwrap()).await);
    assert_eq!(shown.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[tokio::test]
async fn the_index_serves() {
    let world = World::new(&format!("{TO} {}", scatter(4326, 5000, 25.0, 61.0, 5.0))).await;
    let plan = sqlx::query_scalar::<_, String>(
        "EXPLAIN SELECT * FROM t AS drawn
         WHERE tilewake.meets(drawn.geom, tilewake.boxes_in(4326, 25.0::float8, 61.0::float8, 25.01::float8, 61.005::float8))",
    );
    let plan = plan.fetch_all(&world.pool).await.unwrap().join("\n");
    assert!(plan.contains("Index Scan on t_geom_idx"), "{plan}");
}

/// Id and sorted attributes of what a tile shows.
fn features(tile: Vec<u8>) -> Vec<(Option<u64>, Vec<String>)> {
    let reader = Reader::new(tile).unwrap();
    let features = reader.get_features(0).unwrap();
    let told = features.into_iter().map(|feature| {
        let properties = feature.properties.unwrap();
        let mut attributes: Vec<_> = properties
            .iter()
            .map(|(name, value)| format!("{name}: {value:?}"))
            .collect();
        attributes.sort();
        (feature.id, attributes)
    });
    told.collect()
}

fn world_tile() -> TileId {
    TileId::new(0, 0, 0).unwrap()
}

#[tokio::test]
async fn attributes_of_all_types_are_told() {
    let world = World::new(
        "CREATE TABLE t (id bigint PRIMARY KEY, geom geometry(Point, 4326), b boolean, small smallint, big bigint,
                         single real, price numeric, said text, \"odd \"\"name\" text, day date, tags text[], doc jsonb,
                         nothing text, outline geometry);
         INSERT INTO t VALUES (7, 'SRID=4326;POINT(0 0)', true, -1, 9223372036854775807, 0.1, 12.50, E'a\\nb', 'odd',
                               '2026-01-31', '{a,b}', '{\"k\": [1]}', NULL, 'POINT(0 0)');",
    )
    .await;
    world.add(0.0).await;
    let expected = [
        "b: Bool(true)",
        "big: UInt(9223372036854775807)",
        "day: String(\"2026-01-31\")",
        "doc: String(\"{\\\"k\\\": [1]}\")",
        "odd \"name: String(\"odd\")",
        "price: Double(12.5)",
        "said: String(\"a\\nb\")",
        "single: Double(0.1)",
        "small: SInt(-1)",
        "tags: String(\"[\\\"a\\\",\\\"b\\\"]\")",
    ];
    assert_eq!(
        features(world.tile(world_tile()).await),
        [(Some(7), expected.map(str::to_owned).to_vec())]
    );
}

#[tokio::test]
async fn no_row_fails_a_tile() {
    let world = World::new(
        "CREATE TABLE t (id text PRIMARY KEY, geom geometry, n numeric);
         INSERT INTO t VALUES
             ('null', NULL, 1), ('empty', 'SRID=3067;POINT EMPTY', 1), 
             ('nan', ST_SetSRID(ST_Point('NaN', 1), 3067), 1),
             ('far', 'SRID=3067;POINT(1e30 1e30)', 1), ('infinite', ST_SetSRID(ST_MakeLine(ST_Point(0, 0), ST_Point('Infinity', 0)), 3067), 1),
             ('curve', 'SRID=3067;CIRCULARSTRING(400000 6700000, 410000 6710000, 420000 6700000)', 'NaN'),
             ('solid', 'SRID=3067;LINESTRING ZM(400000 6700000 1 2, 410000 6700000 3 4)', 1e300),
             ('surface', ST_GeomFromText('TIN(((400000 6700000 0, 410000 6700000 0, 400000 6710000 0, 400000 6700000 0)))', 3067), 1);",
    )
    .await;
    world.add(0.0).await;
    let shown = features(world.tile(TileId::new(6, 36, 18).unwrap()).await);
    let ids: Vec<_> = shown.iter().map(|(_, attributes)| attributes[0].as_str()).collect();
    assert_eq!(ids, ["@id: String(\"curve\")", "@id: String(\"solid\")"]);
}

#[tokio::test]
async fn a_layer_that_is_not_there_or_not_at_this_zoom_is_told_apart() {
    let world = World::new("CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326))").await;
    world.add(0.0).await;
    let name = |name| LayerName::new(name).unwrap();
    let unknown = render(&world.pool, &name("other"), world_tile()).await.unwrap_err();
    assert!(matches!(unknown, RenderError::UnknownLayer(_)));
    let too_deep = render(&world.pool, &name("t"), TileId::new(21, 0, 0).unwrap())
        .await
        .unwrap_err();
    assert!(matches!(too_deep, RenderError::OutsideZooms { .. }));
    assert!(world.tile(world_tile()).await.is_empty());
}
