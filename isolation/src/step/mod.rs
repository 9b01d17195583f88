//! The privileged actions a child takes between its birth and its program, one variant each.
//!
//! A step carries all its operands, ready for the kernel: strings are NUL-terminated already, so
//! that the child allocates nothing. `target` paths are relative to the task's root and resolved
//! beneath it without following symlinks, whatever an earlier run of the task left there.

mod words;

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use crate::capability::CapabilitySet;
use crate::seccomp::Filter;
use crate::spec::{Access, Namespace, Propagation, Resource};

/// A descriptor that is passed beside the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Slot {
    /// Becomes descriptor 0.
    Input,
    /// Becomes descriptor 1.
    Output,
    /// Becomes descriptor 2.
    Error,
    /// A network namespace.
    Network,
    /// A pidfd of the task whose namespaces are joined.
    Target,
    /// The program, for a plan that executes it as `/proc/self/fd/N`. It closes at the execution.
    Program,
}

/// One privileged action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Until exec this process is a copy of the keeper: nobody without CAP_SYS_PTRACE may read its
    /// memory or reach its program file, not even inside a namespace that it joins.
    NotDumpable,
    /// Every signal to its default action: an ignored one would stay ignored across exec.
    ResetSignalActions,
    /// A session and process group of its own.
    NewSession,
    /// A new, empty session keyring; a kernel without keyrings has nothing to hand on.
    NewSessionKeyring,
    /// The usual scheduler, whatever the keeper runs under.
    NormalScheduler,
    /// The nice value.
    Nice(i8),
    /// How the kernel chooses victims when memory is short.
    OomScoreAdjust(i16),
    /// Descriptors 0, 1, 2.
    StandardStreams,
    /// Standard input becomes the controlling terminal of the new session.
    ControllingTerminal,
    /// One resource limit; `None` as hard limit leaves it as it is.
    ResourceLimit {
        /// What is limited.
        resource: Resource,
        /// Soft limit, `None` for infinity.
        soft: Option<u64>,
        /// Hard limit.
        hard: Option<u64>,
    },
    /// Mode bits taken from new files.
    Umask(u32),
    /// Enter existing namespaces.
    JoinNamespaces {
        /// Which ones.
        kinds: Vec<Namespace>,
        /// Whose.
        from: NamespaceSource,
    },
    /// See the own cgroup as the root of the tree. Not a clone flag: with CLONE_INTO_CGROUP the
    /// kernel would take the parent's cgroup as root.
    NewCgroupNamespace,
    /// No mount event travels between host and task any more.
    PrivateMounts,
    /// Take a directory, with what is mounted below it, as the root to be.
    OpenRoot {
        /// Absolute path on the host.
        source: CString,
    },
    /// Show a file or directory of the host.
    Bind {
        /// Absolute path on the host.
        source: CString,
        /// Place in the task's root, made when missing.
        target: CString,
        /// Whether the task may write.
        access: Access,
        /// What to do when the source is not there.
        missing: Missing,
    },
    /// Mount a new instance of a kernel file system.
    Mount {
        /// Which one.
        file_system: FileSystem,
        /// Place in the task's root, made when missing.
        target: CString,
        /// Mount options, in order.
        options: Vec<(CString, CString)>,
        /// Restrictions.
        flags: MountFlags,
    },
    /// Make a directory that a later mount or the task needs; an existing one is kept.
    Directory {
        /// Place in the task's root.
        target: CString,
        /// Permission bits.
        mode: u32,
    },
    /// Make a character device.
    Device {
        /// Place in the task's root.
        target: CString,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
        /// Permission bits.
        mode: u32,
    },
    /// Make a symlink.
    Symlink {
        /// Place in the task's root.
        target: CString,
        /// What it says.
        content: CString,
    },
    /// Hide a file or directory behind nothing; one that is not there needs no hiding.
    Mask {
        /// Place in the task's root.
        target: CString,
    },
    /// Make a file or directory read-only; one that is not there is passed over.
    ReadOnly {
        /// Place in the task's root.
        target: CString,
    },
    /// The root to be becomes `/`; the host's is detached.
    PivotRoot,
    /// Name of the host inside the task.
    HostName(CString),
    /// Working directory, as the task sees it.
    WorkingDirectory(CString),
    /// Take away from the bounding set all that is not in the set.
    BoundingSet(CapabilitySet),
    /// Groups, then group, then user, for good; capabilities survive it until the next step.
    SwitchIdentity {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// Supplementary groups.
        groups: Vec<u32>,
    },
    /// Exactly this set: permitted, effective, inheritable and ambient.
    Capabilities(CapabilitySet),
    /// No execve adds powers any more.
    NoNewPrivileges,
    /// System call filters, installed in order.
    Seccomp(Vec<Filter>),
    /// Descriptors from this number on close at exec.
    CloseOnExecFrom(u32),
    /// No signal is blocked. Last, so that a signal meets a finished process.
    EmptySignalMask,
    /// This process becomes one that reaps orphans and forwards signals; a child of it, in a
    /// session of its own, takes the remaining steps. Since version 2 of a plan.
    Reaper,
    /// Run on these processors, by number. The task may choose others. Since version 3.
    Processors(Vec<u16>),
    /// Hold a file or directory of the host while its mounts are still connected with the host's,
    /// for a [`Step::PlaceTree`]. Since version 3.
    TakeTree {
        /// Absolute path on the host.
        source: CString,
        /// How it stays connected.
        propagation: Propagation,
    },
    /// Show what a [`Step::TakeTree`] holds. Since version 3.
    PlaceTree {
        /// Which one: 0 is the first that was taken.
        tree: u8,
        /// Place in the task's root, made when missing.
        target: CString,
        /// Whether the task may write.
        access: Access,
    },
}

/// What a bind does when its source is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// The start fails.
    Fail,
    /// The bind is left out.
    Skip,
}

/// Whose namespaces are joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceSource {
    /// A descriptor passed beside the plan: a namespace file or a pidfd.
    Slot(Slot),
    /// A namespace file on the host.
    Path(CString),
}

/// File systems that a sandbox mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileSystem {
    /// `proc`
    Proc,
    /// `sysfs`
    Sysfs,
    /// `tmpfs`
    Tmpfs,
    /// `devpts`
    Devpts,
    /// `mqueue`
    Mqueue,
    /// `cgroup2`
    Cgroup2,
}

/// Restrictions of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MountFlags {
    /// No writes.
    pub read_only: bool,
    /// Set-user-id bits mean nothing.
    pub no_set_uid: bool,
    /// Device files mean nothing.
    pub no_devices: bool,
    /// Nothing can be executed.
    pub no_exec: bool,
}

impl FileSystem {
    /// The name that the kernel knows it by.
    #[must_use]
    pub const fn kernel_name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Proc => c"proc",
            Self::Sysfs => c"sysfs",
            Self::Tmpfs => c"tmpfs",
            Self::Devpts => c"devpts",
            Self::Mqueue => c"mqueue",
            Self::Cgroup2 => c"cgroup2",
        }
    }
}

impl Step {
    /// The lowest version of a plan that may hold this step.
    #[must_use]
    pub const fn since(&self) -> u32 {
        match self {
            Self::Reaper => 2,
            Self::Processors(_) | Self::TakeTree { .. } | Self::PlaceTree { .. } => 3,
            _ => 1,
        }
    }
}
