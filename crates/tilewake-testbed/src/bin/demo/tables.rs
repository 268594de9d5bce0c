//! The three tables of the map, as different as tables are: three kinds of keys, three coordinate systems.

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tilewake_core::layer::Zooms;

use crate::map::Feature;

/// A table that is a layer.
#[derive(Debug)]
pub(crate) struct Table {
    /// The layer's name, and the table's.
    pub(crate) layer: &'static str,
    /// What the features are called in the map.
    of: &'static str,
    /// The type of its key.
    pub(crate) id_type: &'static str,
    /// Makes a key out of a number, in SQL.
    id_from_number: &'static str,
    pub(crate) srid: i32,
    geometry_type: &'static str,
}

pub(crate) static TABLES: [Table; 3] = [
    Table {
        layer: "areas",
        of: "area",
        id_type: "text",
        id_from_number: "'way/' || n",
        srid: 4326,
        geometry_type: "Polygon",
    },
    Table {
        layer: "buildings",
        of: "building",
        id_type: "uuid",
        id_from_number: "md5(n::text)::uuid",
        // Finland's own grid: neither the tiles' projection nor degrees.
        srid: 3067,
        geometry_type: "Polygon",
    },
    Table {
        layer: "roads",
        of: "road",
        id_type: "bigint",
        id_from_number: "n",
        srid: 3857,
        geometry_type: "LineString",
    },
];

/// What tiles show of each table, besides the geometry.
pub(crate) const COLUMNS: &str = "name,class";

/// At which zooms.
pub(crate) const ZOOMS: &str = "0-18";

/// How far tiles draw beyond their edges.
pub(crate) const BUFFER: &str = "64/4096";

/// The demo's own record, beside the tables: what every version of every feature looked like. Kept by the writers in the
/// transactions of their edits, with versions counted here, so that nothing of it comes from tilewake.
const HISTORY: &str = "
    CREATE SCHEMA demo;
    CREATE TABLE demo.history (
        layer text, id text, version bigint, kind text, transaction bigint, geom geometry,
        PRIMARY KEY (layer, id, version)
    );";

/// Makes the tables and fills them with the map.
pub(crate) async fn create(connection: &mut PgConnection, map: &[Feature]) -> Result<()> {
    connection.execute(HISTORY).await?;
    for table in &TABLES {
        connection.execute(AssertSqlSafe(table.ddl())).await?;
        table
            .load(connection, map)
            .await
            .with_context(|| format!("could not load {}", table.layer))?;
    }
    connection.execute("ANALYZE").await?;
    Ok(())
}

impl Table {
    fn ddl(&self) -> String {
        let Self {
            layer,
            id_type,
            srid,
            geometry_type,
            ..
        } = self;
        format!(
            "CREATE TABLE {layer} (
                id {id_type} PRIMARY KEY, name text, class text, touched_at timestamptz,
                geom geometry({geometry_type}, {srid})
            );
            CREATE INDEX ON {layer} USING gist (geom)"
        )
    }

    async fn load(&self, connection: &mut PgConnection, map: &[Feature]) -> Result<()> {
        let features = || map.iter().filter(|feature| feature.layer == self.of);
        let load = format!(
            "INSERT INTO {} (id, name, class, geom)
             SELECT {}, name, class, ST_Transform(ST_SetSRID(ST_GeomFromGeoJSON(json), 4326), {})
             FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS row (n, name, class, json)",
            self.layer, self.id_from_number, self.srid
        );
        sqlx::query(AssertSqlSafe(load))
            .bind(features().map(|feature| feature.id).collect::<Vec<_>>())
            .bind(features().map(Feature::name).collect::<Vec<_>>())
            .bind(features().map(Feature::class).collect::<Vec<_>>())
            .bind(
                features()
                    .map(|feature| feature.geometry.to_string())
                    .collect::<Vec<_>>(),
            )
            .execute(&mut *connection)
            .await?;
        let record = format!(
            "INSERT INTO demo.history SELECT '{0}', id::text, 1, 'loaded', 0, geom FROM {0}",
            self.layer
        );
        connection.execute(AssertSqlSafe(record)).await?;
        Ok(())
    }

    /// A key that no feature of the map has, as awkward as its type allows.
    pub(crate) fn new_id(&self, number: usize) -> String {
        match self.id_type {
            "uuid" => format!("00000000-0000-4000-8000-{number:012x}"),
            "text" => format!("uusi/{number} @50% ä"),
            _ => (90_000_000_000 + number).to_string(),
        }
    }
}

/// The layers' zooms.
pub(crate) fn zooms() -> Zooms {
    ZOOMS.parse().unwrap_or(Zooms::ALL)
}
