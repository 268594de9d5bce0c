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
mod race;
mod readers;
mod report;
mod tables;
mod tilewake;
mod writers;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tilewake_testbed::postgres::{Database, Server};
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
    let demo = Demo {
        database: &database,
        tilewake: &tilewake,
        map: &map,
        progress: &progress,
    };
    let played = demo.play(seed, weakness(arguments)).await;
    let findings = played.with_context(|| format!("tilewake logged:\n{}", tilewake.log_tail()))?;
    let report = Report::new(findings);
    print!("{report}");
    if arguments.json {
        println!("{}", report.json());
    }
    if !arguments.once {
        eprintln!("\nStill serving, until Ctrl-C:\n{}", tilewake.urls());
        std::future::pending::<()>().await;
    }
    tilewake.stop().await.context("tilewake did not stop in order")?;
    Ok(report.holds())
}

/// What plays along.
struct Demo<'a> {
    database: &'a Database,
    tilewake: &'a Tilewake,
    map: &'a [map::Feature],
    progress: &'a Progress,
}

impl Demo<'_> {
    /// Fills the cache, edits, waits for quiet, and judges.
    async fn play(&self, seed: u64, weakness: Option<Weakness>) -> Result<Findings> {
        let Self {
            database,
            tilewake,
            map,
            progress,
        } = *self;
        let tiles = area::tiles(map);
        pictures::from(tilewake, &tiles, progress.bar("filling the cache", tiles.len())).await?;
        let purges = Purges::follow(tilewake.address()).await?;
        let beginning = history::journal_head(database).await?;

        let mut random = fastrand::Rng::with_seed(seed);
        let pool = edits::choose(&mut database.connect().await?).await?;
        let plans = edits::plan(&pool, &mut random);
        let readers = Readers::start(tilewake.address(), &tiles, &area::crowded(map), &mut random);
        let n_steps = plans.iter().map(|plan| plan.steps.len()).sum();
        let bar = progress.bar("editing through SQL while readers ask, transactions", n_steps);
        let mut commits = writers::perform(database, plans, &mut random, &bar).await?;
        bar.finish_and_clear();
        let is_quiet = history::wait_until_quiet(database, &purges).await?;
        let n_reads = readers.stop().await?;
        progress.say("editing while slow renders are under way");
        let race = race::run(database, tilewake, weakness, &pool, &mut commits).await?;
        let is_quiet = is_quiet && history::wait_until_quiet(database, &purges).await?;

        let cached = pictures::from(tilewake, &tiles, progress.bar("asking for every tile", tiles.len())).await?;
        let bar = progress.bar("drawing every tile afresh", tiles.len());
        let fresh = pictures::fresh(database.url(), &tiles, bar).await?;
        progress.say("asking PostGIS which tiles each edit may have changed");
        let history = history::read(database).await?;
        let journal = history::journal(database, beginning).await?;
        let mut stale = pictures::stale(&cached, &fresh);
        stale.extend(pictures::stale(&race.cached, &fresh));
        Ok(Findings {
            seed,
            n_reads,
            n_duplicates: tilewake.n_duplicates().await?,
            is_quiet,
            n_tiles: tiles.len(),
            n_raced: race.cached.len(),
            n_overtaken: race.n_overtaken,
            stale,
            judgement: judge::judge(&history, &journal, &tiles),
            times: purges.times(&journal, &history, &commits),
            n_rows: commits.n_rows,
        })
    }
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
