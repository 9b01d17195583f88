//! One child: killed and reaped in any case.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use isolation::Spawned;
use noded_jail::Verb;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_send_signal, waitid,
};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use super::{JailError, Turn};
use crate::poll_fd::poll;

/// Our ends of a child's pipes.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) request: OwnedFd,
    pub(super) answer: OwnedFd,
    pub(super) messages: OwnedFd,
}

/// A child with its pipes. When it is dropped the process is killed, with those that it started.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) verb: Verb,
    /// Its closing tells the child that noded is gone.
    pub(super) request: pipe::Sender,
    pub(super) answer: pipe::Receiver,
    pub(super) messages: pipe::Receiver,
    /// The report of its birth.
    pub(super) report: OwnedFd,
    process: Arc<Process>,
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
}

impl Child {
    pub(super) fn new(
        verb: Verb,
        spawned: Spawned,
        ends: Ends,
        turn: Turn,
    ) -> Result<Self, JailError> {
        let pipes = pipes(ends);
        let pidfd = match spawned.pidfd.try_clone().and_then(poll) {
            Ok(pidfd) if pipes.is_ok() => pidfd,
            pidfd => {
                end(&spawned.pidfd);
                return Err(JailError::Pipe(match (pidfd, pipes) {
                    (Err(error), _) | (_, Err(error)) => error,
                    (Ok(_), Ok(_)) => Errno::IO.into(),
                }));
            }
        };
        let (request, answer, messages) = pipes.map_err(JailError::Pipe)?;
        let process = Arc::new(Process {
            pid: spawned.pid,
            pidfd,
        });
        Ok(Self {
            verb,
            request,
            answer,
            messages,
            report: spawned.report,
            process,
            turn: Some(turn),
        })
    }

    /// Waits until it has ended by itself. It is still to be reaped.
    pub(super) async fn ended(&self) -> Option<WaitIdStatus> {
        let _readable = self.process.pidfd.readable().await;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pidfd = self.process.pidfd.get_ref().as_fd();
        waitid(WaitId::PidFd(pidfd), options).ok().flatten()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
        let process = Arc::clone(&self.process);
        let turn = self.turn.take();
        // A killed process may take a while to go: until then it counts.
        tokio::spawn(async move {
            let _readable = process.pidfd.readable().await;
            reap(process.pidfd.get_ref());
            drop(turn);
        });
    }
}

impl Process {
    fn kill(&self) {
        // It is not reaped yet, so the number is still its own; it leads a session.
        let _gone = kill_process_group(self.pid, Signal::KILL);
        let _gone = pidfd_send_signal(self.pidfd.get_ref(), Signal::KILL);
    }
}

/// Kills a child and waits for its end. Blocks.
pub(super) fn end(pidfd: &OwnedFd) {
    let _gone = pidfd_send_signal(pidfd, Signal::KILL);
    reap(pidfd);
}

fn reap(pidfd: &OwnedFd) {
    loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Err(Errno::INTR) => {}
            Ok(_) => return,
            Err(errno) => {
                tracing::error!(error = %errno, "cannot reap a jail child");
                return;
            }
        }
    }
}

type Pipes = (pipe::Sender, pipe::Receiver, pipe::Receiver);

fn pipes(ends: Ends) -> std::io::Result<Pipes> {
    let Ends {
        request,
        answer,
        messages,
    } = ends;
    Ok((
        pipe::Sender::from_owned_fd(request)?,
        pipe::Receiver::from_owned_fd(answer)?,
        pipe::Receiver::from_owned_fd(messages)?,
    ))
}
