//! The command of `var lock`: a process group of its own, with a [`group_leader`].

use std::ffi::OsString;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, spawn_blocking};

use super::group_leader;
use crate::failure::Failure;

/// The program that runs, also where its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A command that runs.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    pid: Pid,
    /// Ends with the group's leader, which stays unreaped: until then nothing else has its number.
    ended: JoinHandle<()>,
}

impl Group {
    /// Starts a command, or a line of the shell.
    ///
    /// # Errors
    /// Where the leader of its group cannot be started. The leader says where there is no such
    /// command.
    pub(super) fn start(words: &[String], shell: bool) -> Result<Self, Failure> {
        let (program, arguments): (OsString, Vec<String>) = match (shell, words) {
            (false, [program, arguments @ ..]) => (program.into(), arguments.to_vec()),
            // As in Nomad: the words are one line of the shell.
            _ => {
                let program = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
                (program, vec!["-c".to_owned(), words.join(" ")])
            }
        };
        let failed = |source: std::io::Error| {
            Failure::usage(format!("cannot start the command {program:?}: {source}"))
        };
        let mut command = Command::new(OWN_PROGRAM);
        command.arg(group_leader::WORD);
        command.arg(getpid().as_raw_pid().to_string());
        command.arg(&program).args(arguments).process_group(0);
        let child = command.spawn();
        let child = child.map_err(failed)?;
        let raw = child.id().and_then(|id| i32::try_from(id).ok());
        let pid = raw
            .and_then(Pid::from_raw)
            .ok_or_else(|| failed(std::io::Error::other("it has no process id")))?;
        let ended = spawn_blocking(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        });
        Ok(Self { child, pid, ended })
    }

    /// Waits for the end of the command. The rest of its group goes on.
    pub(super) async fn ended(&mut self) {
        // A panic there is an end, too: the group is killed.
        let _ = (&mut self.ended).await;
    }

    /// Sends a signal to the whole group. A group that is gone is no error.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Kills whatever is left of the group, and answers how the command ended.
    ///
    /// # Errors
    /// Where its end cannot be read.
    pub(super) async fn finish(mut self) -> Result<ExitStatus, Failure> {
        self.signal(Signal::KILL);
        let status = self.child.wait().await;
        status.map_err(|source| Failure::Host {
            what: "waiting for the command",
            source,
        })
    }
}
