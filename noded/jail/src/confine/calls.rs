//! seccomp: lists of permissions. A call that is not listed fails with EPERM, so that a library
//! that tries one goes on without it.

use std::collections::BTreeMap;

use rustix::process::getpid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
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
    let program = match profile {
        Profile::Compute => allow_only(compute(), arch),
    };
    let program = program.map_err(ConfineError::Compile)?;
    apply_filter_all_threads(&program).map_err(ConfineError::Seccomp)
}

fn allow_only(
    rules: Result<Rules, seccompiler::BackendError>,
    arch: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules?, refusal, SeccompAction::Allow, arch)?.try_into()
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
