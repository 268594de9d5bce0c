//! The layers: which tables are captured, and how they are drawn.
//!
//! Adding one checks first whether the table will do, and says what to do if not: a layer that captures half of its edits
//! would serve stale tiles silently. Everything that is found out is written down with the layer, so that
//! [`alterations`] can notice when it is no longer so.

mod add;
mod alter;
mod error;

use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool, Row, postgres::types::Oid};
use tilewake_core::{
    feature::Epoch,
    layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms},
};

pub use self::{
    add::{NewLayer, add},
    alter::{Alteration, alterations, reinstall},
    error::{KeyFault, LayerError},
};
pub use super::table::FieldKind;
use super::{Identifier, TableName, table};

/// A captured table and how it is drawn.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The name.
    pub name: LayerName,
    /// What decides which tiles draw its features.
    pub settings: LayerSettings,
    /// The table, with its schema.
    pub table: TableName,
    /// The key.
    pub id_column: Identifier,
    /// The key's type in SQL, fit for a cast.
    pub id_type: String,
    /// The geometry.
    pub geometry_column: Identifier,
    /// The columns that tiles show.
    pub columns: Vec<Identifier>,
    /// The SRID of its geometries; 0 where every row says its own.
    pub srid: i32,
    /// The epoch that holds.
    pub epoch: Epoch,
    number: i32,
    relation: Oid,
    all_columns: bool,
    shape_digest: String,
}

impl<'r> FromRow<'r, sqlx::postgres::PgRow> for Layer {
    fn from_row(row: &'r sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
        let columns: Vec<String> = row.try_get("columns")?;
        Ok(Self {
            name: LayerName::new(row.try_get("name")?).map_err(decode)?,
            settings: settings(row)?,
            table: TableName::new(
                row.try_get::<&str, _>("table_schema")?,
                row.try_get::<&str, _>("table_name")?,
            ),
            id_column: Identifier::new(row.try_get::<&str, _>("id_column")?),
            id_type: row.try_get("id_type")?,
            geometry_column: Identifier::new(row.try_get::<&str, _>("geometry_column")?),
            columns: columns.into_iter().map(Identifier::new).collect(),
            srid: row.try_get("srid")?,
            epoch: Epoch(row.try_get("epoch")?),
            number: row.try_get("number")?,
            relation: row.try_get("relation")?,
            all_columns: row.try_get("all_columns")?,
            shape_digest: row.try_get("shape_digest")?,
        })
    }
}

fn settings(row: &sqlx::postgres::PgRow) -> Result<LayerSettings, sqlx::Error> {
    let zoom = |column| {
        row.try_get::<i16, _>(column)
            .map(|z| u8::try_from(z).unwrap_or(u8::MAX))
    };
    let zooms = Zooms::new(zoom("min_zoom")?, zoom("max_zoom")?);
    let buffer = Buffer::new(row.try_get("buffer")?);
    let out_of_range = || sqlx::Error::Decode("a layer's zooms or buffer are out of range".into());
    Ok(LayerSettings {
        zooms: zooms.ok_or_else(out_of_range)?,
        buffer: buffer.ok_or_else(out_of_range)?,
        policy: row.try_get::<&str, _>("policy")?.parse::<Policy>().map_err(decode)?,
        beyond_180: row
            .try_get::<&str, _>("beyond_180")?
            .parse::<Beyond180>()
            .map_err(decode)?,
    })
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}

/// The layers, by name; removed ones are not among them.
pub async fn all(pool: &PgPool) -> Result<Vec<Layer>, sqlx::Error> {
    sqlx::query_as("SELECT * FROM tilewake.layer WHERE removed_at IS NULL ORDER BY name")
        .fetch_all(pool)
        .await
}

/// The layer of this name.
pub async fn find(pool: &PgPool, name: &LayerName) -> Result<Option<Layer>, sqlx::Error> {
    sqlx::query_as("SELECT * FROM tilewake.layer WHERE removed_at IS NULL AND name = $1")
        .bind(name.as_str())
        .fetch_optional(pool)
        .await
}

/// Stops capturing a table. The layer's name keeps its versions and epochs, so that no event id ever comes again.
pub async fn remove(pool: &PgPool, name: &LayerName) -> Result<(), LayerError> {
    let mut transaction = pool.begin().await?;
    alter::wait_briefly(&mut transaction).await?;
    let number: Option<i32> = sqlx::query_scalar(
        "UPDATE tilewake.registered_layer SET removed_at = clock_timestamp()
         WHERE name = $1 AND removed_at IS NULL RETURNING number",
    )
    .bind(name.as_str())
    .fetch_optional(&mut *transaction)
    .await?;
    let number = number.ok_or_else(|| LayerError::NoSuchLayer(name.clone()))?;
    alter::drop_triggers(&mut transaction, number).await?;
    for function in ["insert()", "update()", "delete()"].map(|f| format!("capture_{number}_{f}")) {
        execute(&mut transaction, format!("DROP FUNCTION IF EXISTS tilewake.{function}")).await?;
    }
    execute(
        &mut transaction,
        format!("DROP FUNCTION IF EXISTS tilewake.look_{number}(text)"),
    )
    .await?;
    transaction.commit().await?;
    Ok(())
}

/// The box around all features as `[west, south, east, north]`, as the planner's statistics have it: reading the table
/// would take as long as the table is large. The whole world while there are no statistics.
pub async fn extent(pool: &PgPool, layer: &Layer) -> Result<[f64; 4], sqlx::Error> {
    const WORLD: [f64; 4] = [-180.0, -90.0, 180.0, 90.0];
    let mut connection = pool.acquire().await?;
    let Some(postgis) = table::postgis(&mut connection).await? else {
        return Ok(WORLD);
    };
    let extent = format!(
        "SELECT (b[1])[0], (b[1])[1], (b[0])[0], (b[0])[1]
         FROM (SELECT {postgis}.ST_EstimatedExtent($1, $2, $3)::{postgis}.geometry AS extent) AS estimated,
              tilewake.box_of({postgis}.ST_SetSRID(extent, $4)) AS b"
    );
    let corners: (Option<f64>, Option<f64>, Option<f64>, Option<f64>) = sqlx::query_as(AssertSqlSafe(extent))
        .bind(layer.table.schema().as_str())
        .bind(layer.table.table().as_str())
        .bind(layer.geometry_column.as_str())
        .bind(layer.srid)
        .fetch_one(&mut *connection)
        .await?;
    Ok(match corners {
        (Some(west), Some(south), Some(east), Some(north)) => [west, south, east, north],
        _ => WORLD,
    })
}

/// The columns that tiles show, with what their values are in a tile.
pub async fn fields(pool: &PgPool, layer: &Layer) -> Result<Vec<(String, FieldKind)>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let columns = table::columns(&mut connection, layer.relation).await?;
    let shown = columns.iter().filter(|column| layer.columns.contains(&column.name));
    Ok(shown.map(|c| (c.name.as_str().to_owned(), c.kind())).collect())
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}
