//! `cargo xtask test`: everything that must hold before a change lands, cheapest first.
//!
//! What the machine lacks is skipped with a word, unless `TILEWAKE_REQUIRE` names it: then lacking it is a failure, or it
//! is installed.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};

use crate::{
    bare, demo, setup,
    step::{self, Steps, cargo},
    wall,
};

/// Runs them all.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    let done = all(&mut steps);
    steps.summarise();
    done
}

fn all(steps: &mut Steps) -> Result<()> {
    steps.step("set-up", setup::run)?;
    steps.step("format", || step::run(&mut cargo(&["fmt", "--all", "--check"])))?;
    steps.step("wall", wall::check)?;
    steps.step("licences, bans and sources", deny)?;
    steps.step("lints", lints)?;
    steps.step("docs", docs)?;
    steps.step("build of the tests", || {
        step::run(&mut cargo(&["test", "--locked", "--workspace", "--no-run", "--quiet"]))
    })?;
    steps.step("tests", || {
        step::run(&mut cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]))
    })?;
    steps.step("build of the demo", demo::build)?;
    steps.step("demo", || {
        step::run(Command::new(demo::program()?).args(["--once", "--json"]))
    })?;
    for weakness in ["--disable-purger", "--disable-fence"] {
        steps.step(weakness, || must_be_noticed(weakness))?;
    }
    if is_required("bare") {
        bare::prove(steps)?;
    }
    Ok(())
}

fn lints() -> Result<()> {
    step::run(&mut cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ]))
}

fn docs() -> Result<()> {
    let mut docs = cargo(&[
        "doc",
        "--locked",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    step::run(docs.env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// The demo with a part of tilewake switched off must find stale tiles: it would be worth nothing if it did not.
fn must_be_noticed(weakness: &str) -> Result<()> {
    const FOUND_WANTING: i32 = 3;
    let mut demo = Command::new(demo::program()?);
    let output = demo
        .args(["--once", "--json", weakness])
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let found_stale = said
        .lines()
        .last()
        .is_some_and(|found| !found.contains("\"stale_tiles\":0,"));
    ensure!(
        output.status.code() == Some(FOUND_WANTING) && found_stale,
        "the demo did not find stale tiles, and ended with {}:\n{said}",
        output.status
    );
    eprintln!("noticed, as it must be");
    Ok(())
}

fn deny() -> Result<()> {
    let Some(program) = deny_program()? else {
        eprintln!("skipped: there is no cargo-deny (`cargo install --locked cargo-deny` brings it)");
        return Ok(());
    };
    step::run(Command::new(program).args(["deny", "--locked", "check", "licenses", "bans", "sources"]))
}

/// The installed one, or our own where it is required: built once into the target directory, nothing else is touched.
fn deny_program() -> Result<Option<PathBuf>> {
    let answers = |program: &str| step::output(Command::new(program).arg("--version")).is_ok();
    if answers("cargo-deny") {
        return Ok(Some("cargo-deny".into()));
    }
    let tools = std::env::current_exe()?.with_file_name("tools");
    let own = tools.join("bin/cargo-deny");
    if !own.exists() {
        if !is_required("deny") {
            return Ok(None);
        }
        // Unoptimised, for it is used once: two minutes instead of four.
        let mut install = cargo(&["install", "--debug", "--locked", "--quiet", "cargo-deny", "--root"]);
        step::run(install.arg(&tools).env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
    }
    Ok(Some(own))
}

fn is_required(what: &str) -> bool {
    let required = std::env::var("TILEWAKE_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word.trim() == what)
}
