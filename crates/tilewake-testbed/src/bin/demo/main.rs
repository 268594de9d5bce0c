//! The demo: tilewake at work on a map of Helsinki, and a judge that believes none of its words.
//!
//! It starts a private Postgres and the real `tilewake` program, fills the tile cache over HTTP, edits the map through
//! plain SQL while readers keep asking, and then checks everything from outside: every tile against a fresh render, every
//! row of the journal against what `PostGIS` says about the edits it names. It changes nothing outside its own database.

mod area;
mod edits;
mod history;
mod judge;
mod map;
mod pictures;
mod progress;
mod purges;
mod readers;
mod report;
mod tables;
mod tilewake;
mod writers;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tilewake_testbed::postgres::Server;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    progress::Progress,
    purges::Purges,
    readers::Readers,
    report::{Findings, Report},
    tilewake::{Tilewake, Weakness},
};

/// Shows tilewake at work on a map of Helsinki, and checks from outside that every tile is right.
///
/// Exit code 0: all of it holds. 3: something was found wanting. 1: the demo could not run.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[command(name = "cargo xtask demo")]
struct Arguments {
    /// End when all is checked, instead of serving the map until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// Print the findings as one JSON object, in the last line of standard output.
    #[arg(long)]
    json: bool,
    /// Repeat the random choices of an earlier run; each run prints its seed.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Let purges not reach the cache: the demo must notice.
    #[arg(long, hide = true)]
    disable_purger: bool,
    /// Let slow renders overtake purges: the demo must notice.
    #[arg(long, hide = true)]
    disable_fence: bool,
}

const FOUND_WANTING: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Dropping what `run` holds ends the services, so a signal may come at any moment.
    let outcome = tokio::select! {
        outcome = run(&arguments) => outcome,
        () = interrupted() => return ExitCode::from(130),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND_WANTING),
        Err(error) => {
            eprintln!("the demo could not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all of it holds.
async fn run(arguments: &Arguments) -> Result<bool> {
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let progress = Progress::new();
    progress.say("starting a Postgres with PostGIS that only this demo uses");
    let server = tokio::task::spawn_blocking(Server::any).await??;
    let database = server.database().await?;
    let map = map::read()?;
    tables::create(&mut database.connect().await?, &map).await?;
    progress.say(&format!("loaded {} features into {}", map.len(), database.url()));

    let tilewake = Tilewake::start(database.url(), weakness(arguments)).await?;
    progress.say(&format!("tilewake serves three layers on {}", tilewake.address()));
    let played = play(&database, &tilewake, &map, seed, &progress).await;
    let findings = played.with_context(|| format!("tilewake logged:\n{}", tilewake.log_tail()))?;
    let report = Report::new(findings);
    print!("{report}");
    if arguments.json {
        println!("{}", report.json());
    }
    if !arguments.once {
        println!("\nStill serving, until Ctrl-C:\n{}", tilewake.urls());
        std::future::pending::<()>().await;
    }
    tilewake.stop().await.context("tilewake did not stop in order")?;
    Ok(report.holds())
}

/// Fills the cache, edits, waits for quiet, and judges.
async fn play(
    database: &tilewake_testbed::postgres::Database,
    tilewake: &Tilewake,
    map: &[map::Feature],
    seed: u64,
    progress: &Progress,
) -> Result<Findings> {
    let tiles = area::tiles(map);
    pictures::fetch_all(
        tilewake.address(),
        &tiles,
        progress.bar("filling the cache", tiles.len()),
    )
    .await?;

    let purges = Purges::follow(tilewake.address()).await?;
    let beginning = history::journal_head(database).await?;
    let mut random = fastrand::Rng::with_seed(seed);
    let pool = edits::choose(&mut database.connect().await?).await?;
    let plans = edits::plan(&pool, &mut random);
    let readers = Readers::start(tilewake.address(), &tiles, &area::crowded(map), &mut random);
    let commits = writers::perform(database, plans, &mut random, progress).await?;
    let is_quiet = history::wait_until_quiet(database, &purges).await?;
    let n_reads = readers.stop().await?;

    let cached = pictures::fetch_all(
        tilewake.address(),
        &tiles,
        progress.bar("asking for every tile", tiles.len()),
    )
    .await?;
    let fresh = pictures::fresh(database.url(), &tiles, progress).await?;
    progress.say("asking PostGIS which tiles each edit may have changed");
    let history = history::read(database).await?;
    let journal = history::journal(database, beginning).await?;
    let n_duplicates = tilewake.n_duplicates().await?;
    Ok(Findings {
        seed,
        n_reads,
        n_duplicates,
        is_quiet,
        stale: pictures::stale(&cached, &fresh),
        judgement: judge::judge(&history, &journal, &tiles),
        times: purges.times(&journal, &history, &commits),
        n_rows: commits.n_rows,
        n_tiles: tiles.len(),
    })
}

fn weakness(arguments: &Arguments) -> Option<Weakness> {
    match (arguments.disable_purger, arguments.disable_fence) {
        (true, _) => Some(Weakness::NoPurger),
        (_, true) => Some(Weakness::NoFence),
        _ => None,
    }
}

async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => std::future::pending().await,
    }
}
