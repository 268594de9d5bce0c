//! Finds what the demo and the tests need, and installs it where that can be done without asking anybody.
//!
//! It never makes or starts a system-wide Postgres cluster, and never asks for a password.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::step;

// The very file by which the testbed finds the server. Not its crate: that would compile for a minute before the first
// word appears.
#[path = "../../crates/tilewake-testbed/src/postgres/install.rs"]
mod install;

/// Debian would make and start a cluster of its own; the file says not to, and is left alone where it exists.
const INSTALL: &str = r#"
set -e
conf=/etc/postgresql-common/createcluster.conf
if [ ! -e "$conf" ]; then
  mkdir -p "${conf%/*}"
  echo 'create_main_cluster = false' > "$conf"
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends postgresql postgresql-postgis; }
install || { apt-get update -qq && install; }
"#;

/// Makes sure that Postgres with `PostGIS` is there.
pub(crate) fn run() -> Result<()> {
    if std::env::var_os("DATABASE_URL").is_some() {
        eprintln!("using the Postgres that DATABASE_URL names");
        return Ok(());
    }
    let Err(missing) = install::programs().map(|programs| eprintln!("found Postgres in {}", programs.display())) else {
        return Ok(());
    };
    let Some(mut installer) = installer() else {
        return Err(missing);
    };
    eprintln!("installing Postgres and PostGIS with apt-get, without a system-wide cluster ({missing})");
    step::run(installer.args(["sh", "-c", INSTALL]).stdin(Stdio::null())).with_context(|| missing.to_string())?;
    match install::programs() {
        Ok(programs) => eprintln!("found Postgres in {}", programs.display()),
        Err(still_missing) => bail!("apt-get installed something else than what is needed: {still_missing}"),
    }
    Ok(())
}

/// Makes sure that a program is there whose package is called like it.
pub(crate) fn install_program(name: &str) -> Result<()> {
    if step::output(Command::new(name).arg("--version")).is_ok() {
        return Ok(());
    }
    let mut installer = installer().with_context(|| format!("{name} is missing, and cannot be installed from here"))?;
    let install = format!("apt-get install -y -qq --no-install-recommends {name}");
    let script = format!("export DEBIAN_FRONTEND=noninteractive; {install} || {{ apt-get update -qq && {install}; }}");
    step::run(installer.args(["sh", "-c", &script]).stdin(Stdio::null()))
}

pub(crate) fn is_root() -> bool {
    step::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// What runs a command as root, if anything does without a question.
fn installer() -> Option<Command> {
    let runs = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs(&["apt-get", "--version"]) {
        return None;
    }
    if is_root() {
        return Some(Command::new("env"));
    }
    runs(&["sudo", "-n", "true"]).then(|| {
        let mut sudo = Command::new("sudo");
        sudo.arg("-n");
        sudo
    })
}
