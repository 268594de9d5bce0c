//! A database with a layer, and a short way to say what its outbox holds.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool, Row, postgres::PgPoolOptions};
use tilewake::postgres::{
    self,
    layers::{self, NewLayer},
};
use tilewake_core::layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms};
use tilewake_testbed::postgres::{Database, Server};
use tokio::sync::OnceCell;

/// A fresh database, brought to this version.
pub(crate) struct World {
    pub(crate) pool: PgPool,
    pub(crate) database: Database,
}

impl World {
    /// Runs `sql` in a fresh database.
    pub(crate) async fn new(sql: &str) -> Self {
        /// Migrated once: copying is faster.
        static TEMPLATE: OnceCell<Database> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(|| migrated(Server::shared())).await;
        let database = Server::shared().copy_of(template).await.unwrap();
        Self::in_database(database, sql).await
    }

    pub(crate) async fn on(server: &Server, sql: &str) -> Self {
        Self::in_database(migrated(server).await, sql).await
    }

    async fn in_database(database: Database, sql: &str) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(10)
            .connect_with(database.options())
            .await
            .unwrap();
        let world = Self { pool, database };
        world.run(sql).await;
        world
    }

    /// A table `t (id, name, geom)` that is a layer, with the given rows, which are older than it.
    pub(crate) async fn with_points(rows: &str) -> Self {
        let world = Self::new("CREATE TABLE t (id integer PRIMARY KEY, name text, geom geometry(Point, 4326))").await;
        if !rows.is_empty() {
            world.run(&format!("INSERT INTO t VALUES {rows}")).await;
        }
        world.add("t").await;
        world
    }

    /// Runs statements in one session, each in its own transaction unless they say otherwise.
    pub(crate) async fn run(&self, sql: &str) {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    }

    pub(crate) async fn try_run(&self, sql: &str) -> Result<(), sqlx::Error> {
        let mut connection = self.database.options().connect().await?;
        for statement in statements(sql) {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        }
        connection.close().await
    }

    /// Makes a table a layer of the same name.
    pub(crate) async fn add(&self, table: &str) {
        layers::add(&self.pool, &layer(table, table)).await.unwrap();
    }

    pub(crate) async fn value<T>(&self, sql: &str) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let answer = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.pool)
            .await;
        answer.unwrap_or_else(|error| panic!("{error}\n{sql}"))
    }

    /// The outbox, a line an edit, in the order of the versions: `feature vBASE→VERSION type changed before→after`.
    ///
    /// Boxes are rounded to whole degrees; epochs are counted from the layer's first, and left out in it.
    pub(crate) async fn edits(&self) -> String {
        const EDITS: &str = "
            SELECT layer, feature_id, feature_version, base_version, event_type, changed::text,
                   (SELECT count(DISTINCT e.epoch) FROM tilewake.layer_epoch e
                    WHERE e.layer = o.layer AND e.epoch < o.epoch) AS nth_epoch,
                   format('%s %s %s %s', round((before_box[1])[0]), round((before_box[1])[1]), round((before_box[0])[0]),
                          round((before_box[0])[1])) AS before,
                   format('%s %s %s %s', round((after_box[1])[0]), round((after_box[1])[1]), round((after_box[0])[0]),
                          round((after_box[0])[1])) AS after
            FROM tilewake.outbox o
            WHERE feature_version > 0
            ORDER BY layer, feature_id, feature_version, id";
        let mut text = String::new();
        for row in sqlx::query(EDITS).fetch_all(&self.pool).await.unwrap() {
            let part = |column: &str| match row.get::<String, _>(column).trim() {
                "" => "nothing".to_owned(),
                corners => short(corners),
            };
            let _ = write!(
                text,
                "{} v{}→{} {} {} {} → {}",
                row.get::<String, _>("feature_id"),
                row.get::<i64, _>("base_version"),
                row.get::<i64, _>("feature_version"),
                row.get::<String, _>("event_type"),
                row.get::<String, _>("changed"),
                part("before"),
                part("after"),
            );
            if row.get::<i64, _>("nth_epoch") > 0 {
                let _ = write!(text, " epoch+{}", row.get::<i64, _>("nth_epoch"));
            }
            text.push('\n');
        }
        text
    }

    /// A session of its own.
    pub(crate) async fn session(&self) -> PgConnection {
        self.database.options().connect().await.unwrap()
    }

    /// How often the epochs of all layers were raised.
    pub(crate) async fn n_epochs(&self) -> i64 {
        self.value("SELECT count(*) FROM tilewake.outbox WHERE event_type = 'epoch'")
            .await
    }
}

async fn migrated(server: &Server) -> Database {
    let database = server.database().await.unwrap();
    let pool = PgPool::connect_with(database.options()).await.unwrap();
    postgres::migrate(&pool).await.unwrap();
    pool.close().await;
    database
}

/// Splits where a line ends with a semicolon, save in a function's body.
fn statements(sql: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut is_in_body = false;
    for line in sql.lines() {
        is_in_body ^= line.matches("$$").count() % 2 == 1;
        let last = statements.last_mut().unwrap();
        last.push_str(line);
        last.push('\n');
        if line.ends_with(';') && !is_in_body {
            statements.push(String::new());
        }
    }
    statements
}

/// A box of one point as that point.
fn short(corners: &str) -> String {
    let parts: Vec<&str> = corners.split(' ').collect();
    match parts[..] {
        [west, south, east, north] if west == east && south == north => format!("{west} {south}"),
        _ => format!("[{corners}]"),
    }
}

/// A layer with usual settings.
pub(crate) fn layer(name: &str, table: &str) -> NewLayer {
    NewLayer {
        name: LayerName::new(name).unwrap(),
        settings: LayerSettings {
            zooms: Zooms::new(0, 14).unwrap(),
            buffer: Buffer::DEFAULT,
            policy: Policy::Footprint,
            beyond_180: Beyond180::Both,
        },
        table: table.to_owned(),
        id: None,
        geometry: None,
        columns: None,
    }
}
