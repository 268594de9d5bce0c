//! A private Postgres cluster: made from the system's binaries, alone on a free loopback port, gone with its owner.
//!
//! `PostGIS` is installed in its `template1`, so that every new database has it. It answers only to 127.0.0.1, where it
//! trusts everybody: it holds nothing but test data, for as long as a test runs.

use std::{
    fs::{self, File},
    io::Write,
    net::{Ipv4Addr, TcpListener},
    os::unix::{
        fs::chown,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, geteuid};

use super::install;
use crate::service_dir::{ServiceDir, signal, wait_until_gone};

/// How long the server may take to accept connections; recovery after a crash is part of it.
const START_BOUND: Duration = Duration::from_mins(1);

/// What a cluster has unless the test asks for something else.
const SETTINGS: &[(&str, &str)] = &[
    ("max_connections", "300"),
    // A killed server keeps what it has written: only the machine's own crash would need the disk.
    ("fsync", "off"),
    ("log_min_messages", "warning"),
];

pub(crate) struct Cluster {
    // Before `dir`: its process ends first.
    child: Option<Child>,
    port: u16,
    programs: PathBuf,
    settings: Vec<(String, String)>,
    user: Option<User>,
    dir: ServiceDir,
}

/// Whom Postgres runs as when we are root, which it refuses to be.
#[derive(Clone, Debug)]
struct User {
    id: u32,
    group: u32,
}

impl Cluster {
    /// Makes and starts one.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Result<Self> {
        let programs = install::programs()?;
        let user = user()?;
        let dir = ServiceDir::create("postgres", |place| is_reachable(user.as_ref(), place))?;
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut cluster = Self {
            child: None,
            port: 0,
            programs,
            settings: SETTINGS.iter().chain(settings).map(own).collect(),
            user,
            dir,
        };
        cluster.initialise()?;
        cluster.launch_somewhere()?;
        Ok(cluster)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends every process of the server at once, as a crash of the machine would.
    pub(crate) fn kill_9(&mut self) -> Result<()> {
        let mut postmaster = self.child.take().context("the server does not run")?;
        // A stopped postmaster starts no further process while we collect the ones that there are.
        signal(postmaster.id(), Signal::STOP);
        let processes = children(postmaster.id())?;
        for process in &processes {
            signal(*process, Signal::KILL);
        }
        postmaster.kill()?;
        postmaster.wait()?;
        self.dir.forget(postmaster.id())?;
        let survivor = processes
            .into_iter()
            .find(|&p| !wait_until_gone(p, Duration::from_secs(5)));
        ensure!(survivor.is_none(), "a killed server process lives on");
        Ok(())
    }

    /// Starts the server again, at the same address; after a crash this replays what had been written.
    pub(crate) fn restart(&mut self) -> Result<()> {
        if let Some(postmaster) = self.child.take() {
            self.end(postmaster, Signal::INT)?;
        }
        self.launch(self.port)
    }

    fn end(&mut self, mut postmaster: Child, how: Signal) -> Result<()> {
        signal(postmaster.id(), how);
        postmaster.wait()?;
        self.dir.forget(postmaster.id())
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        if let Some(user) = &self.user {
            command.uid(user.id).gid(user.group);
        }
        // The server must not follow our own connection settings, nor write files that only our locale can read.
        for variable in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGOPTIONS", "LC_ALL", "LANG"] {
            command.env_remove(variable);
        }
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    fn initialise(&self) -> Result<()> {
        let data = self.data();
        fs::create_dir(&data)?;
        if let Some(user) = &self.user {
            chown(&data, Some(user.id), Some(user.group))?;
        }
        let mut initdb = self.program("initdb");
        initdb
            .arg("--pgdata")
            .arg(&data)
            .args(["--username=postgres", "--auth=trust", "--no-sync"]);
        initdb.args(["--encoding=UTF8", "--locale=C"]);
        let output = initdb.output().context("could not run initdb")?;
        ensure!(
            output.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        self.install_postgis()
    }

    /// In single-user mode, before anybody can connect. The mode ends well whatever happens, so the answer is read.
    fn install_postgis(&self) -> Result<()> {
        let mut single = self.program("postgres");
        single
            .arg("--single")
            .arg("-D")
            .arg(self.data())
            .args(["-c", "fsync=off", "template1"]);
        single
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = single.spawn().context("could not run postgres")?;
        let input = child.stdin.take().context("postgres has no input")?;
        { input }.write_all(b"CREATE EXTENSION postgis\nSELECT extname FROM pg_extension\n")?;
        let output = child.wait_with_output()?;
        ensure!(
            String::from_utf8_lossy(&output.stdout).contains("extname = \"postgis\""),
            "could not install PostGIS in the new cluster: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// Somebody else may take a free port before the server does: another is tried then.
    fn launch_somewhere(&mut self) -> Result<()> {
        const TRIES: usize = 5;
        let mut last = None;
        for _ in 0..TRIES {
            let port = free_port()?;
            match self.launch(port) {
                Ok(()) => return Ok(()),
                Err(error) if self.log_tail().contains("could not bind") => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("found no free port for Postgres")))
    }

    fn launch(&mut self, port: u16) -> Result<()> {
        let log = File::create(self.log())?;
        let mut server = self.program("postgres");
        server
            .arg("-D")
            .arg(self.data())
            .args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
        server.args(["-c", "unix_socket_directories="]);
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        // Not in our process group: a Ctrl-C is for us to handle.
        server.process_group(0).stdout(log.try_clone()?).stderr(log);
        let mut child = server.spawn().context("could not start postgres")?;
        self.dir.adopt(child.id())?;
        self.port = port;
        let started = self.wait_until_ready(&mut child);
        if started.is_err() {
            self.end(child, Signal::QUIT)?;
        } else {
            self.child = Some(child);
        }
        started
    }

    /// The server says in its pid file when it is ready: asking over the network would need a client.
    fn wait_until_ready(&self, child: &mut Child) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_BOUND {
            if let Some(status) = child.try_wait()? {
                let how = status
                    .signal()
                    .map_or_else(|| status.to_string(), |s| format!("signal {s}"));
                bail!("Postgres ended while it started ({how}): {}", self.log_tail());
            }
            if is_ready(&self.data().join("postmaster.pid"), child.id()) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("Postgres was not ready within {START_BOUND:?}: {}", self.log_tail())
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(postmaster) = self.child.take() {
            // Nobody needs the data: end at once, without a last checkpoint.
            let _ = self.end(postmaster, Signal::QUIT);
        }
    }
}

fn user() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("could not read /etc/passwd")?;
    let found = ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| find_user(&users, name));
    let found =
        found.context("Postgres refuses to run as root, and there is no user postgres or nobody to run it as")?;
    Ok(Some(found))
}

fn find_user(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let id = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(User { id, group })
}

/// Whether the server's user can get to a place. Asked of the system: modes are only half of the answer.
fn is_reachable(user: Option<&User>, place: &Path) -> bool {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "cd \"$1\"", "sh"])
        .arg(place)
        .current_dir("/")
        .stderr(Stdio::null());
    if let Some(user) = user {
        command.uid(user.id).gid(user.group);
    }
    command.status().is_ok_and(|status| status.success())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("found no free port")?;
    Ok(listener.local_addr()?.port())
}

/// The first line of the pid file is the postmaster, the eighth its state.
fn is_ready(pid_file: &Path, postmaster: u32) -> bool {
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    let mut lines = text.lines();
    let of_this_start = lines.next().is_some_and(|line| line.trim() == postmaster.to_string());
    of_this_start && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

/// The children of a process, from Linux' `/proc`.
fn children(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").context("crash tests need /proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // `pid (name) state parent …`, and a name may hold anything.
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(1);
        if fields.next().and_then(|field| field.parse().ok()) == Some(parent) {
            children.push(process);
        }
    }
    Ok(children)
}
