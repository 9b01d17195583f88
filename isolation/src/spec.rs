//! What noded asks for: one task's sandbox, in words of the task rather than of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::capability::CapabilitySet;
use crate::seccomp::SeccompProfile;

/// Everything that decides how a task's first process comes to be.
///
/// Start from [`SandboxSpec::exec`] or [`SandboxSpec::raw_exec`], whose defaults follow the
/// drivers of the same names, then change fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// What the task sees as `/`.
    pub root: Root,
    /// Namespaces made new for the task. The network has a field of its own.
    pub namespaces: BTreeSet<Namespace>,
    /// Which network the task lives in.
    pub network: Network,
    /// Host name; only with a new [`Namespace::Uts`].
    pub hostname: Option<String>,
    /// The user that the program runs as.
    pub identity: Identity,
    /// What remains of root's powers.
    pub capabilities: Capabilities,
    /// Whether set-uid programs and file capabilities may add powers.
    pub new_privileges: NewPrivileges,
    /// Which system calls are refused.
    pub seccomp: SeccompProfile,
    /// Resource limits to set; resources not named keep the keeper's value.
    pub resource_limits: Vec<ResourceLimit>,
    /// `/proc/self/oom_score_adj`, -1000 to 1000.
    pub oom_score_adj: i16,
    /// File mode bits that are taken away from new files.
    pub umask: u32,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Processors that the task starts on, by number; empty for the keeper's. The task may leave
    /// them: where the cpuset controller is there, [`crate::cgroup::CgroupLimits::cpus`] binds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<u16>,
    /// Directory of the program at start, as the task sees it.
    pub working_directory: PathBuf,
    /// Program: a path when it contains `/`, else looked for in the task's `local` directory, the
    /// task's directory and then `PATH`, as Nomad's exec drivers do.
    pub command: String,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// The whole environment; nothing is added.
    pub env: BTreeMap<String, String>,
    /// Whether standard input is a terminal that becomes the session's own.
    pub terminal: Terminal,
    /// What is PID 1, where the task has a process id namespace of its own.
    #[serde(default)]
    pub first_process: FirstProcess,
}

/// What is PID 1 of a task's own process id namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FirstProcess {
    /// The task's program itself: signals without a handler never reach it, and orphans wait for
    /// it to reap them.
    #[default]
    Program,
    /// A process of a few KiB that reaps orphans, forwards signals to the program (PID 2) and ends
    /// with its status; 128 and the number where a signal ended it.
    Reaper,
}

/// Directories of one task on the host. Names inside them are those of Nomad's data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLayout {
    /// `<data>/alloc/<alloc>/alloc`, shared by the tasks of the allocation.
    pub shared: PathBuf,
    /// `<data>/alloc/<alloc>/<task>`, which holds `local`, `secrets`, `private` and `tmp`.
    pub task: PathBuf,
}

/// What a task sees as `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// The host's own file system: `raw_exec`.
    Host {
        /// Where the task's directories are; they are visible under their host paths.
        layout: TaskLayout,
    },
    /// The task's directory, with parts of the host mounted read-only into it: `exec`.
    ReadOnlyHostView {
        /// The task sees `layout.task` as `/` and `layout.shared` as `/alloc`.
        layout: TaskLayout,
        /// Host paths shown at the same place, read-only; missing ones are left out.
        paths: Vec<PathBuf>,
        /// Further binds, such as host volumes; their sources must exist.
        binds: Vec<Bind>,
        /// Places inside the task that are hidden, whatever shows them; missing ones are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        masked: Vec<PathBuf>,
    },
}

/// One host file or directory shown inside the task's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Absolute path inside the task.
    pub target: PathBuf,
    /// Whether the task may write.
    pub access: Access,
    /// Whether later mounts travel through it.
    #[serde(default)]
    pub propagation: Propagation,
}

/// Which way mounts that are made below a bind after the start of the task travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Propagation {
    /// None.
    #[default]
    Private,
    /// The task sees those of the host.
    HostToTask,
    /// Also the host sees those of the task.
    Bidirectional,
}

/// Whether a mount may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Namespace {
    /// Mount points.
    Mount,
    /// Process ids; the task is PID 1 in it.
    Pid,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host and domain name.
    Uts,
    /// The view of the cgroup tree.
    Cgroup,
    /// Network devices, addresses, ports. Never in [`SandboxSpec::namespaces`].
    Network,
}

/// Which network a task lives in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// The host's.
    Host,
    /// A namespace whose descriptor is passed in [`crate::Slot::Network`].
    Descriptor,
    /// A namespace kept at a path such as `/run/netns/NAME`.
    Path(PathBuf),
}

/// The user that a task's program runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// That of the keeper: root.
    Keeper,
    /// Another one; find it by name with [`crate::lookup_identity`].
    User {
        /// User id.
        uid: u32,
        /// Primary group id.
        gid: u32,
        /// Supplementary groups, all of them.
        groups: Vec<u32>,
    },
}

/// What remains of root's powers after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capabilities {
    /// Those of the keeper, as the kernel hands them on: `raw_exec`.
    Keeper,
    /// At most these: nothing else remains, not even in the bounding set. A program of root has
    /// them from the start; one of an ordinary user has none (as with Nomad's exec driver).
    Only(CapabilitySet),
}

/// Whether an execve may add powers (`PR_SET_NO_NEW_PRIVS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewPrivileges {
    /// As usual on Linux.
    Allowed,
    /// Never.
    Forbidden,
}

/// Whether the process gets a controlling terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Terminal {
    /// No.
    None,
    /// Standard input is the terminal.
    StandardInput,
}

/// One `setrlimit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// What is limited.
    pub resource: Resource,
    /// Soft limit in the resource's own unit; `None` is infinity.
    pub soft: Option<u64>,
    /// Hard limit; `None` leaves the keeper's hard limit as it is.
    pub hard: Option<u64>,
}

/// What a resource limit limits (setrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// `RLIMIT_NOFILE`, descriptors.
    OpenFiles,
    /// `RLIMIT_NPROC`, processes of the user.
    Processes,
    /// `RLIMIT_CORE`, bytes.
    CoreBytes,
    /// `RLIMIT_MEMLOCK`, bytes.
    LockedBytes,
    /// `RLIMIT_STACK`, bytes.
    StackBytes,
    /// `RLIMIT_FSIZE`, bytes.
    FileBytes,
}

/// Soft limit of descriptors that a task starts with unless its spec says otherwise. More breaks
/// programs that use select(2) or close every possible descriptor; those that can use more raise it
/// to the hard limit themselves.
pub const OPEN_FILES_SOFT: u64 = 1024;

/// Host paths that a task of the exec driver sees, as Nomad's default `chroot_env` names them.
#[must_use]
pub fn default_host_view() -> Vec<PathBuf> {
    [
        "/bin",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/run/resolvconf",
        "/run/systemd/resolve",
        "/sbin",
        "/usr",
    ]
    .map(PathBuf::from)
    .to_vec()
}

impl SandboxSpec {
    /// A task of the `exec` driver: own root and namespaces (all but the network), the thirteen
    /// default capabilities of Nomad, no new privileges, the default seccomp profile.
    ///
    /// The identity is the keeper's until it is set: callers look up `nobody` or the job's `user`.
    #[must_use]
    pub fn exec(layout: TaskLayout, identity: Identity, command: impl Into<String>) -> Self {
        Self {
            root: Root::ReadOnlyHostView {
                layout,
                paths: default_host_view(),
                binds: Vec::new(),
                masked: Vec::new(),
            },
            namespaces: BTreeSet::from([
                Namespace::Mount,
                Namespace::Pid,
                Namespace::Ipc,
                Namespace::Uts,
                Namespace::Cgroup,
            ]),
            identity,
            capabilities: Capabilities::Only(CapabilitySet::TASK_DEFAULT),
            new_privileges: NewPrivileges::Forbidden,
            seccomp: SeccompProfile::Default,
            working_directory: PathBuf::from("/"),
            ..Self::plain(command.into())
        }
    }

    /// A task of the `raw_exec` driver: the host as it is, in a session and a cgroup of its own.
    #[must_use]
    pub fn raw_exec(layout: TaskLayout, command: impl Into<String>) -> Self {
        Self {
            working_directory: layout.task.clone(),
            root: Root::Host { layout },
            ..Self::plain(command.into())
        }
    }

    /// What both drivers share.
    fn plain(command: String) -> Self {
        Self {
            root: Root::Host {
                layout: TaskLayout {
                    shared: PathBuf::from("/"),
                    task: PathBuf::from("/"),
                },
            },
            namespaces: BTreeSet::new(),
            network: Network::Host,
            hostname: None,
            identity: Identity::Keeper,
            capabilities: Capabilities::Keeper,
            new_privileges: NewPrivileges::Allowed,
            seccomp: SeccompProfile::None,
            resource_limits: vec![ResourceLimit {
                resource: Resource::OpenFiles,
                soft: Some(OPEN_FILES_SOFT),
                hard: None,
            }],
            oom_score_adj: 0,
            umask: 0o022,
            nice: 0,
            processors: Vec::new(),
            working_directory: PathBuf::from("/"),
            command,
            args: Vec::new(),
            env: BTreeMap::new(),
            terminal: Terminal::None,
            first_process: FirstProcess::Program,
        }
    }

    /// The task's directories on the host.
    #[must_use]
    pub const fn layout(&self) -> &TaskLayout {
        match &self.root {
            Root::Host { layout } | Root::ReadOnlyHostView { layout, .. } => layout,
        }
    }
}
