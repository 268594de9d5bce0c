//! Adding a layer: is the table fit, and if so, capture it.

use sqlx::{PgConnection, PgPool};
use tilewake_core::layer::{LayerName, LayerSettings};

use super::{
    Layer,
    alter::{self, wait_briefly},
    error::{KeyFault, LayerError},
};
use crate::postgres::{
    Identifier, TableName,
    table::{self, Column, Table},
};

/// A table that shall be a layer.
#[derive(Clone, Debug)]
pub struct NewLayer {
    /// What it will be called.
    pub name: LayerName,
    /// How it is drawn.
    pub settings: LayerSettings,
    /// The table, written as in SQL.
    pub table: String,
    /// The key; `None` for the primary key.
    pub id: Option<String>,
    /// The geometry; `None` for the only one there is.
    pub geometry: Option<String>,
    /// The columns that tiles show; `None` for all but key and geometry, also those that are added later.
    pub columns: Option<Vec<String>>,
}

/// What was found out of a table that will do.
struct Fit {
    postgis: Identifier,
    table: Table,
    id: Column,
    geometry: Identifier,
    shown: Vec<Column>,
    srid: i32,
}

/// Checks a table, captures it from now on, and raises the layer's first epoch.
pub async fn add(pool: &PgPool, new: &NewLayer) -> Result<Layer, LayerError> {
    let mut transaction = pool.begin().await?;
    wait_briefly(&mut transaction).await?;
    let fit = check(&mut transaction, new).await?;
    let number = register(&mut transaction, new, &fit).await?;
    let capture = alter::capture_of(
        number,
        &new.name,
        &fit.postgis,
        &fit.table.name,
        &fit.id,
        &fit.geometry,
        &fit.shown,
    );
    alter::install_functions(&mut transaction, &capture).await?;
    alter::install_triggers(&mut transaction, &capture, &fit.table).await?;
    alter::raise_epoch(&mut transaction, &new.name).await?;
    let layer = sqlx::query_as("SELECT * FROM tilewake.layer WHERE name = $1")
        .bind(new.name.as_str())
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(layer)
}

async fn check(connection: &mut PgConnection, new: &NewLayer) -> Result<Fit, LayerError> {
    let postgis = table::postgis(connection).await?.ok_or(LayerError::NoPostgis)?;
    check_name(connection, &new.name).await?;
    let relation = table::find(connection, &new.table).await?;
    let no_such_table = || LayerError::NoSuchTable(new.table.clone());
    let relation = relation.ok_or_else(no_such_table)?;
    let table = table::read(connection, relation).await?.ok_or_else(no_such_table)?;
    check_table(&table)?;
    let columns = table::columns(connection, relation).await?;
    let id = match &new.id {
        Some(name) => name.clone(),
        None => table::primary_key(connection, relation)
            .await?
            .ok_or_else(|| LayerError::NoKey(table.name.clone()))?,
    };
    let id = column(&table, &columns, &id)?.clone();
    check_key(connection, &table, &id).await?;
    let geometry = geometry(&table, &columns, new.geometry.as_deref())?.clone();
    let srid = srid(connection, &postgis, &table, &geometry.name).await?;
    let shown = match &new.columns {
        Some(names) => names
            .iter()
            .map(|name| column(&table, &columns, name).cloned())
            .collect::<Result<_, _>>()?,
        None => alter::all_shown(&columns, &id.name),
    };
    Ok(Fit {
        postgis,
        table,
        id,
        geometry: geometry.name,
        shown,
        srid,
    })
}

async fn check_name(connection: &mut PgConnection, name: &LayerName) -> Result<(), LayerError> {
    const MIGRATED: &str = "SELECT to_regclass('tilewake.registered_layer') IS NOT NULL";
    const TAKEN: &str = "SELECT EXISTS (SELECT FROM tilewake.registered_layer WHERE name = $1 AND removed_at IS NULL)";
    if !sqlx::query_scalar::<_, bool>(MIGRATED)
        .fetch_one(&mut *connection)
        .await?
    {
        return Err(LayerError::NotMigrated);
    }
    if sqlx::query_scalar(TAKEN)
        .bind(name.as_str())
        .fetch_one(connection)
        .await?
    {
        return Err(LayerError::NameTaken(name.clone()));
    }
    Ok(())
}

fn check_table(table: &Table) -> Result<(), LayerError> {
    let name = || table.name.clone();
    let not_a_table = |kind| LayerError::NotATable { table: name(), kind };
    for (i, part) in table.tree.iter().enumerate() {
        let is_top = i == 0;
        match part.kind.as_str() {
            "r" | "p" => {}
            "f" if is_top => return Err(not_a_table("a foreign table")),
            "f" => {
                return Err(LayerError::ForeignPart {
                    table: name(),
                    part: part.name(),
                });
            }
            "v" => return Err(not_a_table("a view")),
            "m" => return Err(not_a_table("a materialized view")),
            _ => return Err(not_a_table("not a table")),
        }
        if part.persistence != "p" {
            return Err(LayerError::NotDurable(part.name()));
        }
        if part.is_subscribed {
            return Err(LayerError::Subscribed(part.name()));
        }
        if part.hides_rows {
            return Err(LayerError::HidesRows {
                table: part.name(),
                role: table.role.clone(),
            });
        }
    }
    if let Some(parent) = &table.parent {
        return Err(LayerError::PartOfAnother {
            table: name(),
            parent: parent.clone(),
        });
    }
    if !table.is_owner {
        return Err(LayerError::NotOwner {
            table: name(),
            owner: table.owner.clone(),
            role: table.role.clone(),
        });
    }
    Ok(())
}

fn column<'a>(table: &Table, columns: &'a [Column], name: &str) -> Result<&'a Column, LayerError> {
    columns
        .iter()
        .find(|column| column.name.as_str() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            LayerError::NoSuchColumn {
                table: table.name.clone(),
                column: name.to_owned(),
                columns: names.join(", "),
            }
        })
}

/// The key must hold in every table that has an index of its own: children by inheritance share nothing of it.
async fn check_key(connection: &mut PgConnection, table: &Table, id: &Column) -> Result<(), LayerError> {
    let is_partitioned = table.tree.first().is_some_and(|top| top.kind == "p");
    let n_checked = if is_partitioned { 1 } else { table.tree.len() };
    for part in table.tree.iter().take(n_checked) {
        let key = table::key(connection, &part.name(), id.name.as_str()).await?;
        let fault = [
            (key.is_known_type, KeyFault::Type),
            (key.is_deterministic, KeyFault::Collation),
            (key.is_unique, KeyFault::NotUnique),
            (key.is_not_null, KeyFault::Nullable),
        ];
        if let Some((_, fault)) = fault.into_iter().find(|(holds, _)| !holds) {
            return Err(LayerError::UnusableKey {
                table: part.name(),
                column: id.name.as_str().to_owned(),
                fault,
            });
        }
    }
    Ok(())
}

fn geometry<'a>(table: &Table, columns: &'a [Column], name: Option<&str>) -> Result<&'a Column, LayerError> {
    let Some(name) = name else {
        let found: Vec<&Column> = columns.iter().filter(|c| c.type_name == "geometry").collect();
        return match found[..] {
            [only] => Ok(only),
            _ => Err(LayerError::NoGeometry {
                table: table.name.clone(),
                n_found: found.len(),
            }),
        };
    };
    let found = column(table, columns, name)?;
    if found.type_name == "geometry" {
        return Ok(found);
    }
    let hint = match found.type_name.as_str() {
        "geography" => ", or change its type with ALTER TABLE … TYPE geometry(Geometry, 4326) USING …::geometry",
        _ => "",
    };
    Err(LayerError::NotAGeometry {
        table: table.name.clone(),
        column: name.to_owned(),
        found: found.type_name.clone(),
        hint,
    })
}

/// The SRID that the column fixes, else 0 if every geometry in it has one.
async fn srid(
    connection: &mut PgConnection,
    postgis: &Identifier,
    table: &Table,
    column: &Identifier,
) -> Result<i32, LayerError> {
    let declared = table::declared_srid(connection, postgis, table.relation, column).await?;
    let srids = if declared == 0 {
        table::stored_srids(connection, postgis, &table.name, column).await?
    } else {
        vec![declared]
    };
    let name = || (table.name.clone(), column.as_str().to_owned());
    if srids.is_empty() || srids.contains(&0) {
        let (table, column) = name();
        return Err(LayerError::NoSrid { table, column });
    }
    for srid in srids {
        if !table::is_known_srid(connection, postgis, srid).await? {
            let (table, column) = name();
            return Err(LayerError::UnknownSrid { table, column, srid });
        }
    }
    Ok(declared)
}

/// Writes the layer down; one that was removed before keeps its number.
async fn register(connection: &mut PgConnection, new: &NewLayer, fit: &Fit) -> Result<i32, LayerError> {
    const REGISTER: &str = "
        INSERT INTO tilewake.registered_layer
            (name, relation, table_schema, table_name, id_column, id_type, geometry_column, columns, all_columns, srid,
             min_zoom, max_zoom, buffer, policy, beyond_180, shape_digest)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        ON CONFLICT (name) DO UPDATE SET
            relation = excluded.relation, table_schema = excluded.table_schema, table_name = excluded.table_name,
            id_column = excluded.id_column, id_type = excluded.id_type, geometry_column = excluded.geometry_column,
            columns = excluded.columns, all_columns = excluded.all_columns, srid = excluded.srid,
            min_zoom = excluded.min_zoom, max_zoom = excluded.max_zoom, buffer = excluded.buffer,
            policy = excluded.policy, beyond_180 = excluded.beyond_180, shape_digest = excluded.shape_digest,
            created_at = excluded.created_at, removed_at = NULL
        WHERE registered_layer.removed_at IS NOT NULL
        RETURNING number";
    let shape = table::shape_digest(connection, fit.table.relation).await?;
    let table: &TableName = &fit.table.name;
    let settings = &new.settings;
    let number: Option<i32> = sqlx::query_scalar(REGISTER)
        .bind(new.name.as_str())
        .bind(fit.table.relation)
        .bind(table.schema().as_str())
        .bind(table.table().as_str())
        .bind(fit.id.name.as_str())
        .bind(&fit.id.cast)
        .bind(fit.geometry.as_str())
        .bind(fit.shown.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
        .bind(new.columns.is_none())
        .bind(fit.srid)
        .bind(i16::from(settings.zooms.min()))
        .bind(i16::from(settings.zooms.max()))
        .bind(settings.buffer.fraction())
        .bind(settings.policy.as_str())
        .bind(settings.beyond_180.as_str())
        .bind(shape.unwrap_or_default())
        .fetch_optional(connection)
        .await?;
    // Somebody else may have added it since we looked.
    number.ok_or_else(|| LayerError::NameTaken(new.name.clone()))
}
