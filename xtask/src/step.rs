//! One step of a chore: what it is called, how long it took.

use std::{
    ffi::OsStr,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

/// The steps done so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Announces a step, does it, and remembers how long it took.
    pub(crate) fn step(&mut self, name: &'static str, what: impl FnOnce() -> Result<()>) -> Result<()> {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        what().with_context(|| format!("{name} failed"))?;
        self.done.push((name, start.elapsed()));
        Ok(())
    }

    /// Prints what was done.
    pub(crate) fn summarise(&self) {
        eprintln!();
        for (name, took) in &self.done {
            eprintln!("{:>7.1} s  {name}", took.as_secs_f64());
        }
    }
}

/// Runs a program to its end, in sight of the user.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not run {}", shown(command)))?;
    ensure!(status.success(), "{} ended with {status}", shown(command));
    Ok(())
}

/// Runs a program to its end and hands back what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("could not run {}", shown(command)))?;
    ensure!(
        output.status.success(),
        "{} ended with {}: {}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("a program printed what is no text")
}

/// Cargo, as it was called for us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    // A script among the words is known by its first line.
    let first_line = |word: &OsStr| {
        word.to_string_lossy()
            .trim()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    words.map(first_line).collect::<Vec<_>>().join(" ")
}
