//! The project's chores: `cargo xtask demo` and `cargo xtask test`, each with all the set-up it needs.
//!
//! It decides nothing about tiles. It starts other programs, in order, says which and how long they took, and stops at
//! the first that fails.

mod bare;
mod checks;
mod demo;
mod setup;
mod step;
mod wall;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  demo [--once] [--json]   shows tilewake at work on a map of Helsinki; --once ends when all is checked
  test                     everything that CI checks: format, lints, docs, walls, tests, the demo
  bare                     both commands in a bare Debian tree, as root and as a user (needs root)
  setup                    finds or installs what both need (Postgres 15 or later with PostGIS)
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<()> {
    let command = if arguments.is_empty() {
        "help".to_owned()
    } else {
        arguments.remove(0)
    };
    match (command.as_str(), arguments.is_empty()) {
        ("demo", _) => demo::run(&arguments),
        ("test", true) => checks::run(),
        ("bare", true) => bare::run(),
        ("setup", true) => setup::run(),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        _ => bail!("there is no such command\n\n{HELP}"),
    }
}
