//! Brings a database's tables and functions to this version.
//!
//! Two sets, each with its own record in the schema `tilewake`: what stands beside the features, and what consumers
//! remember, which may stand in another database and needs no `PostGIS` there.

use std::cmp::Ordering;

use sqlx::{
    AssertSqlSafe, Connection, PgConnection, PgPool, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

use super::layers;

/// Postgres 15: `MERGE` and `SECURITY DEFINER` functions with SQL bodies.
const OLDEST_SERVER: i32 = 150_000;

/// Beside the features: layers, versions, the outbox.
const FEATURES: &[(&str, &str)] = &[
    (
        "tables",
        include_str!("../../../../migrations/features/0001_tables.sql"),
    ),
    (
        "capture",
        include_str!("../../../../migrations/features/0002_capture.sql"),
    ),
    (
        "epoch wake prune",
        include_str!("../../../../migrations/features/0003_epoch_wake_prune.sql"),
    ),
    ("relay", include_str!("../../../../migrations/features/0004_relay.sql")),
    (
        "render",
        include_str!("../../../../migrations/features/0005_render.sql"),
    ),
];

/// What consumers remember.
const LEDGER: &[(&str, &str)] = &[("tables", include_str!("../../../../migrations/ledger/0001_tables.sql"))];

/// Why a database could not be brought to this version.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The server lacks what capture is made of.
    #[error("this is Postgres {0}: tilewake needs version 15 or later")]
    ServerTooOld(String),
    /// There are no geometries to capture.
    #[error("this database has no PostGIS: run CREATE EXTENSION postgis in it, as a superuser or its owner")]
    NoPostgis,
    /// There is nothing to install.
    #[error(
        "the server has no PostGIS to create: install the package that fits its version, such as postgresql-15-postgis-3"
    )]
    PostgisNotInstalled,
    /// The role may not do it.
    #[error("role {role} may not create the schema tilewake: run GRANT CREATE ON DATABASE {database} TO {role}")]
    NoRight {
        /// The role that we connected as.
        role: String,
        /// The database.
        database: String,
    },
    /// A step failed or is not the one that was applied once.
    #[error("could not bring the schema tilewake to this version")]
    Step(#[from] sqlx::migrate::MigrateError),
    /// A layer's functions could not be made anew.
    #[error("could not make the capture functions of the layers anew")]
    Layers(#[from] Box<layers::LayerError>),
    /// The connection failed.
    #[error("could not ask the database")]
    Database(#[from] sqlx::Error),
}

/// Brings the tables of both the features and the ledger to this version, in one database.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    migrate_features(pool).await?;
    migrate_ledger(pool).await
}

/// Brings what stands beside the features to this version.
pub async fn migrate_features(pool: &PgPool) -> Result<(), MigrateError> {
    let mut connection = pool.acquire().await?;
    check_server(&mut connection).await?;
    check_postgis(&mut connection).await?;
    run(&mut connection, FEATURES, "tilewake.features_migration").await?;
    drop(connection);
    // The capture functions are made from this version's text.
    layers::reinstall(pool).await.map_err(Box::new)?;
    Ok(())
}

/// Brings what consumers remember to this version.
pub async fn migrate_ledger(pool: &PgPool) -> Result<(), MigrateError> {
    let mut connection = pool.acquire().await?;
    check_server(&mut connection).await?;
    run(&mut connection, LEDGER, "tilewake.ledger_migration").await
}

async fn check_server(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let (number, version, role, database, may_create): (i32, String, String, String, bool) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_version'), current_user::text,
                current_database()::text,
                to_regnamespace('tilewake') IS NOT NULL
                    OR has_database_privilege(current_database(), 'CREATE')",
    )
    .fetch_one(connection)
    .await?;
    if number < OLDEST_SERVER {
        return Err(MigrateError::ServerTooOld(version));
    }
    if !may_create {
        return Err(MigrateError::NoRight { role, database });
    }
    Ok(())
}

async fn check_postgis(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let (available, created): (bool, bool) = sqlx::query_as(
        "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgis'),
                EXISTS (SELECT FROM pg_extension WHERE extname = 'postgis')",
    )
    .fetch_one(connection)
    .await?;
    match (available, created) {
        (_, true) => Ok(()),
        (true, false) => Err(MigrateError::NoPostgis),
        (false, false) => Err(MigrateError::PostgisNotInstalled),
    }
}

async fn run(
    connection: &mut PgConnection,
    steps: &[(&'static str, &'static str)],
    table: &'static str,
) -> Result<(), MigrateError> {
    let step = |(number, &(name, sql)): (i64, &(&'static str, &'static str))| {
        Migration::new(number, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations((1..).zip(steps).map(step).collect());
    migrator.dangerous_set_table_name(table);
    migrator.create_schema("tilewake");
    // The migrations say `CREATE SCHEMA IF NOT EXISTS`, and the server answers with a notice each time.
    sqlx::query("SET client_min_messages = warning")
        .execute(&mut *connection)
        .await?;
    let done = migrator.run_direct(None, connection, false).await;
    sqlx::query("RESET client_min_messages")
        .execute(&mut *connection)
        .await?;
    connection.ping().await?;
    Ok(done?)
}

/// Why a database cannot be worked with as it is.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// `migrate` was never run.
    #[error("this database has no tables of tilewake: run tilewake migrate")]
    NotMigrated,
    /// It is older than this program.
    #[error("the tables are at step {found} of {known}: run tilewake migrate")]
    Outdated {
        /// The last step that was applied.
        found: i64,
        /// The last step of this version.
        known: i64,
    },
    /// It is newer than this program.
    #[error("the tables are at step {found}, and this version knows {known}: use a newer tilewake")]
    Newer {
        /// The last step that was applied.
        found: i64,
        /// The last step of this version.
        known: i64,
    },
    /// Deleted and hidden rows would look the same.
    #[error(
        "row-level security hides rows of layer {layer} from {role}: run ALTER ROLE {role} BYPASSRLS, \
         or connect as another role"
    )]
    HidesRows {
        /// The layer.
        layer: String,
        /// The role that we connected as.
        role: String,
    },
    /// The connection failed.
    #[error("could not ask the database")]
    Database(#[from] sqlx::Error),
}

/// Whether the features' database is at this version, and shows us all rows of its layers.
pub async fn check(pool: &PgPool) -> Result<(), SchemaError> {
    check_step(pool, "tilewake.features_migration", FEATURES.len()).await?;
    check_step(pool, "tilewake.ledger_migration", LEDGER.len()).await?;
    check_visibility(pool).await
}

async fn check_step(pool: &PgPool, table: &'static str, known: usize) -> Result<(), SchemaError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(table)
        .fetch_one(pool)
        .await?;
    if !exists {
        return Err(SchemaError::NotMigrated);
    }
    let last = format!("SELECT coalesce(max(version), 0) FROM {table} WHERE success");
    let found: i64 = sqlx::query_scalar(AssertSqlSafe(last)).fetch_one(pool).await?;
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    match found.cmp(&known) {
        Ordering::Less => Err(SchemaError::Outdated { found, known }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(SchemaError::Newer { found, known }),
    }
}

async fn check_visibility(pool: &PgPool) -> Result<(), SchemaError> {
    const HIDDEN: &str = "
        WITH RECURSIVE tree (layer, relation) AS (
            SELECT l.name, l.relation FROM tilewake.registered_layer l WHERE l.removed_at IS NULL
            UNION
            SELECT tree.layer, i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.relation
        )
        SELECT tree.layer, current_user::text FROM tree JOIN pg_class c ON c.oid = tree.relation
        WHERE row_security_active(c.oid) LIMIT 1";
    let hidden: Option<(String, String)> = sqlx::query_as(HIDDEN).fetch_optional(pool).await?;
    hidden.map_or(Ok(()), |(layer, role)| Err(SchemaError::HidesRows { layer, role }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_there_is_is_applied() {
        for (folder, steps) in [("features", FEATURES), ("ledger", LEDGER)] {
            let path = format!("{}/../../migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut texts: Vec<_> = std::fs::read_dir(path)
                .unwrap()
                .map(|file| file.unwrap().path())
                .collect();
            texts.sort();
            let texts: Vec<_> = texts
                .iter()
                .map(|path| std::fs::read_to_string(path).unwrap())
                .collect();
            assert_eq!(
                texts,
                steps.iter().map(|(_, text)| *text).collect::<Vec<_>>(),
                "{folder}"
            );
        }
    }
}
