//! What capture costs a writer, against the outbox that teams write by hand.
//!
//! Both run in the same pgbench, in turns, because a machine's speed drifts more between two runs than they differ. The
//! figure is the median of the rounds' ratios of transactions a second.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tilewake_testbed::postgres::{Server, program};

/// Measures the cost of capture.
#[derive(Parser)]
struct Options {
    /// The tilewake program.
    #[arg(long, default_value = "target/release/tilewake")]
    tilewake: PathBuf,
    /// Rounds, each of which runs every script once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds a script and round.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Clients at a time.
    #[arg(long, default_value_t = 4)]
    clients: u32,
    /// How pgbench speaks: simple or prepared.
    #[arg(long, default_value = "prepared")]
    protocol: String,
    /// Do not wait for the disk: shows the work alone.
    #[arg(long)]
    no_fsync: bool,
}

/// The scripts; the first is what the others are compared with.
const SCRIPTS: [&str; 4] = ["by_hand", "tilewake", "tilewake_in_transaction", "plain"];

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/capture");
    let fsync = if options.no_fsync { "off" } else { "on" };
    let server = Server::private(&[("fsync", fsync), ("shared_buffers", "256MB"), ("max_wal_size", "4GB")])?;
    let database = server.database().await?;
    let setup = std::fs::read_to_string(scripts.join("setup.sql"))?;
    let mut connection = database.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(setup)).execute(&mut connection).await?;
    tilewake(&options, database.url(), &["migrate"])?;
    tilewake(
        &options,
        database.url(),
        &["layer", "add", "layer", "--table", "layer", "--columns", "name"],
    )?;
    for script in SCRIPTS {
        transactions_a_second(&options, database.url(), &scripts, script, 1)?;
    }
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        settle(&mut connection).await?;
        let mut round = [0.0; SCRIPTS.len()];
        for (rate, script) in round.iter_mut().zip(SCRIPTS) {
            *rate = transactions_a_second(&options, database.url(), &scripts, script, options.seconds)?;
        }
        rounds.push(round);
    }
    connection.close().await?;
    report(&options, &rounds);
    Ok(())
}

/// Leaves no work of one round to the next.
async fn settle(connection: &mut PgConnection) -> Result<()> {
    for statement in ["VACUUM", "CHECKPOINT"] {
        sqlx::query(statement).execute(&mut *connection).await?;
    }
    Ok(())
}

fn tilewake(options: &Options, url: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(&options.tilewake)
        .args(arguments)
        .env("DATABASE_URL", url)
        .status()
        .with_context(|| format!("could not run {}", options.tilewake.display()))?;
    ensure!(status.success(), "tilewake {} failed", arguments.join(" "));
    Ok(())
}

fn transactions_a_second(options: &Options, url: &str, scripts: &Path, script: &str, seconds: u32) -> Result<f64> {
    let output = Command::new(program("pgbench")?)
        .args(["--no-vacuum", "--protocol", &options.protocol])
        .args(["--client", &options.clients.to_string(), "--jobs", "2"])
        .args(["--time", &seconds.to_string(), "--file"])
        .arg(scripts.join(format!("{script}.sql")))
        .arg(url)
        .output()
        .context("could not run pgbench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr)))
}

fn report(options: &Options, rounds: &[[f64; SCRIPTS.len()]]) {
    println!(
        "{} clients, {} protocol, fsync {}, median of {} rounds of {} s",
        options.clients,
        options.protocol,
        if options.no_fsync { "off" } else { "on" },
        options.rounds,
        options.seconds,
    );
    println!("{:<26} {:>12} {:>16}", "", "edits/s", "cost of by_hand");
    for (i, script) in SCRIPTS.iter().enumerate() {
        let rate = median(rounds.iter().map(|round| round[i]));
        let cost = median(rounds.iter().map(|round| round[0] / round[i]));
        println!("{script:<26} {rate:>12.0} {cost:>15.2}×");
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
