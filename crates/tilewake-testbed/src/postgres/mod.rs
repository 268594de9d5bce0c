//! Postgres with `PostGIS`: the one that `DATABASE_URL` names, or a private cluster.

mod cluster;
mod install;

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use self::cluster::Cluster;

/// A server for tests, the demo or a benchmark.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// use tilewake_testbed::postgres::Server;
/// let database = Server::shared().database().await?;
/// println!("an empty database with PostGIS: {}", database.url());
/// # Ok(())
/// # }
/// ```
pub struct Server(Kind);

enum Kind {
    Given(PgConnectOptions),
    Private(Cluster),
}

impl Server {
    /// The server that all tests of this process share, started by the first that asks.
    ///
    /// # Panics
    ///
    /// When there is none and none can be started; the message says what to install.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::any().unwrap_or_else(|error| panic!("no Postgres to test with: {error:#}")))
    }

    /// The server that `DATABASE_URL` names, a private one otherwise.
    pub fn any() -> Result<Self> {
        match std::env::var("DATABASE_URL") {
            Ok(url) => Ok(Self(Kind::Given(
                url.parse().context("DATABASE_URL is no Postgres URL")?,
            ))),
            Err(_) => Self::private(&[]),
        }
    }

    /// A private server with settings of its own, such as `[("wal_writer_delay", "10s")]`.
    pub fn private(settings: &[(&str, &str)]) -> Result<Self> {
        Ok(Self(Kind::Private(Cluster::start(settings)?)))
    }

    /// The address of a database on this server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        url(&self.options().database(database))
    }

    fn options(&self) -> PgConnectOptions {
        match &self.0 {
            Kind::Given(options) => options.clone(),
            // `new` reads the environment (PGHOST and so on): every part of the address is set here.
            Kind::Private(cluster) => PgConnectOptions::new_without_pgpass()
                .host("127.0.0.1")
                .port(cluster.port())
                .username("postgres")
                .ssl_mode(sqlx::postgres::PgSslMode::Disable)
                .database("postgres"),
        }
    }

    /// A new database with `PostGIS` and nothing else, dropped with the answer.
    pub async fn database(&self) -> Result<Database> {
        let database = self.create("").await?;
        if matches!(self.0, Kind::Given(_)) {
            let mut connection = database.options.connect().await?;
            sqlx::query("CREATE EXTENSION IF NOT EXISTS postgis")
                .execute(&mut connection)
                .await
                .context("could not install PostGIS in a database on the server that DATABASE_URL names")?;
        }
        Ok(database)
    }

    /// A new database without `PostGIS`.
    pub async fn bare_database(&self) -> Result<Database> {
        self.create("TEMPLATE template0").await
    }

    /// A new database with what another one holds; nobody may be connected to that.
    pub async fn copy_of(&self, database: &Database) -> Result<Database> {
        self.create(&format!("TEMPLATE {}", database.name)).await
    }

    async fn create(&self, how: &str) -> Result<Database> {
        let name = unique_name();
        let maintenance = self.options();
        let mut connection = maintenance.connect().await.context("could not connect to Postgres")?;
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name} {how}")))
            .execute(&mut connection)
            .await
            .context("could not create a database")?;
        let options = maintenance.clone().database(&name);
        Ok(Database {
            url: url(&options),
            name,
            options,
            maintenance,
        })
    }

    /// Ends every process of a private server at once, as a crash of the machine would.
    pub fn kill_9(&mut self) -> Result<()> {
        self.cluster()?.kill_9()
    }

    /// Starts a private server again, at the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.cluster()?.restart()
    }

    fn cluster(&mut self) -> Result<&mut Cluster> {
        match &mut self.0 {
            Kind::Private(cluster) => Ok(cluster),
            Kind::Given(_) => bail!("only a private server may be stopped"),
        }
    }
}

/// The address in the words of libpq, so that psql and others understand it, too.
fn url(options: &PgConnectOptions) -> String {
    let mut url = options.to_url_lossy();
    let known = |(name, _): &(String, String)| name != "statement-cache-capacity";
    let parameters: Vec<(String, String)> = url.query_pairs().into_owned().filter(known).collect();
    url.set_query(None);
    if !parameters.is_empty() {
        url.query_pairs_mut().extend_pairs(parameters);
    }
    url.into()
}

/// A program of the system's Postgres, such as `pgbench`.
pub fn program(name: &str) -> Result<PathBuf> {
    let program = install::programs()?.join(name);
    anyhow::ensure!(program.is_file(), "there is no {}", program.display());
    Ok(program)
}

/// A database of one test, dropped with it.
pub struct Database {
    url: String,
    name: String,
    options: PgConnectOptions,
    maintenance: PgConnectOptions,
}

impl Database {
    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How to connect to it.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<PgConnection> {
        Ok(self.options.connect().await?)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = drop_database(self.maintenance.clone(), self.name.clone());
        // The test's own runtime may be the one thread that drops us: it cannot be waited on from here.
        let dropped = thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(drop)
        });
        // The server may have been killed by the test.
        let _ = dropped.join();
    }
}

async fn drop_database(maintenance: PgConnectOptions, name: String) -> Result<()> {
    let mut connection = maintenance.connect().await?;
    sqlx::query(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(())
}

/// Unique on a server that others may use at the same time.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("tilewake_{}_{}_{count}", std::process::id(), now.as_millis())
}
