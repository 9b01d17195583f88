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

/// Families of sockets that a fetch may have: the last one lists the host's addresses for the
/// resolver.
const FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls that neither a download nor git needs: other processes, mounts, namespaces, keys, the
/// kernel itself. The list is of refusals, since git and its helpers are not ours.
const NOT_FETCH: [libc::c_long; 46] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
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
        Profile::Compute => vec![allow_only(compute(), arch)],
        Profile::Fetch { .. } => vec![
            allow_except(fetch(), libc::EPERM, arch),
            allow_except(Ok(unreadable()), libc::ENOSYS, arch),
        ],
    };
    for program in programs {
        let program = program.map_err(ConfineError::Compile)?;
        apply_filter_all_threads(&program).map_err(ConfineError::Seccomp)?;
    }
    Ok(())
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
    errno: i32,
    arch: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules?, SeccompAction::Allow, refusal, arch)?.try_into()
}

/// The calls that a fetch must not make.
fn fetch() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = NOT_FETCH.iter().map(|call| (*call, Vec::new())).collect();
    // Sockets of other kinds reach daemons of this host, which take user 0 for its owner.
    let mut other = Vec::new();
    for family in FAMILIES {
        let family = u64::from(family.cast_unsigned());
        let compare = SeccompCmpOp::Ne;
        other.push(SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            compare,
            family,
        )?);
    }
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
    let user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let with_users = argument(0, SeccompCmpOp::MaskedEq(user), user)?;
    rules.insert(libc::SYS_clone, vec![with_users]);
    Ok(rules)
}

/// Calls whose arguments a filter cannot read: the C library has others for them.
fn unreadable() -> Rules {
    Rules::from([(libc::SYS_clone3, Vec::new())])
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
