//! `tilewake run`: relay, consumer, purger and tile server in one process.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    purger::Purging,
    run::{self, Weakened},
    settings::{Overrides, Settings},
    tiles::cache::Fencing,
};

/// Relays edits, decides which tiles they make stale, serves tiles and keeps them fresh: all in one process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake run --database-url postgres://me@localhost/map
  tilewake run --config tilewake.toml --listen 0.0.0.0:8080 --relays 2

A flag beats its environment variable, which beats the file. The file is TOML; its keys are the flags' names with
underscores. SIGTERM and Ctrl-C finish what is under way and stop.")]
pub(super) struct Run {
    /// A TOML file with settings.
    #[arg(long, env = "TILEWAKE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Reads the journal and purges nothing: proves that checks notice.
    #[arg(long, hide = true)]
    disable_purger: bool,
    /// Caches pictures that a purge overtook: proves that checks notice.
    #[arg(long, hide = true)]
    disable_fence: bool,
    /// Has every render wait between drawing and caching: gives purges a chance to overtake it.
    #[arg(long, hide = true, default_value = "0s", value_name = "DURATION")]
    delay_renders: humantime::Duration,
}

impl Run {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let settings = Settings::load(self.config.as_deref(), self.overrides)?;
        let weakened = Weakened {
            purging: if self.disable_purger { Purging::Off } else { Purging::On },
            fencing: if self.disable_fence { Fencing::Off } else { Fencing::On },
            render_delay: self.delay_renders.into(),
        };
        let stop = CancellationToken::new();
        stop_on_signal(stop.clone())?;
        run::run(settings, weakened, stop, |address| {
            println!("listening on http://{address}");
        })
        .await?;
        Ok(())
    }
}

fn stop_on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    });
    Ok(())
}
