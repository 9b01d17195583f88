//! The birth of a task: one clone into its cgroup and namespaces, no waiting.
//!
//! ```text
//! check plan -> pipe -> block signals -> clone3 ─┬─ child: steps -> execve        (apply)
//!                                                └─ parent: pidfd, report pipe   -> Spawned
//! ```
//!
//! The caller should have one thread: the child runs with a copy of this memory, locks included.
//! The steps allocate nothing, so a threaded caller (a test) works too.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::apply;
use crate::plan::{PLAN_VERSIONS, PidNamespace, Plan};
use crate::reaper;
use crate::spec::Namespace;
use crate::step::{Slot, Step};
use crate::sys::{Born, ExecVectors, clone3, exit_now};

/// Lowest number of a descriptor that redirecting 0, 1 and 2 cannot hit.
const FIRST_FREE: i32 = 3;

/// The descriptors that a plan's slots name.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors<'a> {
    input: BorrowedFd<'a>,
    output: BorrowedFd<'a>,
    error: BorrowedFd<'a>,
    network: Option<BorrowedFd<'a>>,
    target: Option<BorrowedFd<'a>>,
    program: Option<BorrowedFd<'a>>,
}

/// A child on its way to be a task.
#[derive(Debug)]
pub struct Spawned {
    /// The child, for polling, signals and waiting.
    pub pidfd: OwnedFd,
    /// Its number in the keeper's namespace, for people and for /proc.
    pub pid: Pid,
    /// Becomes readable when the program runs or a step failed: [`crate::read_report`].
    pub report: OwnedFd,
}

/// Why no child was made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The plan is of another version than this code.
    #[error("plan version {version} is not within {PLAN_VERSIONS:?}")]
    Version {
        /// The plan's.
        version: u32,
    },
    /// The plan names a descriptor that did not come with it.
    #[error("the plan needs a descriptor for slot {slot:?}")]
    MissingDescriptor {
        /// Which.
        slot: Slot,
    },
    /// A descriptor could not be moved out of the way of 0, 1 and 2.
    #[error("cannot duplicate the descriptor for slot {slot:?}")]
    Duplicate {
        /// Which.
        slot: Slot,
        /// Why.
        #[source]
        source: Errno,
    },
    /// No pipe for the report.
    #[error("cannot make the report pipe")]
    Pipe(#[source] Errno),
    /// The signal mask could not be changed.
    #[error("cannot block signals around the clone")]
    SignalMask(#[source] nix::Error),
    /// The target's process id namespace could not be entered.
    #[error("cannot enter the process id namespace of the target")]
    EnterPidNamespace(#[source] Errno),
    /// The caller's children would now be born in the target's namespace. The child, if any, was
    /// killed; the caller must not spawn again and should be replaced.
    #[error("cannot return to the own process id namespace")]
    LeavePidNamespace(#[source] Errno),
    /// No memory file for the reaper.
    #[error("cannot make the reaper's memory file")]
    Reaper(#[source] Errno),
    /// The kernel refused the clone.
    #[error("cannot clone a child into its cgroup and namespaces")]
    Clone(#[source] Errno),
}

impl<'a> Descriptors<'a> {
    /// What becomes descriptors 0, 1 and 2 of the task.
    #[must_use]
    pub const fn new(input: BorrowedFd<'a>, output: BorrowedFd<'a>, error: BorrowedFd<'a>) -> Self {
        Self {
            input,
            output,
            error,
            network: None,
            target: None,
            program: None,
        }
    }

    /// The network namespace for [`Slot::Network`].
    #[must_use]
    pub const fn with_network(self, network: BorrowedFd<'a>) -> Self {
        Self {
            network: Some(network),
            ..self
        }
    }

    /// The pidfd for [`Slot::Target`].
    #[must_use]
    pub const fn with_target(self, target: BorrowedFd<'a>) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }

    /// The open program for [`Slot::Program`].
    #[must_use]
    pub const fn with_program(self, program: BorrowedFd<'a>) -> Self {
        Self {
            program: Some(program),
            ..self
        }
    }

    /// The descriptor in a slot.
    #[must_use]
    pub const fn slot(&self, slot: Slot) -> Option<BorrowedFd<'a>> {
        match slot {
            Slot::Input => Some(self.input),
            Slot::Output => Some(self.output),
            Slot::Error => Some(self.error),
            Slot::Network => self.network,
            Slot::Target => self.target,
            Slot::Program => self.program,
        }
    }
}

/// Starts `plan` in `cgroup` (a directory of cgroup v2). Returns as soon as the child exists.
///
/// A cgroup that was killed by `cgroup.kill` must not be used again: Linux 6.14 and later compare
/// its count of kills with that of the caller's cgroup and kill the child at birth, which shows as
/// [`crate::Report::Running`] and an exit by SIGKILL. The same happens when the caller's own cgroup
/// was killed before the caller moved into it.
///
/// # Errors
/// The plan does not fit this code or its descriptors, or the kernel refused. Failures of steps
/// come later, on [`Spawned::report`].
pub fn spawn(
    plan: &Plan,
    cgroup: BorrowedFd<'_>,
    descriptors: Descriptors<'_>,
) -> Result<Spawned, SpawnError> {
    if !PLAN_VERSIONS.contains(&plan.version) {
        return Err(SpawnError::Version {
            version: plan.version,
        });
    }
    if let Some(slot) = plan
        .slots
        .iter()
        .find(|slot| descriptors.slot(**slot).is_none())
    {
        return Err(SpawnError::MissingDescriptor { slot: *slot });
    }
    // Descriptors 0, 1 and 2 are overwritten one after the other in the child.
    let moved = [
        above_standard(Slot::Input, descriptors.input)?,
        above_standard(Slot::Output, descriptors.output)?,
        above_standard(Slot::Error, descriptors.error)?,
    ];
    let [input, output, error] = &moved;
    let descriptors = Descriptors {
        input: input
            .as_ref()
            .map_or(descriptors.input, std::os::fd::AsFd::as_fd),
        output: output
            .as_ref()
            .map_or(descriptors.output, std::os::fd::AsFd::as_fd),
        error: error
            .as_ref()
            .map_or(descriptors.error, std::os::fd::AsFd::as_fd),
        ..descriptors
    };
    let vectors = ExecVectors::new(&plan.exec.argv, &plan.exec.env);
    let (report, child_report) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(SpawnError::Pipe)?;
    let child_report =
        rustix::io::fcntl_dupfd_cloexec(&child_report, FIRST_FREE).map_err(SpawnError::Pipe)?;

    let reaper = if plan.steps.contains(&Step::Reaper) {
        Some(reaper::open().map_err(SpawnError::Reaper)?)
    } else {
        None
    };
    let reaper = reaper.as_ref();

    let mut child =
        || match apply::in_child(plan, &vectors, &descriptors, reaper, &child_report) {};
    let (pid, pidfd) = match (plan.pid_namespace, descriptors.target) {
        (PidNamespace::Keeper, _) => birth(flags(plan), cgroup, &mut child)?,
        (PidNamespace::New, _) => birth(flags(plan) | libc::CLONE_NEWPID, cgroup, &mut child)?,
        (PidNamespace::Target, Some(target)) => {
            within(target, || birth(flags(plan), cgroup, &mut child))?
        }
        (PidNamespace::Target, None) => {
            return Err(SpawnError::MissingDescriptor { slot: Slot::Target });
        }
    };
    Ok(Spawned { pidfd, pid, report })
}

/// Clones with all signals blocked: a handler of the caller must not run in the child, whose
/// first step resets the actions and whose last one empties the mask.
fn birth(
    flags: libc::c_int,
    cgroup: BorrowedFd<'_>,
    child: &mut dyn FnMut(),
) -> Result<(Pid, OwnedFd), SpawnError> {
    let before = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_SETMASK)
        .map_err(SpawnError::SignalMask)?;
    let born = clone3(flags, cgroup);
    if matches!(born, Ok(Born::Child)) {
        child();
    }
    let restored = before.thread_set_mask();
    match born.map_err(SpawnError::Clone)? {
        Born::Child => exit_now(apply::NOT_EXECUTED),
        Born::Parent { pid, pidfd } => {
            restored.map_err(SpawnError::SignalMask)?;
            Ok((pid, pidfd))
        }
    }
}

/// Runs `birth` with children born in the process id namespace of `target`. The caller itself
/// stays where it is: the kernel moves only those who come after.
fn within(
    target: BorrowedFd<'_>,
    birth: impl FnOnce() -> Result<(Pid, OwnedFd), SpawnError>,
) -> Result<(Pid, OwnedFd), SpawnError> {
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(SpawnError::EnterPidNamespace)?;
    move_into_thread_name_spaces(target, ThreadNameSpaceType::PROCESS_ID)
        .map_err(SpawnError::EnterPidNamespace)?;
    let born = birth();
    let own = std::os::fd::AsFd::as_fd(&own);
    if let Err(errno) = move_into_thread_name_spaces(own, ThreadNameSpaceType::PROCESS_ID) {
        if let Ok((_, pidfd)) = &born {
            // Nobody will hear of this child: it must not live. Already dead is as good.
            let _gone = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        }
        return Err(SpawnError::LeavePidNamespace(errno));
    }
    born
}

fn above_standard(slot: Slot, fd: BorrowedFd<'_>) -> Result<Option<OwnedFd>, SpawnError> {
    if fd.as_raw_fd() >= FIRST_FREE {
        return Ok(None);
    }
    rustix::io::fcntl_dupfd_cloexec(fd, FIRST_FREE)
        .map(Some)
        .map_err(|source| SpawnError::Duplicate { slot, source })
}

fn flags(plan: &Plan) -> libc::c_int {
    plan.namespaces
        .iter()
        .map(|kind| clone_flag(*kind))
        .fold(0, |all, flag| all | flag)
}

const fn clone_flag(kind: Namespace) -> libc::c_int {
    match kind {
        Namespace::Mount => libc::CLONE_NEWNS,
        Namespace::Pid => libc::CLONE_NEWPID,
        Namespace::Ipc => libc::CLONE_NEWIPC,
        Namespace::Uts => libc::CLONE_NEWUTS,
        Namespace::Cgroup => libc::CLONE_NEWCGROUP,
        Namespace::Network => libc::CLONE_NEWNET,
    }
}
