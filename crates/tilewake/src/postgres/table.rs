//! What the catalog says of a table that is a layer, or would be.
//!
//! Only reads. Whether the table will do is decided by [`super::layers`].

use sqlx::{AssertSqlSafe, FromRow, PgConnection, postgres::types::Oid};

use super::{Identifier, TableName};

/// A table with everything below it: partitions, or children by inheritance.
#[derive(Debug)]
pub(crate) struct Table {
    pub relation: Oid,
    pub name: TableName,
    /// The table itself first.
    pub tree: Vec<Member>,
    pub parent: Option<String>,
    pub owner: String,
    pub role: String,
    pub is_owner: bool,
}

/// One table of a tree.
#[derive(Debug, FromRow)]
pub(crate) struct Member {
    schema: String,
    table: String,
    /// As `pg_class.relkind`.
    pub kind: String,
    /// As `pg_class.relpersistence`.
    pub persistence: String,
    pub hides_rows: bool,
    pub is_subscribed: bool,
}

impl Member {
    pub(crate) fn name(&self) -> TableName {
        TableName::new(&self.schema, &self.table)
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: Identifier,
    /// The name of its type, below all domains.
    pub type_name: String,
    /// The type in SQL, fit for a cast.
    pub cast: String,
    category: String,
    is_plain: bool,
}

#[derive(FromRow)]
struct ColumnRow {
    name: String,
    type_name: String,
    cast: String,
    category: String,
    is_plain: bool,
}

impl Column {
    /// An expression whose text depends on the value alone, never on the session's settings: a digest must be the same
    /// in every session.
    pub(crate) fn stable_text(&self, row: &str) -> String {
        let column = format!("{row}.{}", self.name);
        let send = match self.type_name.as_str() {
            _ if self.is_plain => return column,
            "float4" => "float4send",
            "float8" => "float8send",
            "timestamp" => "timestamp_send",
            "timestamptz" => "timestamptz_send",
            "date" => "date_send",
            "time" => "time_send",
            "timetz" => "timetz_send",
            "interval" => "interval_send",
            "money" => "cash_send",
            "bytea" => return format!("encode({column}, 'hex')"),
            // Arrays, composites and the like may hold any of these.
            _ => return format!("tilewake.stable_text(ROW({column}))"),
        };
        format!("encode({send}({column}), 'hex')")
    }

    /// The kind of value in the words of TileJSON.
    pub(crate) fn kind(&self) -> FieldKind {
        match self.category.as_str() {
            "N" => FieldKind::Number,
            "B" => FieldKind::Boolean,
            _ => FieldKind::String,
        }
    }

    /// Whether it is a shape of its own, which no tile shows as an attribute.
    pub(crate) fn is_spatial(&self) -> bool {
        matches!(self.type_name.as_str(), "geometry" | "geography" | "raster")
    }
}

/// What a column's values are in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// Anything else, as text.
    String,
}

impl FieldKind {
    /// The word that TileJSON uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "Number",
            Self::Boolean => "Boolean",
            Self::String => "String",
        }
    }
}

/// Finds a table by the name that the user wrote: as SQL would read it, else exactly as it stands.
pub(crate) async fn find(connection: &mut PgConnection, name: &str) -> Result<Option<Oid>, sqlx::Error> {
    const FIND: &str = "SELECT coalesce(to_regclass($1), to_regclass(quote_ident($1)))::oid";
    let found = sqlx::query_scalar(FIND).bind(name).fetch_one(&mut *connection).await;
    match found {
        // The name is not even one: a syntax error, or too many dots.
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|code| code.starts_with("42")) => Ok(None),
        other => other,
    }
}

/// Reads a table and its tree; `None` if it is gone.
pub(crate) async fn read(connection: &mut PgConnection, relation: Oid) -> Result<Option<Table>, sqlx::Error> {
    const TABLE: &str = "
        SELECT n.nspname::text, c.relname::text, pg_get_userbyid(c.relowner)::text, current_user::text,
               pg_has_role(c.relowner, 'USAGE'),
               (SELECT i.inhparent::regclass::text FROM pg_inherits i WHERE i.inhrelid = c.oid LIMIT 1)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = $1";
    const TREE: &str = "
        WITH RECURSIVE tree (relation, depth) AS (
            SELECT $1::oid, 0
            UNION
            SELECT i.inhrelid, tree.depth + 1 FROM pg_inherits i JOIN tree ON i.inhparent = tree.relation
        )
        SELECT n.nspname::text AS schema, c.relname::text AS table, c.relkind::text AS kind,
               c.relpersistence::text AS persistence, row_security_active(c.oid) AS hides_rows,
               EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid) AS is_subscribed
        FROM (SELECT relation, min(depth) AS depth FROM tree GROUP BY relation) tree
            JOIN pg_class c ON c.oid = tree.relation JOIN pg_namespace n ON n.oid = c.relnamespace
        ORDER BY tree.depth, n.nspname, c.relname";
    type Row = (String, String, String, String, bool, Option<String>);
    let row: Option<Row> = sqlx::query_as(TABLE)
        .bind(relation)
        .fetch_optional(&mut *connection)
        .await?;
    let Some((schema, table, owner, role, is_owner, parent)) = row else {
        return Ok(None);
    };
    Ok(Some(Table {
        relation,
        name: TableName::new(schema, table),
        tree: sqlx::query_as(TREE).bind(relation).fetch_all(connection).await?,
        parent,
        owner,
        role,
        is_owner,
    }))
}

/// The columns of a table, in their order.
pub(crate) async fn columns(connection: &mut PgConnection, relation: Oid) -> Result<Vec<Column>, sqlx::Error> {
    // Plain: the output does not depend on the session's settings.
    const COLUMNS: &str = "
        WITH RECURSIVE base (name, number, type) AS (
            SELECT a.attname, a.attnum, a.atttypid FROM pg_attribute a
            WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
            UNION ALL
            SELECT base.name, base.number, t.typbasetype FROM base JOIN pg_type t ON t.oid = base.type
            WHERE t.typtype = 'd'
        )
        SELECT base.name::text, t.typname::text AS type_name, format_type(t.oid, -1) AS cast,
               t.typcategory::text AS category,
               t.typtype = 'e' OR t.typname IN ('citext', 'geometry')
                   OR n.nspname = 'pg_catalog' AND t.typname IN (
                       'bool', 'int2', 'int4', 'int8', 'numeric', 'oid', 'uuid', 'text', 'varchar', 'bpchar', 'char', 'name',
                       'json', 'jsonb', 'xml', 'inet', 'cidr', 'macaddr', 'macaddr8', 'bit', 'varbit') AS is_plain
        FROM base JOIN pg_type t ON t.oid = base.type JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE t.typtype <> 'd'
        ORDER BY base.number";
    let rows: Vec<ColumnRow> = sqlx::query_as(COLUMNS).bind(relation).fetch_all(connection).await?;
    let column = |row: ColumnRow| Column {
        name: Identifier::new(row.name),
        type_name: row.type_name,
        cast: row.cast,
        category: row.category,
        is_plain: row.is_plain,
    };
    Ok(rows.into_iter().map(column).collect())
}

/// What makes a column fit or unfit to be the key.
#[derive(Debug, FromRow)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of the catalog")]
pub(crate) struct Key {
    pub is_known_type: bool,
    pub is_deterministic: bool,
    pub is_not_null: bool,
    pub is_unique: bool,
}

/// Reads what a table promises of its column `name`.
pub(crate) async fn key(connection: &mut PgConnection, table: &TableName, name: &str) -> Result<Key, sqlx::Error> {
    const KEY: &str = "
        WITH RECURSIVE base (type) AS (
            SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attname = $2
            UNION ALL
            SELECT t.typbasetype FROM base JOIN pg_type t ON t.oid = base.type WHERE t.typtype = 'd'
        )
        SELECT EXISTS (
                   SELECT FROM base WHERE type IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype,
                                                   'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
               ) AS is_known_type,
               coalesce((SELECT l.collisdeterministic FROM pg_collation l WHERE l.oid = a.attcollation), true)
                   AS is_deterministic,
               a.attnotnull AS is_not_null,
               EXISTS (
                   SELECT FROM pg_index i
                   WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                       AND i.indkey[0] = a.attnum AND i.indpred IS NULL AND i.indexprs IS NULL
               ) AS is_unique
        FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attname = $2";
    sqlx::query_as(KEY)
        .bind(table.to_string())
        .bind(name)
        .fetch_one(connection)
        .await
}

/// The single column of the table's primary key.
pub(crate) async fn primary_key(connection: &mut PgConnection, relation: Oid) -> Result<Option<String>, sqlx::Error> {
    const PRIMARY_KEY: &str = "
        SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = $1 AND i.indisprimary AND i.indnkeyatts = 1";
    sqlx::query_scalar(PRIMARY_KEY)
        .bind(relation)
        .fetch_optional(connection)
        .await
}

/// The schema that `PostGIS` lives in.
pub(crate) async fn postgis(connection: &mut PgConnection) -> Result<Option<Identifier>, sqlx::Error> {
    const SCHEMA: &str = "
        SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'postgis'";
    let schema: Option<String> = sqlx::query_scalar(SCHEMA).fetch_optional(connection).await?;
    Ok(schema.map(Identifier::new))
}

/// The SRID that a geometry column fixes; 0 for none.
pub(crate) async fn declared_srid(
    connection: &mut PgConnection,
    postgis: &Identifier,
    relation: Oid,
    column: &Identifier,
) -> Result<i32, sqlx::Error> {
    let srid = format!(
        "SELECT {postgis}.postgis_typmod_srid(a.atttypmod) FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = $2"
    );
    sqlx::query_scalar(AssertSqlSafe(srid))
        .bind(relation)
        .bind(column.as_str())
        .fetch_one(connection)
        .await
}

/// The SRIDs of the geometries in a column that fixes none.
pub(crate) async fn stored_srids(
    connection: &mut PgConnection,
    postgis: &Identifier,
    table: &TableName,
    column: &Identifier,
) -> Result<Vec<i32>, sqlx::Error> {
    let srids = format!("SELECT DISTINCT {postgis}.ST_SRID(t.{column}) FROM {table} t WHERE t.{column} IS NOT NULL");
    sqlx::query_scalar(AssertSqlSafe(srids)).fetch_all(connection).await
}

/// Whether `PostGIS` knows how to transform from an SRID.
pub(crate) async fn is_known_srid(
    connection: &mut PgConnection,
    postgis: &Identifier,
    srid: i32,
) -> Result<bool, sqlx::Error> {
    let known = format!("SELECT EXISTS (SELECT FROM {postgis}.spatial_ref_sys s WHERE s.srid = $1)");
    sqlx::query_scalar(AssertSqlSafe(known))
        .bind(srid)
        .fetch_one(connection)
        .await
}

/// A digest of what the capture functions and triggers were made from: the tree, and names and types of the columns.
pub(crate) async fn shape_digest(connection: &mut PgConnection, relation: Oid) -> Result<Option<String>, sqlx::Error> {
    const DIGEST: &str = "
        WITH RECURSIVE tree (relation) AS (
            SELECT $1::oid
            UNION
            SELECT i.inhrelid FROM pg_inherits i JOIN tree ON i.inhparent = tree.relation
        )
        SELECT md5(string_agg(part, E'\\n' ORDER BY part)) FROM (
            SELECT format('%s %s.%s', c.oid, n.nspname, c.relname)
            FROM tree JOIN pg_class c ON c.oid = tree.relation JOIN pg_namespace n ON n.oid = c.relnamespace
            UNION ALL
            SELECT format('%s %s %s %s', a.attnum, a.attname, a.atttypid, a.atttypmod)
            FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
        ) parts (part)
        WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = $1)";
    sqlx::query_scalar(DIGEST).bind(relation).fetch_one(connection).await
}
