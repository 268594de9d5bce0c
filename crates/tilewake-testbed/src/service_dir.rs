//! The directory of a service that a test or the demo starts, and the promise that both go away again.
//!
//! Three things keep it, each for the case that the one before cannot see: dropping the [`ServiceDir`]; a watching
//! shell that notices the end of our process, however it ends; and the next start, which sweeps what a dead process left
//! behind (the machine may have lost its power). Whether the owner lives is told by a lock on a file, which the kernel
//! frees with the process: no process id is trusted, unless its command line names the directory.
//!
//! It never touches a directory or ends a process that it did not make itself.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::Write,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

/// Held by whoever owns the directory.
const OWNER_FILE: &str = "owner.lock";
/// The ids of the processes to end, separated by blanks.
const PROCESSES_FILE: &str = "processes";
/// How long a process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Reads the ids to end, a line each time they change, and ends them when its input closes.
///
/// SIGINT, because both Postgres and a JVM answer it with a quick orderly end, and neither with a core or a dump.
const WATCH: &str = r#"
pids=
while read -r line; do pids=$line; done
[ -n "$pids" ] && kill -INT $pids 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
  alive=
  for pid in $pids; do kill -0 "$pid" 2>/dev/null && alive=1; done
  [ -z "$alive" ] && break
  sleep 0.2
done
[ -n "$pids" ] && kill -KILL $pids 2>/dev/null
rm -rf -- "$1"
"#;

/// A directory that is removed, with the processes that live in it, when its owner is gone.
pub struct ServiceDir {
    path: PathBuf,
    processes: Vec<u32>,
    watcher: Child,
    _owner: File,
}

impl ServiceDir {
    /// Makes an empty directory for a service of this kind, after sweeping what dead processes left behind.
    ///
    /// `reachable` says whether the service can work in a given place: it may run as another user.
    pub fn create(kind: &str, reachable: impl Fn(&Path) -> bool) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let home = home(reachable)?;
        // Nobody may sweep between the making of a directory and the locking of its owner file.
        let gate = open(&home.join("gate.lock"))?;
        gate.lock().context("could not lock the directory of the services")?;
        sweep(&home);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = home.join(format!("{kind}-{}-{count}", std::process::id()));
        DirBuilder::new()
            .mode(0o755)
            .create(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        let owner = open(&path.join(OWNER_FILE))?;
        owner.lock().context("could not lock the new service's directory")?;
        Ok(Self {
            watcher: watcher(&path)?,
            path,
            processes: Vec::new(),
            _owner: owner,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Promises to end this process, whose command line must name the directory.
    pub fn adopt(&mut self, process: u32) -> Result<()> {
        self.processes.push(process);
        self.tell()
    }

    /// Forgets a process that has ended, before another can get its id.
    pub fn forget(&mut self, process: u32) -> Result<()> {
        self.processes.retain(|&p| p != process);
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        let line = self.processes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        fs::write(self.path.join(PROCESSES_FILE), &line)?;
        let input = self.watcher.stdin.as_mut().context("the watching shell has no input")?;
        writeln!(input, "{line}").context("could not reach the watching shell")
    }
}

impl Drop for ServiceDir {
    fn drop(&mut self) {
        // The watcher ends what is left and removes the directory, here as after a crash: one path, always tried.
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// The directory above all services of this user, in the first place that will do.
fn home(reachable: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let user = geteuid().as_raw();
    let mut refusals = Vec::new();
    for place in [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()] {
        let home = place.join(format!("tilewake-services-{user}"));
        match own(&home, user) {
            Ok(()) if reachable(&home) => return Ok(home),
            Ok(()) => refusals.push(format!("{} cannot be reached by the service's user", home.display())),
            Err(error) => refusals.push(format!("{error:#}")),
        }
    }
    anyhow::bail!("found no place for a service's files: {}", refusals.join("; "))
}

/// Makes `home`, or makes sure that it is ours: in a shared place another user may have been there first.
fn own(home: &Path, user: u32) -> Result<()> {
    let made = DirBuilder::new().mode(0o755).recursive(true).create(home);
    made.with_context(|| format!("could not create {}", home.display()))?;
    let metadata = fs::symlink_metadata(home)?;
    ensure!(
        metadata.is_dir() && metadata.uid() == user,
        "{} belongs to somebody else",
        home.display()
    );
    Ok(())
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file.with_context(|| format!("could not open {}", path.display()))
}

/// Starts the shell that outlives us. In a process group of its own, or a Ctrl-C would end it with us.
fn watcher(path: &Path) -> Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", WATCH, "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
        .context("could not start /bin/sh")
}

/// Removes the directories whose owners are dead.
fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let path = entry.path();
        // A directory without the file is not one of ours, or not yet: making one happens behind the gate.
        let Ok(owner) = OpenOptions::new().write(true).open(path.join(OWNER_FILE)) else {
            continue;
        };
        if owner.try_lock().is_ok() {
            end_processes(&path);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Ends the recorded processes of a dead owner, if their command lines still name the directory.
fn end_processes(path: &Path) {
    let recorded = fs::read_to_string(path.join(PROCESSES_FILE)).unwrap_or_default();
    let processes = recorded.split_whitespace().filter_map(|p| p.parse().ok());
    for process in processes.filter(|&p| command_names(p, path)) {
        signal(process, Signal::INT);
        if !wait_until_gone(process, GRACE) && command_names(process, path) {
            signal(process, Signal::KILL);
            wait_until_gone(process, GRACE);
        }
    }
}

fn command_names(process: u32, path: &Path) -> bool {
    let command = fs::read(format!("/proc/{process}/cmdline")).or_else(|_| {
        let ps = Command::new("ps")
            .args(["-o", "command=", "-p", &process.to_string()])
            .output();
        ps.map(|output| output.stdout)
    });
    command.is_ok_and(|command| String::from_utf8_lossy(&command).contains(&*path.to_string_lossy()))
}

/// Sends a signal to a process that we know to be ours.
pub(crate) fn signal(process: u32, signal: Signal) {
    if let Some(pid) = pid(process) {
        // It may have ended by itself: that is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

/// Waits for the end of a process that is not a child of ours; whether it came in time.
pub(crate) fn wait_until_gone(process: u32, at_most: Duration) -> bool {
    let start = Instant::now();
    while is_alive(process) {
        if start.elapsed() > at_most {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Whether a process runs. A zombie does not: nobody may be there to reap it in a container.
fn is_alive(process: u32) -> bool {
    let zombie = fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    !zombie && pid(process).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A process that starts while another test drops its lock holds a copy of it for a moment.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A process whose command line names `path`, until its input closes.
    fn sleeper(path: &Path) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read -r _", "sh"]).arg(path).stdin(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn dropping_it_ends_its_processes_and_removes_it() {
        let _guard = ONE_AT_A_TIME.lock().unwrap();
        let mut dir = ServiceDir::create("testing", |_| true).unwrap();
        let path = dir.path().to_owned();
        let mut child = sleeper(&path);
        let input = child.stdin.take();
        dir.adopt(child.id()).unwrap();
        let reaper = thread::spawn(move || child.wait().unwrap());
        drop(dir);
        assert!(!path.exists());
        assert!(!reaper.join().unwrap().success());
        drop(input);
    }

    #[test]
    fn the_next_start_sweeps_what_a_dead_owner_left_and_nothing_else() {
        let _guard = ONE_AT_A_TIME.lock().unwrap();
        let mut abandoned = ServiceDir::create("testing", |_| true).unwrap();
        let living = ServiceDir::create("testing", |_| true).unwrap();
        let path = abandoned.path().to_owned();
        let mut child = sleeper(&path);
        let mut stranger = sleeper(Path::new("/elsewhere"));
        abandoned.adopt(child.id()).unwrap();
        abandoned.adopt(stranger.id()).unwrap();
        // The owner dies, and the watcher with it.
        signal(abandoned.watcher.id(), Signal::KILL);
        abandoned.watcher.wait().unwrap();
        drop(abandoned);
        assert!(path.exists());

        let next = ServiceDir::create("testing", |_| true).unwrap();

        assert!(!path.exists());
        assert!(living.path().exists());
        assert!(next.path().exists());
        assert!(!child.wait().unwrap().success());
        assert!(
            stranger.try_wait().unwrap().is_none(),
            "a process of somebody else was ended"
        );
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
