//! Why a table cannot be a layer, and what to do about it.

use tilewake_core::layer::LayerName;

use crate::postgres::TableName;

/// Why a layer could not be added or changed. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The schema `tilewake` is missing.
    #[error("this database has no tables of tilewake: run tilewake migrate first")]
    NotMigrated,
    /// There are no geometries.
    #[error("this database has no PostGIS: run CREATE EXTENSION postgis and then tilewake migrate")]
    NoPostgis,
    /// The name is in use.
    #[error("there is a layer {0} already: choose another name, or remove it with tilewake layer remove {0}")]
    NameTaken(LayerName),
    /// There is no such layer.
    #[error("there is no layer {0}: tilewake layer list shows those that there are")]
    NoSuchLayer(LayerName),
    /// There is no such table.
    #[error("there is no table {0}: write it as in SQL, with its schema if that is not on the search path")]
    NoSuchTable(String),
    /// Not a table.
    #[error("{table} is {kind}: only tables have rows of their own to capture, so add the table behind it")]
    NotATable {
        /// What was named.
        table: TableName,
        /// What it is.
        kind: &'static str,
    },
    /// A table that does not outlive its session or a crash.
    #[error("{0} is temporary or unlogged, and its rows vanish without an edit: run ALTER TABLE {0} SET LOGGED")]
    NotDurable(TableName),
    /// A part of another table.
    #[error("{table} is a part of {parent}, whose statements its own triggers do not see: add {parent} instead")]
    PartOfAnother {
        /// What was named.
        table: TableName,
        /// The table above it.
        parent: String,
    },
    /// A part that lives on another server.
    #[error(
        "{part}, a part of {table}, is a foreign table, and edits made on its own server cannot be captured: detach it"
    )]
    ForeignPart {
        /// What was named.
        table: TableName,
        /// The foreign part.
        part: TableName,
    },
    /// Changes arrive by logical replication.
    #[error(
        "{0} is the target of a subscription, whose changes fire no statement triggers: add the layer where they are made"
    )]
    Subscribed(TableName),
    /// The role does not see all rows.
    #[error(
        "row-level security hides rows of {table} from {role}, so their edits would be taken for deletions: \
         run ALTER ROLE {role} BYPASSRLS, or connect as the owner of the table"
    )]
    HidesRows {
        /// The table.
        table: TableName,
        /// The role that we connected as.
        role: String,
    },
    /// The role may not make triggers that always fire.
    #[error(
        "{table} belongs to {owner}, and only its owner may make triggers that always fire: run GRANT {owner} TO {role}"
    )]
    NotOwner {
        /// The table.
        table: TableName,
        /// Its owner.
        owner: String,
        /// The role that we connected as.
        role: String,
    },
    /// There is no such column.
    #[error("{table} has no column {column}: it has {columns}")]
    NoSuchColumn {
        /// The table.
        table: TableName,
        /// What was named.
        column: String,
        /// What there is.
        columns: String,
    },
    /// The column cannot be the key.
    #[error("{column} cannot be the key of {table}: {fault}")]
    UnusableKey {
        /// The table, or a part of it.
        table: TableName,
        /// The column.
        column: String,
        /// Why.
        fault: KeyFault,
    },
    /// No key was named and there is no obvious one.
    #[error("{0} has no primary key of one column: name a column that is unique and not null with --id")]
    NoKey(TableName),
    /// Not a geometry.
    #[error("{column} of {table} is of type {found}, not geometry: name a geometry column with --geometry{hint}")]
    NotAGeometry {
        /// The table.
        table: TableName,
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// What may help.
        hint: &'static str,
    },
    /// No geometry was named and there is not exactly one.
    #[error("{table} has {n_found} geometry columns: name the one that is drawn with --geometry")]
    NoGeometry {
        /// The table.
        table: TableName,
        /// How many there are.
        n_found: usize,
    },
    /// Nobody says where the coordinates are.
    #[error(
        "{column} of {table} has no SRID: say which one it is with \
         ALTER TABLE {table} ALTER {column} TYPE geometry(Geometry, 4326) USING ST_SetSRID({column}, 4326)"
    )]
    NoSrid {
        /// The table.
        table: TableName,
        /// The column.
        column: String,
    },
    /// The SRID means nothing to `PostGIS`.
    #[error(
        "{column} of {table} has SRID {srid}, which spatial_ref_sys does not know: insert its definition there, \
         or correct the SRID with UpdateGeometrySRID"
    )]
    UnknownSrid {
        /// The table.
        table: TableName,
        /// The column.
        column: String,
        /// The SRID.
        srid: i32,
    },
    /// Somebody uses the table for longer than we may make others wait.
    #[error("{0} was in use for too long: try again when no long transaction runs on it")]
    Busy(TableName),
    /// The database failed.
    #[error("could not ask or change the database")]
    Database(#[from] sqlx::Error),
}

/// Why a column cannot be a layer's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not an integer, a uuid or text.
    #[error("a key is an integer, a uuid or text")]
    Type,
    /// Two texts may be equal and not the same.
    #[error("its collation is not deterministic, so two different texts may be the same key: change the collation")]
    Collation,
    /// It may be null.
    #[error("it may be null: run ALTER TABLE … ALTER … SET NOT NULL")]
    Nullable,
    /// It may repeat.
    #[error("nothing makes it unique: create a unique index or constraint on this column alone")]
    NotUnique,
}
