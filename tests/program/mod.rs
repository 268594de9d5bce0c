//! The built binary in processes of its own: started, spoken to over HTTP, frozen, stopped and killed.

#![allow(dead_code, reason = "every test takes what it needs")]

use std::{
    fs::{self, OpenOptions},
    net::SocketAddr,
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};

use hyper::{StatusCode, body::Bytes};
use rustix::process::{Pid, Signal, kill_process};
use tilewake_testbed::{http::Client, service_dir::ServiceDir};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// No test waits longer than this for a process.
const PATIENCE: Duration = Duration::from_secs(40);

/// The `tilewake` that belongs to these tests, told nothing by the environment.
pub(crate) fn tilewake() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewake"));
    let variables = std::env::vars_os().map(|(name, _)| name);
    for name in variables.filter(|name| name.to_string_lossy().starts_with("TILEWAKE_")) {
        command.env_remove(name);
    }
    command
        .env_remove("DATABASE_URL")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command that ends by itself.
pub(crate) async fn output(command: &mut Command) -> Output {
    timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

/// A `tilewake run`, started as often as the test likes; its log goes on through all of its lives.
pub(crate) struct Program {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    life: Option<Life>,
    // Ends the process when this one dies, however it dies.
    dir: ServiceDir,
}

struct Life {
    process: Child,
    address: SocketAddr,
}

impl Program {
    /// One that is not yet started; `settings` are lines of its configuration file.
    pub(crate) fn new(database_url: &str, settings: &str, arguments: &[&str]) -> Self {
        let dir = ServiceDir::create("tilewake", |_| true).unwrap();
        let text = format!("database_url = {database_url:?}\nlisten = \"127.0.0.1:0\"\n{settings}\n");
        fs::write(dir.path().join("tilewake.toml"), text).unwrap();
        Self {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            variables: Vec::new(),
            life: None,
            dir,
        }
    }

    /// With variables in its environment.
    pub(crate) fn with(mut self, variables: &[(&str, &str)]) -> Self {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.variables.extend(owned);
        self
    }

    /// Starts it and waits until it serves.
    pub(crate) async fn start(&mut self) -> SocketAddr {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let mut command = tilewake();
        command
            .arg("run")
            .arg("--config")
            .arg(self.dir.path().join("tilewake.toml"))
            .args(&self.arguments)
            .envs(self.variables.iter().cloned());
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        self.dir.adopt(process.id().unwrap()).unwrap();
        let Ok(Some(address)) = timeout(PATIENCE, address(&mut process)).await else {
            panic!("tilewake did not serve: {}", self.log())
        };
        self.life = Some(Life { process, address });
        address
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.life.as_ref().unwrap().address
    }

    /// Asks it for something; the status and the whole body.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Bytes) {
        Client::connect(self.address()).await.unwrap().get(path).await.unwrap()
    }

    /// Stops it where it is, as a machine does that swaps or is moved.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it where it is.
    pub(crate) async fn kill(&mut self) {
        self.end(Signal::KILL).await;
    }

    /// Asks it to end.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.end(Signal::TERM).await
    }

    async fn end(&mut self, how: Signal) -> ExitStatus {
        self.signal(how);
        let mut life = self.life.take().unwrap();
        let id = life.process.id().unwrap();
        let status = timeout(PATIENCE, life.process.wait()).await.unwrap().unwrap();
        self.dir.forget(id).unwrap();
        status
    }

    fn signal(&self, signal: Signal) {
        let id = self.life.as_ref().and_then(|life| life.process.id()).unwrap();
        let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
}

/// Reads what it prints once it serves; `None` if it ends before.
async fn address(process: &mut Child) -> Option<SocketAddr> {
    let mut lines = BufReader::new(process.stdout.take()?).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = line.strip_prefix("listening on http://") {
            return address.trim().parse().ok();
        }
    }
    None
}
