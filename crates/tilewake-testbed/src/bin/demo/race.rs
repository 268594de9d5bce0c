//! A race that the fence must win, made certain: renders so slow that a purge overtakes them.
//!
//! A second server, with an empty cache and slow renders, is asked for every tile of a few features. While it draws, these
//! features are edited, and the purge arrives before the pictures are done. They are old by then: whoever asked gets them,
//! but none may stay in the cache.

use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use tilewake_testbed::postgres::Database;

use crate::{
    area::{self, LayerTile},
    edits::{self, Chosen, Plan},
    history,
    pictures::{Pictures, fetch_all},
    purges::Purges,
    tilewake::{Tilewake, Weakness},
    writers::{self, Commits},
};

/// How slow renders are: longer if purges do not arrive in time, as on a busy machine.
const DELAYS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(8), Duration::from_secs(30)];

/// How the race went.
#[derive(Default)]
pub(crate) struct Race {
    /// How many slow renders drew what had been purged by the time they were done.
    pub(crate) n_overtaken: usize,
    /// What those got who asked afterwards.
    pub(crate) cached: Pictures,
}

/// Runs it, again with slower renders until purges are the faster ones. `tilewake` tells what the tiles were before.
pub(crate) async fn run(
    database: &Database,
    tilewake: &Tilewake,
    weakness: Option<Weakness>,
    pool: &[Chosen],
    commits: &mut Commits,
) -> Result<Race> {
    if matches!(weakness, Some(Weakness::NoPurger)) {
        return Ok(Race::default());
    }
    for delay in DELAYS {
        let (plans, places) = edits::one_each(pool);
        let tiles = area::tiles_over(&places);
        let before = ask(tilewake.address(), tiles.clone()).await?;
        let slow = format!("--delay-renders={}ms", delay.as_millis());
        let mut flags = vec![slow.as_str()];
        flags.extend(weakness.map(Weakness::flag));
        let server = Tilewake::run(database.url(), &flags).await?;
        let race = once(database, &server, delay, plans, before, commits).await?;
        server.stop().await?;
        if race.n_overtaken > tiles.len() / 2 {
            return Ok(race);
        }
    }
    bail!(
        "no purges overtook renders of {:?}: this machine is too busy for the demo",
        DELAYS[DELAYS.len() - 1]
    )
}

async fn once(
    database: &Database,
    server: &Tilewake,
    delay: Duration,
    plans: Vec<Plan>,
    before: Pictures,
    commits: &mut Commits,
) -> Result<Race> {
    let tiles: Vec<LayerTile> = before.keys().copied().collect();
    let purges = Purges::follow(server.address()).await?;
    let asked = tokio::spawn(ask(server.address(), tiles.clone()));
    // Nobody can see from outside when the features have been read; whether it was in time shows in the pictures.
    tokio::time::sleep(delay / 2).await;
    commits.add(writers::perform(database, plans, &mut fastrand::Rng::new(), &ProgressBar::hidden()).await?);
    let is_purged = history::wait_until_quiet(database, &purges).await?;
    let is_overtaken = is_purged && !asked.is_finished();
    let drawn = asked.await??;
    let n_old = drawn
        .iter()
        .filter(|(tile, picture)| before.get(tile) == Some(picture))
        .count();
    Ok(Race {
        n_overtaken: if is_overtaken { n_old } else { 0 },
        cached: ask(server.address(), tiles).await?,
    })
}

async fn ask(address: std::net::SocketAddr, tiles: Vec<LayerTile>) -> Result<Pictures> {
    let n_clients = tiles.len();
    fetch_all(address, &tiles, n_clients, ProgressBar::hidden()).await
}
