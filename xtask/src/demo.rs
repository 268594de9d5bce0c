//! Builds the demo and becomes it.

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::{
    setup,
    step::{self, cargo},
};

/// Does the set-up, then runs the demo in place of this process, so that signals and the exit code are its own.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::run()?;
    build()?;
    let error = Command::new(program()?).args(arguments).exec();
    Err(error).context("could not start the demo")
}

/// Builds the demo and the program it shows.
pub(crate) fn build() -> Result<()> {
    eprintln!("building tilewake and its demo (some minutes the first time)");
    step::run(&mut cargo(&[
        "build",
        "--locked",
        "--package",
        "tilewake",
        "--package",
        "tilewake-testbed",
        "--bins",
    ]))
}

/// Where the built demo is: cargo put us into the same directory.
pub(crate) fn program() -> Result<PathBuf> {
    let ours = std::env::current_exe().context("could not find the directory of built programs")?;
    Ok(ours.with_file_name("demo"))
}
