//! What happened, from the demo's own record and from tilewake's tables: read here, judged elsewhere.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow, types::Json};
use tilewake_core::{
    event::EventId,
    feature::{Epoch, FeatureId, FeatureKey, Version},
    layer::{Buffer, LayerName},
    tile::TileId,
    tile_set::TileSet,
    timeline::Arrival,
};
use tilewake_testbed::postgres::Database;

use crate::{
    edits::Kind,
    purges::Purges,
    tables::{BUFFER, zooms},
};

/// How long the queues may take to become empty once the edits have stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// One version of a feature, by the demo's own count.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// What made it; `None` for a row that is older than its layer.
    pub(crate) kind: Option<Kind>,
    pub(crate) transaction: i64,
    pub(crate) drawn: Drawn,
}

/// Which tiles draw a geometry, by `PostGIS`. All empty where there is none.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    /// Tiles that it meets by more than a grid unit.
    pub(crate) surely: TileSet,
    /// Tiles that it comes within a grid unit of.
    pub(crate) perhaps: TileSet,
    /// The same of its bounding box in degrees, rounded outwards to `real`.
    pub(crate) by_box: TileSet,
}

/// Every version of every edited feature.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) versions: BTreeMap<FeatureKey, BTreeMap<Version, Recorded>>,
    pub(crate) epochs: BTreeMap<LayerName, Epoch>,
}

/// A row of tilewake's journal.
#[derive(Debug)]
pub(crate) struct JournalRow {
    pub(crate) number: i64,
    pub(crate) layer: LayerName,
    pub(crate) tiles: TileSet,
    pub(crate) events: Vec<(EventId, Arrival)>,
}

/// The number of the journal's newest row.
pub(crate) async fn journal_head(database: &Database) -> Result<i64> {
    head(&mut database.connect().await?).await
}

async fn head(connection: &mut PgConnection) -> Result<i64> {
    let head = "SELECT coalesce(max(number), 0) FROM tilewake.journal";
    Ok(sqlx::query_scalar(head).fetch_one(connection).await?)
}

/// Waits until no queue holds anything: no edit unpublished, no journal row that the cache has not purged.
///
/// Whether that came to be before patience ran out. Dead letters are not waited for: they do not go away.
pub(crate) async fn wait_until_quiet(database: &Database, purges: &Purges) -> Result<bool> {
    const QUEUED: &str = "
        SELECT (SELECT count(*) FROM tilewake.outbox WHERE published_at IS NULL)
             + (SELECT count(*) FROM tilewake.dead_letter)";
    let mut connection = database.connect().await?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let queued: i64 = sqlx::query_scalar(QUEUED).fetch_one(&mut connection).await?;
        // The order of the two questions matters: what left the outbox has reached the journal.
        if queued == 0 && purges.reached(head(&mut connection).await?) {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

/// The demo's own record.
pub(crate) async fn read(database: &Database) -> Result<History> {
    const READ: &str = "
        SELECT h.layer, h.id, h.version, h.kind, h.transaction FROM demo.history AS h
        WHERE EXISTS (SELECT FROM demo.history AS e WHERE (e.layer, e.id) = (h.layer, h.id) AND e.kind <> 'loaded')";
    let mut connection = database.connect().await?;
    let mut history = History::default();
    for row in sqlx::query(READ).fetch_all(&mut connection).await? {
        let recorded = Recorded {
            kind: Kind::from_name(row.try_get("kind")?),
            transaction: row.try_get("transaction")?,
            drawn: Drawn::default(),
        };
        history
            .versions
            .entry(key(&row)?)
            .or_default()
            .insert(Version(row.try_get("version")?), recorded);
    }
    draw(&mut connection, &mut history).await?;
    for row in sqlx::query("SELECT name, epoch FROM tilewake.layer")
        .fetch_all(&mut connection)
        .await?
    {
        history
            .epochs
            .insert(LayerName::new(row.try_get("name")?)?, Epoch(row.try_get("epoch")?));
    }
    Ok(history)
}

/// Asks `PostGIS` which tiles draw each version.
async fn draw(connection: &mut PgConnection, history: &mut History) -> Result<()> {
    let mut tiles: BTreeMap<(FeatureKey, Version), [Vec<TileId>; 3]> = BTreeMap::new();
    for row in sqlx::query(AssertSqlSafe(drawing()?)).fetch_all(connection).await? {
        let tile = tile(&row)?;
        let [surely, perhaps, by_box] = tiles.entry((key(&row)?, Version(row.try_get("version")?))).or_default();
        by_box.push(tile);
        perhaps.extend(row.try_get::<bool, _>("perhaps")?.then_some(tile));
        surely.extend(row.try_get::<bool, _>("surely")?.then_some(tile));
    }
    for ((key, version), tiles) in tiles {
        let [surely, perhaps, by_box] = tiles.map(TileSet::from_iter);
        if let Some(recorded) = history
            .versions
            .get_mut(&key)
            .and_then(|versions| versions.get_mut(&version))
        {
            recorded.drawn = Drawn {
                surely,
                perhaps,
                by_box,
            };
        }
    }
    Ok(())
}

/// Every tile that a version's bounding box meets, and whether its geometry does.
///
/// A `real` has 24 bits: rounding outwards moves an edge by less than 2⁻²² of it, and that much is added here.
fn drawing() -> Result<String> {
    const GRID_UNIT: f64 = 1.0 / 4096.0;
    let buffer = BUFFER.parse::<Buffer>()?.fraction();
    let (inner, outer) = (buffer - GRID_UNIT, buffer + GRID_UNIT);
    let (min_zoom, max_zoom) = (zooms().min(), zooms().max());
    Ok(format!(
        "WITH version AS (
            SELECT h.layer, h.id, h.version, ST_Transform(h.geom, 3857) AS shape, ST_Transform(h.geom, 4326) AS degrees
            FROM demo.history AS h
            WHERE h.geom IS NOT NULL AND NOT ST_IsEmpty(h.geom)
              AND EXISTS (SELECT FROM demo.history AS e WHERE (e.layer, e.id) = (h.layer, h.id) AND e.kind <> 'loaded')
        ), boxed AS (
            SELECT layer, id, version, shape, ST_Transform(ST_MakeEnvelope(
                ST_XMin(degrees) - abs(ST_XMin(degrees)) * 2 ^ -22, ST_YMin(degrees) - abs(ST_YMin(degrees)) * 2 ^ -22,
                ST_XMax(degrees) + abs(ST_XMax(degrees)) * 2 ^ -22, ST_YMax(degrees) + abs(ST_YMax(degrees)) * 2 ^ -22,
                4326), 3857) AS box
            FROM version
        ), near AS (
            SELECT layer, id, version, shape, z, x, y
            FROM boxed, generate_series({min_zoom}, {max_zoom}) AS z,
                 LATERAL (SELECT 20037508.342789244 AS half, 2 * 20037508.342789244 / 2 ^ z AS width) AS world,
                 LATERAL generate_series(
                    greatest(0, floor((ST_XMin(box) + half) / width - {outer})::int),
                    least(2 ^ z - 1, floor((ST_XMax(box) + half) / width + {outer}))::int) AS x,
                 LATERAL generate_series(
                    greatest(0, floor((half - ST_YMax(box)) / width - {outer})::int),
                    least(2 ^ z - 1, floor((half - ST_YMin(box)) / width + {outer}))::int) AS y
        )
        SELECT layer, id, version, z, x, y,
               ST_Intersects(shape, ST_TileEnvelope(z, x, y, margin => {inner})) AS surely,
               ST_Intersects(shape, ST_TileEnvelope(z, x, y, margin => {outer})) AS perhaps
        FROM near"
    ))
}

/// The journal behind `beginning`, in order.
pub(crate) async fn journal(database: &Database, beginning: i64) -> Result<Vec<JournalRow>> {
    const READ: &str = "SELECT number, layer, tiles, events FROM tilewake.journal WHERE number > $1 ORDER BY number";
    let mut connection = database.connect().await?;
    let rows = sqlx::query(READ).bind(beginning).fetch_all(&mut connection).await?;
    rows.iter().map(journal_row).collect()
}

#[derive(serde::Deserialize)]
struct Named {
    id: String,
    arrival: String,
}

fn journal_row(row: &PgRow) -> Result<JournalRow> {
    let Json(named): Json<Vec<Named>> = row.try_get("events")?;
    let events = named
        .iter()
        .map(|event| Ok((event.id.parse()?, arrival(&event.arrival)?)));
    Ok(JournalRow {
        number: row.try_get("number")?,
        layer: LayerName::new(row.try_get("layer")?)?,
        tiles: TileSet::decode(row.try_get("tiles")?)?,
        events: events.collect::<Result<_>>()?,
    })
}

fn arrival(word: &str) -> Result<Arrival> {
    let all = [
        Arrival::InOrder,
        Arrival::Jump,
        Arrival::Late,
        Arrival::Duplicate,
        Arrival::Epoch,
    ];
    let found = all.into_iter().find(|arrival| arrival.as_str() == word);
    found.with_context(|| format!("the journal says that an event arrived {word:?}"))
}

fn key(row: &PgRow) -> Result<FeatureKey> {
    let id: String = row.try_get("id")?;
    Ok(FeatureKey {
        layer: LayerName::new(row.try_get("layer")?)?,
        id: FeatureId::new(id),
    })
}

fn tile(row: &PgRow) -> Result<TileId> {
    let part = |name: &str| row.try_get::<i32, _>(name).map(u32::try_from);
    let tile = TileId::new(u8::try_from(part("z")??)?, part("x")??, part("y")??);
    tile.context("PostGIS named a tile that cannot exist")
}
