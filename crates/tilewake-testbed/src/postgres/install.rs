//! Where the system keeps Postgres: any version that is new enough and has PostGIS.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

/// The oldest release with everything that capture needs (`MERGE`, and multiranges for the ledger).
const OLDEST: u32 = 15;

/// The directory of the newest usable server's programs.
pub(crate) fn programs() -> Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = candidates()
        .into_iter()
        .filter_map(|dir| Some((version(&dir)?, dir)))
        .collect();
    found.sort();
    let newest = found.iter().map(|&(version, _)| version).max();
    if let Some((_, dir)) = found
        .into_iter()
        .rev()
        .find(|(v, dir)| *v >= OLDEST && has_postgis(dir))
    {
        return Ok(dir);
    }
    let install = install_command();
    match newest {
        None => bail!("no Postgres server was found: install one with `{install}`, or set DATABASE_URL"),
        Some(v) if v < OLDEST => {
            bail!(
                "Postgres {v} is too old, {OLDEST} or later is needed: install it with `{install}`, or set DATABASE_URL"
            )
        }
        Some(v) => bail!("Postgres {v} has no PostGIS: install it with `{install}`, or set DATABASE_URL"),
    }
}

/// The one command that brings both.
fn install_command() -> &'static str {
    if cfg!(target_os = "macos") {
        "brew install postgresql@17 postgis"
    } else {
        "sudo apt-get install -y postgresql postgresql-postgis"
    }
}

fn candidates() -> Vec<PathBuf> {
    let parents = ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt", "/usr"];
    let below = parents
        .into_iter()
        .flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten())
        .map(|entry| entry.path().join("bin"));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).collect::<Vec<_>>();
    let configured = ask(Path::new("pg_config"), "--bindir").map(PathBuf::from);
    below
        .chain(on_path)
        .chain(configured)
        .filter(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
        .collect()
}

/// The major version of the server in `dir`, from `postgres (PostgreSQL) 15.18 (Debian …)`.
fn version(dir: &Path) -> Option<u32> {
    let text = ask(&dir.join("postgres"), "--version")?;
    let number = text
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn has_postgis(dir: &Path) -> bool {
    let share = ask(&dir.join("pg_config"), "--sharedir").map(PathBuf::from);
    // Distributions may ship pg_config apart: these are where the server finds its files by itself.
    let relative = ["../share", "../share/postgresql"].map(|r| dir.join(r));
    share
        .into_iter()
        .chain(relative)
        .any(|share| share.join("extension/postgis.control").is_file())
}

fn ask(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
