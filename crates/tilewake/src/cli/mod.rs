//! The command line: one file a subcommand, each parses its words, calls the library and prints.

mod layer;
mod migrate;
mod run;
mod status;
mod tiles;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use sqlx::PgPool;
use tracing_subscriber::EnvFilter;

use crate::postgres::session;

/// Exit code of a command that could not do what it was asked. Wrong words on the command line give 2.
const FAILED: u8 = 1;

/// Keeps map tiles fresh: finds exactly the tiles that an edit in PostGIS made stale, and busts them.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "\
Examples:
  tilewake migrate --database-url postgres://me@localhost/map
  tilewake layer add roads --table public.roads --id id --geometry geom --zooms 0-14
  tilewake run --database-url postgres://me@localhost/map --listen 127.0.0.1:3000
  tilewake status --json"
)]
pub struct Cli {
    /// What to log: error, warn, info, debug, or a filter such as tilewake=debug,sqlx=warn.
    #[arg(
        long,
        global = true,
        env = "TILEWAKE_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    log: String,
    /// How to write the log, to standard error.
    #[arg(
        long,
        global = true,
        env = "TILEWAKE_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Migrate(migrate::Migrate),
    Layer(layer::LayerCommand),
    Run(run::Run),
    Status(status::Status),
    Tiles(tiles::Tiles),
}

/// Runs what the command line says; prints an error once, with its causes.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    if let Err(error) = start_logging(&cli.log, cli.log_format) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    let result = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(dispatch(cli.command)),
        Err(error) => Err(anyhow::Error::from(error).context("cannot start the runtime")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", crate::error_chain(error.as_ref()));
            ExitCode::from(FAILED)
        }
    }
}

async fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Migrate(command) => command.run().await,
        Command::Layer(command) => command.run().await,
        Command::Run(command) => command.run().await,
        Command::Status(command) => command.run().await,
        Command::Tiles(command) => command.run(),
    }
}

/// Connects for a command that asks a few questions.
async fn connect(database_url: &str) -> anyhow::Result<PgPool> {
    let open = async { session::open(session::options(database_url)?, 2).await };
    open.await
        .context("cannot connect to the features' database; check the URL, and that the server runs")
}

fn start_logging(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("--log {filter:?} is no filter: {error}"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
