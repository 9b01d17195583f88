//! seccomp. A refused call fails with EPERM, so that a library that tries it goes on without it. A
//! child that only computes has a list of permissions; one that fetches has the refusals of tasks,
//! and more.

use std::collections::BTreeMap;

use isolation::{Filter, SeccompProfile};
use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads, sock_filter,
};

use super::{ConfineError, Profile};

/// Calls of a process that only computes: memory, the three open descriptors, the end. The
/// standard library's allocator, threads and panics need them.
const COMPUTE: [libc::c_long; 29] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The calls of the same kind that other processors do not have.
#[cfg(target_arch = "x86_64")]
const COMPUTE_HERE: [libc::c_long; 1] = [libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const COMPUTE_HERE: [libc::c_long; 0] = [];

/// Families of sockets that a fetch may have: the last one lists the host's addresses for the
/// resolver.
const FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Refused to a child that fetches, besides what tasks are refused: other processes, and offers of
/// ports. A list of refusals, since git, ssh and the shell are not ours.
const FETCH_REFUSED: [libc::c_long; 11] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_chroot,
    libc::SYS_listen,
    libc::SYS_name_to_handle_at,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];

/// Calls that map memory, with the protection as third argument: never executable.
const MAPPING: [libc::c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Calls that send a signal, with the process as first argument: only to itself. User 0 could
/// otherwise signal every process of root.
const SIGNALLING: [libc::c_long; 2] = [libc::SYS_kill, libc::SYS_tgkill];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters the calls of all threads from now on.
pub(super) fn restrict(profile: &Profile) -> Result<(), ConfineError> {
    let processor = std::env::consts::ARCH;
    let arch = TargetArch::try_from(processor).map_err(|_| ConfineError::Processor(processor))?;
    let programs = match profile {
        Profile::Compute => vec![allow_only(compute(), arch).map_err(ConfineError::Compile)?],
        Profile::Fetch { .. } => {
            let of_tasks = SeccompProfile::Default.compile();
            let of_tasks = of_tasks.map_err(ConfineError::Refusals)?;
            let own = allow_except(fetch(), arch).map_err(ConfineError::Compile)?;
            of_tasks.iter().map(program_of).chain([own]).collect()
        }
    };
    let mut programs = programs.iter();
    programs
        .try_for_each(|program| apply_filter_all_threads(program))
        .map_err(ConfineError::Seccomp)
}

fn program_of(filter: &Filter) -> BpfProgram {
    let instructions = filter.instructions().iter();
    instructions
        .map(|instruction| sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect()
}

fn allow_only(
    rules: Result<Rules, seccompiler::BackendError>,
    arch: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules?, refusal, SeccompAction::Allow, arch)?.try_into()
}

fn allow_except(
    rules: Result<Rules, seccompiler::BackendError>,
    arch: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules?, SeccompAction::Allow, refusal, arch)?.try_into()
}

/// The calls that a fetch must not make.
fn fetch() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = FETCH_REFUSED
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    // Sockets of other kinds reach daemons of this host, which take user 0 for its owner.
    let mut other = Vec::new();
    for family in FAMILIES {
        let family = u64::from(family.cast_unsigned());
        let (length, compare) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne);
        other.push(SeccompCondition::new(0, length, compare, family)?);
    }
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
    Ok(rules)
}

fn compute() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = COMPUTE
        .iter()
        .chain(&COMPUTE_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in MAPPING {
        rules.insert(
            call,
            vec![argument(2, SeccompCmpOp::MaskedEq(executable), 0)?],
        );
    }
    let own = u64::from(getpid().as_raw_nonzero().get().cast_unsigned());
    for call in SIGNALLING {
        rules.insert(call, vec![argument(0, SeccompCmpOp::Eq, own)?]);
    }
    Ok(rules)
}

fn argument(
    index: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)?;
    SeccompRule::new(vec![condition])
}
