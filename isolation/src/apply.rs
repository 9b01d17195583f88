//! The child between clone and execve: runs the steps in order, says which one failed, leaves.
//!
//! Nothing here allocates, unwinds or returns. The memory is a copy of the keeper's: a lock that
//! another thread held at the clone stays locked for ever.

use std::convert::Infallible;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet as KernelSet, CapabilitySets, CpuSet, ThreadNameSpaceType,
    configure_capability_in_ambient_set, move_into_thread_name_spaces, sched_setaffinity,
};

use crate::capability::CapabilitySet;
use crate::failure::ChildFailure;
use crate::mounting::Composer;
use crate::plan::Plan;
use crate::spawn::Descriptors;
use crate::spec::{Namespace, Resource};
use crate::step::{NamespaceSource, Slot, Step};
use crate::sys;

/// Exit status of a child that could not become its program, as shells have it.
pub(crate) const NOT_EXECUTED: i32 = 127;

/// Becomes the task, or reports and exits.
pub(crate) fn in_child(
    plan: &Plan,
    vectors: &sys::ExecVectors<'_>,
    descriptors: &Descriptors<'_>,
    reaper: Option<&OwnedFd>,
    report: &OwnedFd,
) -> Infallible {
    // Before anything that may wait. A child that hangs in a step would hold whatever the keeper
    // has open: its lock and its socket, should it die meanwhile, and the streams of others.
    let outcome = let_go(descriptors, reaper, report).map_err(|errno| (0, errno));
    let outcome = outcome.and_then(|()| run_steps(&plan.steps, descriptors, reaper));
    let (step, errno) = match outcome {
        Ok(()) => (plan.steps.len(), execute(&plan.exec.candidates, vectors)),
        Err(failed) => failed,
    };
    let failure = ChildFailure {
        step: u32::try_from(step).unwrap_or(u32::MAX),
        errno: errno.raw_os_error(),
    };
    // Whoever should read it is gone when this fails; the exit status says enough.
    let _unread = rustix::io::write(report, &failure.encode());
    sys::exit_now(NOT_EXECUTED)
}

/// Keeps only what the steps name.
fn let_go(
    descriptors: &Descriptors<'_>,
    reaper: Option<&OwnedFd>,
    report: &OwnedFd,
) -> Result<(), Errno> {
    let slots = [
        Slot::Input,
        Slot::Output,
        Slot::Error,
        Slot::Network,
        Slot::Target,
        Slot::Program,
    ];
    let own = reaper.map_or(-1, AsRawFd::as_raw_fd);
    let mut keep = [-1, -1, -1, -1, -1, -1, own, report.as_raw_fd()];
    for (place, slot) in keep.iter_mut().zip(slots) {
        *place = descriptors.slot(slot).map_or(-1, |fd| fd.as_raw_fd());
    }
    sys::close_all_but(&mut keep)
}

fn run_steps(
    steps: &[Step],
    descriptors: &Descriptors<'_>,
    reaper: Option<&OwnedFd>,
) -> Result<(), (usize, Errno)> {
    let mut composer = Composer::default();
    for (offset, step) in steps.iter().enumerate() {
        run(step, descriptors, reaper, &mut composer).map_err(|errno| (offset, errno))?;
    }
    Ok(())
}

/// Tries the candidates as execvp(3) does: what is not there is passed over, and "not allowed"
/// is remembered as the better reason.
fn execute(candidates: &[std::ffi::CString], vectors: &sys::ExecVectors<'_>) -> Errno {
    let mut reason = Errno::NOENT;
    for candidate in candidates {
        match sys::execve(candidate, vectors) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => reason = Errno::ACCESS,
            other => return other,
        }
    }
    reason
}

fn run<'a>(
    step: &'a Step,
    descriptors: &Descriptors<'_>,
    reaper: Option<&OwnedFd>,
    composer: &mut Composer<'a>,
) -> Result<(), Errno> {
    match step {
        Step::NotDumpable => rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable),
        Step::ResetSignalActions => {
            sys::reset_actions();
            Ok(())
        }
        Step::NewSession => rustix::process::setsid().map(drop),
        Step::NewSessionKeyring => match sys::join_new_session_keyring() {
            // A kernel without keyrings has none to hand on.
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        },
        Step::NormalScheduler => sys::normal_scheduler(),
        Step::Nice(value) => rustix::process::setpriority_process(None, i32::from(*value)),
        Step::Processors(numbers) => run_on(numbers),
        Step::OomScoreAdjust(value) => adjust_oom_score(*value),
        Step::StandardStreams => standard_streams(descriptors),
        Step::ControllingTerminal => rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()),
        Step::ResourceLimit {
            resource,
            soft,
            hard,
        } => limit(*resource, *soft, *hard),
        Step::Umask(mask) => {
            rustix::process::umask(Mode::from_raw_mode(*mask));
            Ok(())
        }
        Step::JoinNamespaces { kinds, from } => join(kinds, from, descriptors),
        Step::NewCgroupNamespace => sys::unshare_cgroup_namespace(),
        Step::HostName(name) => rustix::system::sethostname(name.to_bytes()),
        Step::WorkingDirectory(path) => rustix::process::chdir(path.as_c_str()),
        Step::BoundingSet(keep) => drop_bounding(*keep),
        Step::SwitchIdentity { uid, gid, groups } => switch_identity(*uid, *gid, groups),
        Step::Capabilities(keep) => keep_capabilities(*keep),
        Step::NoNewPrivileges => rustix::thread::set_no_new_privs(true),
        Step::Seccomp(filters) => filters
            .iter()
            .try_for_each(|filter| sys::install_filter(filter.instructions())),
        Step::CloseOnExecFrom(first) => sys::close_on_exec_from(*first),
        Step::EmptySignalMask => sys::empty_mask(),
        Step::Reaper => crate::reaper::become_reaper(reaper),
        Step::PrivateMounts
        | Step::OpenRoot { .. }
        | Step::Bind { .. }
        | Step::Mount { .. }
        | Step::Directory { .. }
        | Step::Device { .. }
        | Step::Symlink { .. }
        | Step::Mask { .. }
        | Step::ReadOnly { .. }
        | Step::TakeTree { .. }
        | Step::PlaceTree { .. }
        | Step::PivotRoot => composer.run(step),
    }
}

fn standard_streams(descriptors: &Descriptors<'_>) -> Result<(), Errno> {
    let slot = |slot| descriptors.slot(slot).ok_or(Errno::BADF);
    rustix::stdio::dup2_stdin(slot(Slot::Input)?)?;
    rustix::stdio::dup2_stdout(slot(Slot::Output)?)?;
    rustix::stdio::dup2_stderr(slot(Slot::Error)?)
}

fn run_on(numbers: &[u16]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for number in numbers.iter().map(|number| usize::from(*number)) {
        if number >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(number);
    }
    sched_setaffinity(None, &set)
}

/// Written even when it is 0: the keeper protects itself with another value.
fn adjust_oom_score(value: i16) -> Result<(), Errno> {
    let file = rustix::fs::openat(
        CWD,
        c"/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut text = [0_u8; 6];
    let digits = decimal(value, &mut text);
    rustix::io::write(&file, digits).map(drop)
}

/// `value` in decimal, written from the end of `text`; no allocation.
fn decimal(value: i16, text: &mut [u8; 6]) -> &[u8] {
    let mut rest = value.unsigned_abs();
    let mut start = text.len();
    loop {
        start -= 1;
        // A digit, below 10.
        text[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        text[start] = b'-';
    }
    &text[start..]
}

fn limit(resource: Resource, soft: Option<u64>, hard: Option<u64>) -> Result<(), Errno> {
    use rustix::process::Resource as Kernel;
    let resource = match resource {
        Resource::OpenFiles => Kernel::Nofile,
        Resource::Processes => Kernel::Nproc,
        Resource::CoreBytes => Kernel::Core,
        Resource::LockedBytes => Kernel::Memlock,
        Resource::StackBytes => Kernel::Stack,
        Resource::FileBytes => Kernel::Fsize,
    };
    let maximum = hard.or_else(|| getrlimit(resource).maximum);
    let current = match (soft, maximum) {
        (Some(soft), Some(maximum)) => Some(soft.min(maximum)),
        (soft, maximum) => soft.or(maximum),
    };
    setrlimit(resource, Rlimit { current, maximum })
}

fn join(
    kinds: &[Namespace],
    from: &NamespaceSource,
    descriptors: &Descriptors<'_>,
) -> Result<(), Errno> {
    let flags = kinds
        .iter()
        .fold(ThreadNameSpaceType::empty(), |all, kind| {
            all | kernel_kind(*kind)
        });
    match from {
        NamespaceSource::Slot(slot) => {
            let fd = descriptors.slot(*slot).ok_or(Errno::BADF)?;
            move_into_thread_name_spaces(fd, flags)
        }
        NamespaceSource::Path(path) => {
            let fd = open_namespace(path)?;
            // setns(2) takes the same flags for a namespace file as for a pidfd.
            move_into_thread_name_spaces(fd.as_fd(), flags)
        }
    }
}

fn open_namespace(path: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

const fn kernel_kind(kind: Namespace) -> ThreadNameSpaceType {
    match kind {
        Namespace::Mount => ThreadNameSpaceType::MOUNT,
        Namespace::Pid => ThreadNameSpaceType::PROCESS_ID,
        Namespace::Ipc => ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION,
        Namespace::Uts => ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME,
        Namespace::Cgroup => ThreadNameSpaceType::CONTROL_GROUP,
        Namespace::Network => ThreadNameSpaceType::NETWORK,
    }
}

/// Highest capability that a set of 64 bits could name; the kernel says where it really ends.
const CAPABILITY_BITS: u32 = 64;

fn drop_bounding(keep: CapabilitySet) -> Result<(), Errno> {
    for bit in 0..CAPABILITY_BITS {
        if keep.bits() & (1 << bit) != 0 {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(KernelSet::from_bits_retain(
            1 << bit,
        )) {
            Ok(()) => {}
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn switch_identity(uid: u32, gid: u32, groups: &[u32]) -> Result<(), Errno> {
    sys::set_groups(groups)?;
    // Else the kernel would clear all capabilities here, before the next step chooses; execve
    // turns this off again.
    rustix::thread::set_keep_capabilities(true)?;
    sys::set_identity(uid, gid)
}

/// What the host itself lacks (a container's bounding set) cannot be kept and is left out.
fn keep_capabilities(keep: CapabilitySet) -> Result<(), Errno> {
    let held = rustix::thread::capabilities(None)?.permitted;
    let wanted = KernelSet::from_bits_retain(keep.bits()) & held;
    let sets = CapabilitySets {
        effective: wanted,
        permitted: wanted,
        inheritable: wanted,
    };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::clear_ambient_capability_set()?;
    (0..CAPABILITY_BITS)
        .map(|bit| KernelSet::from_bits_retain(1 << bit))
        .filter(|one| wanted.contains(*one))
        .try_for_each(|one| configure_capability_in_ambient_set(one, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_the_heap() {
        for value in [0, 7, 10, 999, 1000, -1, -1000, i16::MAX, i16::MIN] {
            assert_eq!(decimal(value, &mut [0; 6]), value.to_string().as_bytes());
        }
    }
}
