//! The real program in a process of its own, spoken to as anybody would: by command line and over HTTP.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use hyper::header::CACHE_CONTROL;
use tilewake_testbed::{http::Client, service_dir::ServiceDir};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::tables::{BUFFER, COLUMNS, TABLES, ZOOMS};

/// How long it may take to serve, and to stop.
const BOUND: Duration = Duration::from_secs(30);

/// What is switched off to see that the demo notices.
#[derive(Clone, Copy)]
pub(crate) enum Weakness {
    NoPurger,
    NoFence,
}

impl Weakness {
    /// How to switch it off.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::NoPurger => "--disable-purger",
            Self::NoFence => "--disable-fence",
        }
    }
}

/// A running `tilewake run`.
pub(crate) struct Tilewake {
    address: SocketAddr,
    process: Child,
    // Ends the process when this one dies, however it dies.
    dir: ServiceDir,
}

impl Tilewake {
    /// Prepares the database, tracks the tables as layers, and runs.
    pub(crate) async fn start(database_url: &str, weakness: Option<Weakness>) -> Result<Self> {
        do_and_end(&["migrate", "--database-url", database_url]).await?;
        for table in &TABLES {
            let layer = [
                "layer",
                "add",
                table.layer,
                "--table",
                table.layer,
                "--id",
                "id",
                "--geometry",
                "geom",
            ];
            let drawn = [
                "--columns",
                COLUMNS,
                "--zooms",
                ZOOMS,
                "--buffer",
                BUFFER,
                "--policy",
                "footprint",
            ];
            do_and_end(&[&layer[..], &drawn, &["--database-url", database_url]].concat()).await?;
        }
        Self::run(database_url, weakness.map(Weakness::flag).as_slice()).await
    }

    /// Runs on a database that is ready.
    pub(crate) async fn run(database_url: &str, flags: &[&str]) -> Result<Self> {
        let mut dir = ServiceDir::create("tilewake", |_| true)?;
        let config = dir.path().join("tilewake.toml");
        fs::write(
            &config,
            format!("database_url = {database_url:?}\nlisten = \"127.0.0.1:0\"\n"),
        )?;
        let mut command = program()?;
        command.arg("run").arg("--config").arg(&config).args(flags);
        let log = dir.path().join("log");
        // Not in our process group: a Ctrl-C is for us to handle.
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut process = command.spawn().context("could not start tilewake")?;
        dir.adopt(process.id().context("tilewake ended at once")?)?;
        let address = timeout(BOUND, address(&mut process))
            .await
            .context("tilewake did not serve in time")
            .flatten();
        match address {
            Ok(address) => {
                cache_opened(address).await?;
                Ok(Self { address, process, dir })
            }
            Err(error) => bail!("{error:#}: {}", tail(&log)),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.dir.path().join("log"))
    }

    /// Where to look.
    pub(crate) fn urls(&self) -> String {
        let site = format!("http://{}", self.address);
        let mut urls: Vec<_> = TABLES
            .iter()
            .map(|table| format!("  {site}/{}.json", table.layer))
            .collect();
        urls.push(format!("  {site}/roads/14/9327/4742.mvt"));
        urls.push(format!("  {site}/metrics"));
        urls.join("\n")
    }

    /// How many repeated events its consumer has met.
    pub(crate) async fn n_duplicates(&self) -> Result<u64> {
        let (_, text) = Client::connect(self.address).await?.get("/metrics").await?;
        Ok(sum_of(
            "tilewake_consumer_duplicates_total",
            &String::from_utf8_lossy(&text),
        ))
    }

    /// Asks it to end, and makes sure that it did so well.
    pub(crate) async fn stop(self) -> Result<()> {
        let Self { mut process, dir, .. } = self;
        tokio::task::spawn_blocking(move || drop(dir)).await?;
        let status = timeout(BOUND, process.wait())
            .await
            .context("tilewake did not stop")??;
        ensure!(status.success(), "tilewake ended with {status}");
        Ok(())
    }
}

/// It was built into the same directory.
fn program() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("tilewake");
    let mut command = Command::new(program);
    // Only what the demo says counts.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TILEWAKE_")) {
        command.env_remove(name);
    }
    command
        .env_remove("DATABASE_URL")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    Ok(command)
}

async fn do_and_end(arguments: &[&str]) -> Result<()> {
    let output = program()?
        .args(arguments)
        .output()
        .await
        .context("could not start tilewake")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`tilewake {}` failed: {}",
        arguments.join(" "),
        said.trim()
    );
    Ok(())
}

/// Waits until what is asked for stays in the cache: first the server must have found the journal's end. Until then it
/// serves tiles with `no-store`.
async fn cache_opened(address: SocketAddr) -> Result<()> {
    let mut client = Client::connect(address).await?;
    let path = format!("/{}/18/0/0.mvt", TABLES[0].layer);
    let start = Instant::now();
    while start.elapsed() < BOUND {
        let response = client.stream(&path).await?;
        let is_cached = response
            .headers()
            .get(CACHE_CONTROL)
            .is_some_and(|value| value != "no-store");
        response.into_body().collect().await?;
        if is_cached {
            return Ok(());
        }
    }
    bail!("tilewake's cache did not open within {BOUND:?}")
}

/// Reads what it prints once it serves. Standard output stays open behind it: it may print more.
async fn address(process: &mut Child) -> Result<SocketAddr> {
    let output = process.stdout.take().context("tilewake has no standard output")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.strip_prefix("listening on http://") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return address
                .trim()
                .parse()
                .context("tilewake printed an address that is none");
        }
    }
    bail!("tilewake ended before it served")
}

fn tail(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// The sum of a counter over its labels, in the text format of Prometheus.
fn sum_of(counter: &str, metrics: &str) -> u64 {
    let values = metrics
        .lines()
        .filter(|line| line.starts_with(counter))
        .filter_map(|line| line.rsplit(' ').next());
    values.filter_map(|value| value.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let metrics = "# HELP n x\nn{caught_by=\"cache\"} 3\nn{caught_by=\"constraint\"} 4\nm 9\n";
        assert_eq!(sum_of("n", metrics), 7);
        assert_eq!(sum_of("other", metrics), 0);
    }
}
