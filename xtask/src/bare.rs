//! `cargo xtask bare`: proves the README's two commands on a machine that has nothing but what the README asks for.
//!
//! The machine is a Debian tree of its own, entered with chroot, in which Rust's toolchain and the downloaded crates are
//! bound in, readable only. Everything else is made there: the checkout, the build, the installed Postgres. Mounts and
//! processes are in namespaces that end with this process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    setup,
    step::{self, Steps, cargo},
};

/// What the README asks for, besides Rust.
const PREREQUISITES: &str = "ca-certificates,gcc,libc6-dev,git";

/// An ordinary user, who may not install anything.
const USER: &str = "mapper";

/// Mounts what comes from outside, then runs `$4` as `$3` in the checkout of the tree `$1`, whose crates are in `$2`.
const ENTER: &str = r#"
tree=$1 crates=$2 user=$3 command=$4 rust=$5
bind() { mount --bind "$1" "$2" && mount -o remount,bind,ro "$2"; }
bind "$rust" "$tree/rust"
bind "$crates" "$tree/cargo/registry"
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
home=/home/$user
[ "$user" = root ] && home=/root
exec chroot --userspec="$user:$user" "$tree" /usr/bin/env -i PATH=/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME="$home" CARGO_HOME=/cargo CARGO_NET_OFFLINE=true LANG=C.UTF-8 /bin/sh -c "cd /tilewake && $command"
"#;

/// Makes the tree and runs both commands in it, as root and as an ordinary user.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    let done = prove(&mut steps);
    steps.summarise();
    done
}

/// The same, as steps among others.
pub(crate) fn prove(steps: &mut Steps) -> Result<()> {
    ensure!(setup::is_root(), "only root can make a Debian tree and enter it");
    let mut tree = None;
    steps.step("a bare Debian", || {
        tree = Some(Tree::make()?);
        Ok(())
    })?;
    let tree = tree.context("there is no tree")?;
    steps.step("a user without Postgres is told the one command", || {
        let said = tree.enter(USER, "cargo xtask demo --once").output()?;
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        ensure!(!said.status.success(), "there is a Postgres in the bare tree already");
        ensure!(
            words.contains("apt-get install"),
            "the user is not told what to install: {words}"
        );
        Ok(())
    })?;
    steps.step("demo as root", || {
        step::run(&mut tree.enter("root", "cargo xtask demo --once --json"))
    })?;
    steps.step("test as root", || {
        step::run(&mut tree.enter("root", "cargo xtask test"))
    })?;
    tree.give_to_user()?;
    steps.step("demo as a user", || {
        step::run(&mut tree.enter(USER, "cargo xtask demo --once --json"))
    })?;
    steps.step("test as a user", || {
        step::run(&mut tree.enter(USER, "cargo xtask test"))
    })
}

struct Tree {
    path: PathBuf,
    crates: PathBuf,
    rust: PathBuf,
}

impl Tree {
    /// Makes it anew.
    fn make() -> Result<Self> {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask stands nowhere")?;
        let path = std::env::current_exe()?.with_file_name("bare");
        if path.exists() {
            fs::remove_dir_all(&path).context("could not remove the tree of an earlier run")?;
        }
        setup::install_program("debootstrap")?;
        let include = format!("--include={PREREQUISITES}");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", &include])
            .arg(codename()?)
            .arg(&path);
        // It says a line for every package.
        step::output(&mut debootstrap)?;
        let tree = Self {
            crates: crates()?,
            rust: rust()?,
            path,
        };
        for dir in ["rust", "cargo/registry"] {
            fs::create_dir_all(tree.path.join(dir))?;
        }
        fs::copy("/etc/resolv.conf", tree.path.join("etc/resolv.conf"))?;
        step::run(
            Command::new("chroot")
                .arg(&tree.path)
                .args(["useradd", "--create-home", USER]),
        )?;
        step::run(
            Command::new("git")
                .args(["clone", "--quiet"])
                .arg(checkout)
                .arg(tree.path.join("tilewake")),
        )?;
        tree.give_to_user()?;
        Ok(tree)
    }

    /// A command in the checkout.
    fn enter(&self, user: &str, command: &str) -> Command {
        let mut enter = Command::new("unshare");
        enter.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", ENTER, "sh"]);
        enter
            .arg(&self.path)
            .arg(&self.crates)
            .args([user, command])
            .arg(&self.rust);
        enter
    }

    /// Hands the checkout over, with everything that was built in it: to build all of it twice would prove nothing more.
    fn give_to_user(&self) -> Result<()> {
        let owner = format!("{USER}:{USER}");
        step::run(
            Command::new("chroot")
                .arg(&self.path)
                .args(["chown", "-R", &owner, "/tilewake", "/cargo"]),
        )
    }
}

/// The release of this machine, so that nothing is newer there than here.
fn codename() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("this is no Debian")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("this Debian has no code name")?.to_owned())
}

/// The toolchain that builds us.
fn rust() -> Result<PathBuf> {
    let sysroot = step::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(sysroot.trim().into())
}

/// The crates that were downloaded, all of them.
fn crates() -> Result<PathBuf> {
    step::output(&mut cargo(&["fetch", "--locked", "--quiet"]))?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    Ok(home.context("cargo has no home")?.join("registry"))
}
