//! The features that a tile may draw, as they are now: one statement, so one snapshot.

use futures_util::{StreamExt, stream::BoxStream};
use sqlx::{AssertSqlSafe, FromRow, PgPool};
use tilewake_core::feature::LonLatBox;

use super::layers::Layer;

/// A geometry larger than this is not drawn: no row may take the memory of all others.
const MAX_GEOMETRY_BYTES: i64 = 256 << 20;

/// A row of a layer's table.
#[derive(Debug, FromRow)]
pub struct DrawnRow {
    /// The key.
    pub id: String,
    /// The geometry in EPSG:4326, flat and without curves; null if there is none.
    pub wkb: Option<Vec<u8>>,
    /// Why it is missing, if there is one.
    pub omitted: Option<String>,
    /// The layer's columns as a JSON object; null if it has none.
    pub attributes: Option<String>,
}

/// Reads the rows whose geometry meets a box, and some more, in no order.
#[must_use]
pub fn read<'p>(pool: &'p PgPool, layer: &Layer, reach: &LonLatBox) -> BoxStream<'p, Result<DrawnRow, sqlx::Error>> {
    sqlx::query_as(AssertSqlSafe(statement(layer)))
        .bind(MAX_GEOMETRY_BYTES)
        .bind(layer.srid)
        .bind(reach.west())
        .bind(reach.south())
        .bind(reach.east())
        .bind(reach.north())
        // Planned for these very boxes: whether the index serves depends on them.
        .persistent(false)
        .fetch(pool)
        .boxed()
}

/// The statement that reads a layer's features around a tile.
///
/// The condition is about the column as it is stored, so that its index serves; what it finds in vain is not drawn. No row
/// can fail the tile: `tilewake.carried` never raises. JSON tells numbers from texts whatever types the columns have.
fn statement(layer: &Layer) -> String {
    let columns: Vec<String> = layer.columns.iter().map(|column| format!("drawn.{column}")).collect();
    let attributes = if columns.is_empty() {
        "NULL".to_owned()
    } else {
        format!(
            "(SELECT row_to_json(shown) FROM (SELECT {}) AS shown)",
            columns.join(", ")
        )
    };
    format!(
        "SELECT drawn.{id}::text AS id, carried.wkb, carried.omitted, {attributes}::text AS attributes
         FROM {table} AS drawn, tilewake.carried(drawn.{geometry}, $1) AS carried
         WHERE drawn.{id} IS NOT NULL
           AND tilewake.meets(drawn.{geometry}, tilewake.boxes_in($2, $3, $4, $5, $6))",
        table = layer.table,
        geometry = layer.geometry_column,
        id = layer.id_column,
    )
}
