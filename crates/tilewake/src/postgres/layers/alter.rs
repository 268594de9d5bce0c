//! What was made for a table, and making it anew when the table was altered.

use std::fmt;

use sqlx::{PgConnection, PgPool};
use tilewake_core::layer::LayerName;

use super::{Layer, all, error::LayerError, execute};
use crate::postgres::{
    Identifier, TableName,
    capture::Capture,
    table::{self, Column, Table},
};

/// A layer whose table is not what it was when it was added. Its epoch was raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// The layer.
    pub layer: LayerName,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an altered table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is captured as it is now.
    Captured,
    /// The table is gone.
    Dropped,
    /// A column that capture needs is gone: every statement purges the layer until it is added anew.
    Unfit(String),
}

impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = &self.layer;
        match &self.outcome {
            Outcome::Captured => write!(f, "layer {layer}: its table was altered, and is captured as it is now"),
            Outcome::Dropped => write!(
                f,
                "layer {layer}: its table was dropped; remove the layer or add it anew"
            ),
            Outcome::Unfit(column) => write!(
                f,
                "layer {layer}: column {column} of its table is gone, and every statement purges the layer; add it anew"
            ),
        }
    }
}

/// Compares every layer's table with what it was when it was added or last looked at. Where they differ, captures it as
/// it is now and raises the layer's epoch: edits may have been made that no trigger saw.
pub async fn alterations(pool: &PgPool) -> Result<Vec<Alteration>, LayerError> {
    let mut altered = Vec::new();
    for layer in all(pool).await? {
        let mut connection = pool.acquire().await?;
        let shape = table::shape_digest(&mut connection, layer.relation)
            .await?
            .unwrap_or_default();
        drop(connection);
        if shape != layer.shape_digest
            && let Some(outcome) = adapt(pool, &layer).await?
        {
            let layer = layer.name;
            altered.push(Alteration { layer, outcome });
        }
    }
    Ok(altered)
}

/// Captures a table as it is now; `None` if somebody else did it in the meantime.
async fn adapt(pool: &PgPool, layer: &Layer) -> Result<Option<Outcome>, LayerError> {
    const NOTE: &str = "
        UPDATE tilewake.registered_layer SET shape_digest = $3, table_schema = $4, table_name = $5, columns = $6
        WHERE name = $1 AND shape_digest = $2 AND removed_at IS NULL";
    let mut transaction = pool.begin().await?;
    wait_briefly(&mut transaction).await?;
    let shape = table::shape_digest(&mut transaction, layer.relation)
        .await?
        .unwrap_or_default();
    let found = table::read(&mut transaction, layer.relation).await?;
    let columns = table::columns(&mut transaction, layer.relation).await?;
    let name = found.as_ref().map_or(&layer.table, |table| &table.name);
    let shown = shown(layer, &columns);
    let noted = sqlx::query(NOTE)
        .bind(layer.name.as_str())
        .bind(&layer.shape_digest)
        .bind(&shape)
        .bind(name.schema().as_str())
        .bind(name.table().as_str())
        .bind(shown.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
        .execute(&mut *transaction)
        .await?;
    if noted.rows_affected() == 0 {
        return Ok(None);
    }
    let outcome = match &found {
        Some(table) => recapture(&mut transaction, layer, table, &columns, &shown).await?,
        None => Outcome::Dropped,
    };
    raise_epoch(&mut transaction, &layer.name).await?;
    transaction.commit().await?;
    Ok(Some(outcome))
}

async fn recapture(
    connection: &mut PgConnection,
    layer: &Layer,
    table: &Table,
    columns: &[Column],
    shown: &[Column],
) -> Result<Outcome, LayerError> {
    let missing = |wanted: &Identifier| !columns.iter().any(|column| column.name == *wanted);
    if let Some(gone) = [&layer.id_column, &layer.geometry_column]
        .into_iter()
        .find(|c| missing(c))
    {
        return Ok(Outcome::Unfit(gone.as_str().to_owned()));
    }
    let postgis = table::postgis(connection).await?.ok_or(LayerError::NoPostgis)?;
    let id = columns.iter().find(|column| column.name == layer.id_column);
    let id = id.ok_or_else(|| LayerError::NoKey(table.name.clone()))?;
    let capture = capture_of(
        layer.number,
        &layer.name,
        &postgis,
        &table.name,
        id,
        &layer.geometry_column,
        shown,
    );
    // First the triggers that call the functions by their old text go, then all is made anew.
    drop_triggers(connection, layer.number).await?;
    install_functions(connection, &capture).await?;
    install_triggers(connection, &capture, table).await?;
    Ok(Outcome::Captured)
}

/// Makes the functions of all layers anew, from this version's text. Locks no table.
pub async fn reinstall(pool: &PgPool) -> Result<(), LayerError> {
    for layer in all(pool).await? {
        let mut transaction = pool.begin().await?;
        let columns = table::columns(&mut transaction, layer.relation).await?;
        let (Some(postgis), Some(id)) = (
            table::postgis(&mut transaction).await?,
            columns.iter().find(|column| column.name == layer.id_column),
        ) else {
            continue;
        };
        let shown = shown(&layer, &columns);
        let geometry = &layer.geometry_column;
        let capture = capture_of(layer.number, &layer.name, &postgis, &layer.table, id, geometry, &shown);
        install_functions(&mut transaction, &capture).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// The columns that tiles show of a table as it is now.
fn shown(layer: &Layer, columns: &[Column]) -> Vec<Column> {
    if layer.all_columns {
        return all_shown(columns, &layer.id_column);
    }
    let still_there = |name: &Identifier| columns.iter().find(|column| column.name == *name).cloned();
    layer.columns.iter().filter_map(still_there).collect()
}

/// The columns that tiles show if nobody chose: all but the key and shapes.
pub(super) fn all_shown(columns: &[Column], id: &Identifier) -> Vec<Column> {
    let is_shown = |column: &&Column| column.name != *id && !column.is_spatial();
    columns.iter().filter(is_shown).cloned().collect()
}

pub(super) fn capture_of<'a>(
    number: i32,
    layer: &'a LayerName,
    postgis: &'a Identifier,
    table: &'a TableName,
    id: &'a Column,
    geometry: &'a Identifier,
    shown: &'a [Column],
) -> Capture<'a> {
    Capture {
        number,
        layer: layer.as_str(),
        table,
        postgis,
        id_column: &id.name,
        id_type: &id.cast,
        geometry_column: geometry,
        columns: shown,
    }
}

pub(super) async fn install_functions(connection: &mut PgConnection, capture: &Capture<'_>) -> Result<(), LayerError> {
    for statement in capture.functions() {
        execute(connection, statement).await?;
    }
    Ok(())
}

/// Puts the triggers on every table of the tree: a statement fires those of the table that it names, and no others.
pub(super) async fn install_triggers(
    connection: &mut PgConnection,
    capture: &Capture<'_>,
    table: &Table,
) -> Result<(), LayerError> {
    for part in &table.tree {
        let name = part.name();
        for statement in capture.triggers(&name) {
            execute(connection, statement)
                .await
                .map_err(|error| busy(error, &name))?;
        }
    }
    Ok(())
}

/// Drops a layer's triggers wherever they are, also from tables that are no longer part of it.
pub(super) async fn drop_triggers(connection: &mut PgConnection, number: i32) -> Result<(), LayerError> {
    const TRIGGERS: &str = "
        SELECT n.nspname::text, c.relname::text, t.tgname::text
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE NOT t.tgisinternal AND t.tgname = ANY ($1)";
    let names: Vec<String> = ["insert", "update", "delete", "truncate"]
        .iter()
        .map(|word| format!("tilewake_{number}_{word}"))
        .collect();
    let found: Vec<(String, String, String)> = sqlx::query_as(TRIGGERS).bind(names).fetch_all(&mut *connection).await?;
    for (schema, table, trigger) in found {
        let table = TableName::new(schema, table);
        let drop = format!("DROP TRIGGER {} ON {table}", Identifier::new(trigger));
        execute(connection, drop).await.map_err(|error| busy(error, &table))?;
    }
    Ok(())
}

pub(super) async fn raise_epoch(connection: &mut PgConnection, layer: &LayerName) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT tilewake.raise_epoch($1)")
        .bind(layer.as_str())
        .fetch_one(connection)
        .await
}

/// Making a trigger waits for all writers of the table, and new ones wait behind it: not for long.
pub(super) async fn wait_briefly(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    execute(connection, "SET LOCAL lock_timeout = '2s'".to_owned()).await
}

fn busy(error: sqlx::Error, table: &TableName) -> LayerError {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    match &error {
        sqlx::Error::Database(e) if e.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => LayerError::Busy(table.clone()),
        _ => error.into(),
    }
}
