//! What the demo is doing, on standard error: bars where somebody watches, lines where nobody does.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

pub(crate) struct Progress {
    start: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Says what comes next.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("{:>6.1} s  {what}", self.start.elapsed().as_secs_f64());
    }

    /// Shows how far something long has come.
    pub(crate) fn bar(&self, what: &'static str, length: usize) -> ProgressBar {
        self.say(&format!("{what} ({length})"));
        let bar = ProgressBar::with_draw_target(Some(length as u64), ProgressDrawTarget::stderr());
        if stderr().is_terminal() {
            bar.set_style(style());
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        bar
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("          {bar:50} {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
