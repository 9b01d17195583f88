//! One process of ours: its log in a file, its signals, its end.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::net::Net;
use crate::wait::eventually;

/// Lines of a log that an error shows.
const LOG_LINES_SHOWN: usize = 40;

/// Where a program runs.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// On this host's network.
    Here,
    /// As a member of a network of ours.
    Member(&'a Net, usize),
}

/// A child process. Dropping it kills it: nothing outlives a test.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `program`. Its output is appended to `log`, so that a restart keeps what was there.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        log: &Path,
        place: &Place<'_>,
    ) -> anyhow::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = match place {
            Place::Here => command.spawn(),
            Place::Member(net, member) => net.inside(*member, || command.spawn())?,
        };
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended: {status}\n{}", self.name, self.log_end()),
        }
    }

    /// `kill -9`. Returns when it is gone.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM. Answers how it ended.
    ///
    /// # Errors
    /// When it has not ended within `patience`.
    pub async fn terminate(&mut self, patience: Duration) -> anyhow::Result<ExitStatus> {
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let id = id.context("a process without an id")?;
        kill_process(id, Signal::TERM)?;
        let what = format!("the end of {}", self.name);
        eventually(&what, patience, async || Ok(self.child.try_wait()?)).await
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        log_end(&self.log)
    }
}

/// The last lines of a log, for an error.
pub(crate) fn log_end(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.len().saturating_sub(LOG_LINES_SHOWN);
    format!("{}:\n{}", log.display(), lines[begin..].join("\n"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nobody is left to tell.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_daemon_is_asked_to_end_and_its_log_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("demo.log");
        let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
        let shell = Path::new("/bin/sh");
        let mut daemon = Daemon::start("demo", shell, &["-c", script], &log, &Place::Here).unwrap();
        while !daemon.log_end().contains("ready") {
            daemon.must_run().unwrap();
        }
        let ended = daemon.terminate(Duration::from_secs(15)).await.unwrap();
        assert!(ended.success(), "{ended}");
        assert!(daemon.log_end().ends_with("ready\nasked"));
        assert!(daemon.must_run().unwrap_err().to_string().contains("asked"));
    }
}
