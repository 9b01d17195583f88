//! Whether a program understands this keeper's state: asked of the program itself, before anything
//! depends on it.

use super::state::{STATE_BYTES_MAX, State};
use crate::keeper::{CHECK_STATE, Keeper, now};
use crate::memfd;
use crate::protocol::{BootNanos, CallId, Refusal, Response};
use crate::report::tell;
use protocol_error_chain::chain;
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Reading a state takes milliseconds; a program that takes longer hangs.
const CHECK_MAX: BootNanos = BootNanos(10_000_000_000);

/// What is kept of the words of a program that says no.
const WORDS_BYTES_MAX: usize = 2048;

/// A program is being asked.
#[derive(Debug)]
pub(crate) struct Check {
    pub(super) program: OwnedFd,
    /// `None` once another client has come.
    pub(super) call: Option<CallId>,
    pid: i32,
    pidfd: OwnedFd,
    words: OwnedFd,
    agreement: String,
    deadline: BootNanos,
    overdue: Overdue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overdue {
    No,
    Killed,
}

/// `noded-keeper --check-state`: reads a state from a sealed memory file and answers with the words
/// that stand for having understood exactly this one.
///
/// # Errors
/// The state in words, where this program cannot take it over.
pub fn check_state(memfd: BorrowedFd<'_>) -> Result<String, String> {
    let bytes = memfd::read_sealed(memfd, STATE_BYTES_MAX).map_err(|error| chain(&error))?;
    State::decode(&bytes).map_err(|error| chain(&error))?;
    Ok(agreement(&bytes))
}

/// An exit status alone would be anybody's: true(1) has one.
fn agreement(bytes: &[u8]) -> String {
    format!("understood: keeper state {:08x}", crc32fast::hash(bytes))
}

impl Keeper {
    /// Begins; the answer comes when the program has spoken, or from what it has become.
    pub(in crate::keeper) fn upgrade(
        &mut self,
        call: CallId,
        descriptors: &[OwnedFd],
    ) -> Result<(), Refusal> {
        if self.check.is_some() {
            return Err(Refusal::UpgradeUnderWay);
        }
        let program = descriptors
            .first()
            .ok_or(Refusal::MissingDescriptor { position: 0 })?;
        let check = self.start_check(call, program).map_err(failed)?;
        self.check = Some(check);
        Ok(())
    }

    fn start_check(&self, call: CallId, program: &OwnedFd) -> Result<Check, String> {
        let failed = |what: &str, errno: Errno| format!("{what}: {errno}");
        let metadata = fstat(program).map_err(|errno| failed("the program", errno))?;
        if FileType::from_raw_mode(metadata.st_mode) != FileType::RegularFile {
            return Err("the program is no file".to_owned());
        }
        let program = rustix::io::fcntl_dupfd_cloexec(program, 3)
            .map_err(|errno| failed("the program", errno))?;
        let (state, _) = self.state(Some(call));
        let bytes = state.encode().map_err(|error| chain(&error))?;
        let memfd = memfd::seal("keeper-state", &bytes)
            .map_err(|errno| failed("memory for the state", errno))?;
        let (words, told) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| failed("a pipe", errno))?;
        let told = File::from(told);
        let told_too = told.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .arg0("noded-keeper")
            .arg(CHECK_STATE)
            .stdin(Stdio::from(memfd))
            .stdout(told)
            .stderr(told_too)
            .spawn()
            .map_err(|error| format!("the program cannot be started: {error}"))?;
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        // Not reaped before this keeper's loop does it, so the number is still this child's.
        let pidfd = Pid::from_raw(pid)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|errno| failed("a pidfd", errno))?;
        Ok(Check {
            program,
            call: Some(call),
            pid,
            pidfd,
            words,
            agreement: agreement(&bytes),
            deadline: now().boot.plus(CHECK_MAX),
            overdue: Overdue::No,
        })
    }

    /// A child that is no task ended. Where it is the one that was asked, this process may be
    /// another program when the call returns: that is, it does not return.
    pub(in crate::keeper) fn on_other_child(&mut self, pid: i32, raw: i32) {
        let Some(check) = self.check.take_if(|check| check.pid == pid) else {
            return;
        };
        let detail = match check.verdict(raw) {
            Ok(()) => self.leave(&check),
            Err(detail) => detail,
        };
        tell!("keeper: not upgraded: {detail}");
        if let Some(call) = check.call {
            self.respond(call, Response::Refused(failed(detail)));
        }
        self.renew_interest();
    }
}

impl Check {
    pub(in crate::keeper) fn next_deadline(&self) -> Option<BootNanos> {
        (self.overdue == Overdue::No).then_some(self.deadline)
    }

    /// Whoever asked is gone; the upgrade goes on.
    pub(in crate::keeper) fn forget_client(&mut self) {
        self.call = None;
    }

    pub(in crate::keeper) fn on_time(&mut self, now: BootNanos) {
        if self.overdue == Overdue::No && self.deadline <= now {
            self.overdue = Overdue::Killed;
            // Its end is told by SIGCHLD, as every child's.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
    }

    fn verdict(&self, raw: i32) -> Result<(), String> {
        if self.overdue == Overdue::Killed {
            return Err("the new program did not answer in time".to_owned());
        }
        let mut words = [0; WORDS_BYTES_MAX];
        // All of it is in the pipe: whoever wrote is gone.
        let length = rustix::io::read(&self.words, &mut words).unwrap_or(0);
        let words = String::from_utf8_lossy(&words[..length]);
        let words = words.trim();
        if raw == 0 && words == self.agreement {
            Ok(())
        } else if raw == 0 {
            Err("the program is no keeper that can be upgraded to".to_owned())
        } else {
            let status = crate::keeper::process::exit_status(raw);
            Err(format!("the new program says no ({status:?}): {words}"))
        }
    }
}

fn failed(detail: impl Into<String>) -> Refusal {
    Refusal::UpgradeFailed {
        detail: detail.into(),
    }
}
