//! Daemons and runtime directories that vanish with their test, and what tests ask them.

mod cgroup;
mod conversation;

pub(crate) use cgroup::TestCgroup;
pub(crate) use conversation::Conversation;

use noded_keeper::client::Connection;
use noded_keeper::io::{LogLimits, TaskStreams, create_streams, streams_are_gone};
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{AllocAndTask, SpawnRequest, StdioSource, TaskKey};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far longer than anything here takes; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Polls a condition that no descriptor announces (files that another process writes).
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Where tasks can be run; `None`, with a line that says so, where the test cannot have that.
pub(crate) fn place() -> Option<(TestCgroup, Scene)> {
    let cgroups = TestCgroup::new()?;
    Some((cgroups, Scene::new()))
}

/// A runtime directory and a log directory beside it.
pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    pub(crate) paths: RuntimePaths,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("drover-test-")
            .tempdir()
            .unwrap();
        let paths = RuntimePaths::new(directory.path().join("run"));
        paths.create().unwrap();
        fs::create_dir(directory.path().join("logs")).unwrap();
        Self { directory, paths }
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.directory.path().join("logs")
    }

    pub(crate) fn streams(&self, owner: &AllocAndTask, limits: LogLimits) -> TaskStreams {
        self.streams_of(&key(owner.alloc(), owner.task(), 1), limits)
    }

    pub(crate) fn streams_of(&self, run: &TaskKey, limits: LogLimits) -> TaskStreams {
        let base = self.directory.path();
        create_streams(&self.paths, run, base, Path::new("logs"), limits).unwrap()
    }

    pub(crate) fn pump(&self, engine: &str) -> Daemon {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noded-keeper"));
        command
            .args(["pump", "--engine", engine, "--runtime-dir"])
            .arg(self.paths.root());
        Daemon::start(command)
    }

    pub(crate) fn keeper(&self, cgroups: &TestCgroup) -> Daemon {
        self.keeper_with(cgroups, &[])
    }

    /// A keeper and its client.
    pub(crate) fn serve(&self, cgroups: &TestCgroup) -> (Daemon, Connection) {
        let keeper = self.keeper(cgroups);
        (keeper, self.connect())
    }

    pub(crate) fn keeper_with(&self, cgroups: &TestCgroup, more: &[&str]) -> Daemon {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noded-keeper"));
        command
            .args(["keeper", "--runtime-dir"])
            .arg(self.paths.root());
        command.arg("--cgroup-base").arg(&cgroups.path).args(more);
        Daemon::start(command)
    }

    pub(crate) fn connect(&self) -> Connection {
        let mut connection = None;
        wait_until("keeper listens", || {
            connection = Connection::connect(&self.paths).ok();
            connection.is_some()
        });
        connection.unwrap()
    }

    pub(crate) fn wait_drained(&self, owner: &AllocAndTask) {
        wait_until("pump has drained the streams", || {
            streams_are_gone(&self.paths, owner).unwrap()
        });
    }

    /// The stream's log files, oldest first.
    pub(crate) fn log_files(&self, prefix: &str) -> Vec<(u64, Vec<u8>)> {
        log_files(&self.logs(), prefix)
    }

    pub(crate) fn log(&self, prefix: &str) -> Vec<u8> {
        self.log_files(prefix)
            .into_iter()
            .flat_map(|(_, bytes)| bytes)
            .collect()
    }
}

pub(crate) fn log_files(directory: &Path, prefix: &str) -> Vec<(u64, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let number = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix('.'));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            match fs::read(&path) {
                Ok(bytes) => files.push((number, bytes)),
                // The pump has put it away since it was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
    files.sort();
    files
}

/// A child that is killed when the test ends, however it ends.
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    fn start(mut command: Command) -> Self {
        Self {
            child: command.stdin(Stdio::null()).spawn().unwrap(),
        }
    }

    /// kill -9, and gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn terminate(self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.wait().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn key(alloc: &str, task: &str, run_epoch: u64) -> TaskKey {
    TaskKey::new(alloc, task, run_epoch).unwrap()
}

/// A task that is the host's shell with this script.
pub(crate) fn shell(script: &str) -> isolation::SandboxSpec {
    let root = PathBuf::from("/");
    let layout = isolation::TaskLayout {
        shared: root.clone(),
        task: root,
    };
    let mut spec = isolation::SandboxSpec::raw_exec(layout, "/bin/sh");
    spec.args = vec!["-c".into(), script.into()];
    spec.env.insert("PATH".into(), "/usr/bin:/bin".into());
    spec
}

/// A script that ends when the file appears.
pub(crate) fn exits_when(go: &Path, code: i32) -> String {
    let go = go.display();
    format!("while [ ! -e {go} ]; do sleep 0.02; done; exit {code}")
}

/// A script that does not hear SIGTERM, once the file is there.
pub(crate) fn ignores_term(ready: &Path) -> String {
    let ready = ready.display();
    format!("trap '' TERM; : > {ready}; while :; do sleep 0.05; done")
}

pub(crate) fn request(key: &TaskKey, cgroup: &str) -> SpawnRequest {
    SpawnRequest {
        key: key.clone(),
        cgroup: cgroup.to_owned(),
        stdin: StdioSource::Null,
        stdout: StdioSource::Null,
        stderr: StdioSource::Null,
        network: None,
        target: None,
        start_timeout_ms: 10_000,
    }
}
