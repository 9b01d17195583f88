//! System call filters: which calls a task is refused, compiled to BPF when the plan is made.
//!
//! A list of refusals, not of permissions: a new system call of a new kernel stays usable. What is
//! refused changes the kernel, the clock, mounts or namespaces, or is a frequent way out of a
//! sandbox. Most of it needs a capability that tasks do not have; the filter is the second lock.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use serde::{Deserialize, Serialize};

use crate::plan::PlanError;

/// A named set of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeccompProfile {
    /// Nothing is refused.
    None,
    /// EPERM for calls that no ordinary service needs; ENOSYS for clone3 and io_uring, whose
    /// arguments a filter cannot see, so that programs fall back. Programs of another processor
    /// mode (32 bit) are killed.
    Default,
}

/// One BPF instruction, with the layout of the kernel's `sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump if true.
    pub jump_true: u8,
    /// Jump if false.
    pub jump_false: u8,
    /// Operand.
    pub operand: u32,
}

/// One BPF program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter(Vec<Instruction>);

impl From<Vec<Instruction>> for Filter {
    fn from(instructions: Vec<Instruction>) -> Self {
        Self(instructions)
    }
}

impl Filter {
    /// Number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// Refused with EPERM, on every processor.
const REFUSED: [libc::c_long; 40] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
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
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
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
    libc::SYS_vhangup,
];

/// Refused with EPERM where they exist.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [libc::c_long; 5] = [
    libc::SYS__sysctl,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_uselib,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [libc::c_long; 0] = [];

/// "Not implemented", so that programs use what came before: the filter cannot read clone3's
/// flags from memory, and what goes through a ring passes no filter at all.
const ABSENT: [libc::c_long; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// clone(2) with any of these makes a namespace, which is refused like unshare(2).
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

impl SeccompProfile {
    /// The programs to install, in order. A filter of seccompiler has one answer for what
    /// matches, so each answer is a program of its own; the kernel takes the strictest.
    ///
    /// # Errors
    /// There is no filter for this processor.
    pub fn compile(self) -> Result<Vec<Filter>, PlanError> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Default => {
                let processor = std::env::consts::ARCH;
                let arch = TargetArch::try_from(processor)
                    .map_err(|_| PlanError::SeccompProcessor { processor })?;
                let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED
                    .iter()
                    .chain(&REFUSED_HERE)
                    .map(|call| (*call, Vec::new()))
                    .collect();
                refused.insert(libc::SYS_clone, namespace_rules()?);
                let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
                let mut filters = vec![
                    answer(refused, libc::EPERM, arch)?,
                    answer(absent, libc::ENOSYS, arch)?,
                ];
                filters.extend(other_abi());
                Ok(filters)
            }
        }
    }
}

fn namespace_rules() -> Result<Vec<SeccompRule>, PlanError> {
    NAMESPACE_FLAGS
        .iter()
        .map(|flag| {
            let bit = u64::from(flag.cast_unsigned());
            let condition = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Qword,
                SeccompCmpOp::MaskedEq(bit),
                bit,
            )?;
            SeccompRule::new(vec![condition])
        })
        .collect::<Result<_, _>>()
        .map_err(PlanError::Seccomp)
}

fn answer(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: libc::c_int,
    arch: TargetArch,
) -> Result<Filter, PlanError> {
    let refusal = SeccompAction::Errno(errno.cast_unsigned());
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)
        .and_then(TryInto::try_into)
        .map_err(PlanError::Seccomp)?;
    Ok(Filter(
        program
            .into_iter()
            .map(|instruction| Instruction {
                code: instruction.code,
                jump_true: instruction.jt,
                jump_false: instruction.jf,
                operand: instruction.k,
            })
            .collect(),
    ))
}

/// x86-64 kernels may offer a second set of numbers (x32) under the same architecture mark; with
/// them every number above could be bypassed.
#[cfg(target_arch = "x86_64")]
fn other_abi() -> Option<Filter> {
    /// `__X32_SYSCALL_BIT`
    const X32: u32 = 0x4000_0000;
    // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K (linux/bpf_common.h).
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let plain = |code, operand| Instruction {
        code,
        jump_true: 0,
        jump_false: 0,
        operand,
    };
    Some(Filter(vec![
        // Offset 0 of seccomp_data is the call's number.
        plain(LOAD_WORD, 0),
        Instruction {
            code: JUMP_IF_AT_LEAST,
            jump_true: 0,
            jump_false: 1,
            operand: X32,
        },
        plain(
            RETURN,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
        ),
        plain(RETURN, libc::SECCOMP_RET_ALLOW),
    ]))
}

#[cfg(not(target_arch = "x86_64"))]
const fn other_abi() -> Option<Filter> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_profile_compiles_within_the_kernels_limit() {
        let filters = SeccompProfile::Default.compile().expect("compiles");
        assert!(filters.len() >= 2);
        // BPF_MAXINSNS
        assert!(
            filters
                .iter()
                .all(|filter| !filter.is_empty() && filter.len() <= 4096)
        );
    }

    #[test]
    fn no_profile_is_no_filter() {
        assert!(SeccompProfile::None.compile().expect("compiles").is_empty());
    }
}
