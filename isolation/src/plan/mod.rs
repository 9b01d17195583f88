//! From what noded wants to what the kernel is told: pure, ordered, printable.
//!
//! ```text
//! clone3 (namespaces, cgroup)
//!   -> signals, session, keyring        what must not be inherited
//!   -> processors, oom score, streams, limits   while still root on the host
//!   -> network, cgroup namespace
//!   -> volumes that stay connected with the host
//!   -> mounts -> pivot                  everything by descriptor beneath the new root
//!   -> host name, working directory
//!   -> bounding set -> identity -> capabilities -> no new privileges -> seccomp
//!   -> close on exec, umask, reaper (if wanted), signal mask
//!   -> exec
//! ```

mod exec_into;
mod process;
mod root;

use std::ffi::{CString, NulError};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::exec_into::{ExecInto, plan_exec_into};
use crate::failure::ChildFailure;
use crate::spec::{FirstProcess, Namespace, Network, NewPrivileges, Root, SandboxSpec};
use crate::step::{NamespaceSource, Slot, Step};

/// Versions of a [`Plan`] that this code applies. A plan has the lowest version that knows all its
/// steps, so that an older keeper still starts what it can; a keeper refuses what it does not know.
pub const PLAN_VERSIONS: RangeInclusive<u32> = 1..=3;

/// Everything between a clone and a running program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// One of [`PLAN_VERSIONS`].
    pub version: u32,
    /// Namespaces the child is born in, apart from that of process ids.
    pub namespaces: Vec<Namespace>,
    /// Where its process id lives.
    pub pid_namespace: PidNamespace,
    /// Descriptors that must come with the plan.
    pub slots: Vec<Slot>,
    /// What the child does, in order.
    pub steps: Vec<Step>,
    /// What it becomes.
    pub exec: Exec,
}

/// Which process id namespace the child belongs to. It can only be chosen at birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    /// That of the keeper.
    Keeper,
    /// A new one, as PID 1.
    New,
    /// That of the process in [`Slot::Target`].
    Target,
}

/// The program at the end of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Paths to try in order, as execvp(3) does: one that is not there or not executable is
    /// passed over.
    pub candidates: Vec<CString>,
    /// Argument vector, program name first.
    pub argv: Vec<CString>,
    /// Environment, `NAME=value`.
    pub env: Vec<CString>,
}

/// Why a specification is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The kernel ends strings at NUL.
    #[error("{subject} contains a NUL byte")]
    NulByte {
        /// What contains it.
        subject: String,
        /// Where.
        #[source]
        source: NulError,
    },
    /// A path that must be absolute.
    #[error("{subject} must be an absolute path without `..`: {path:?}")]
    RelativePath {
        /// What the path is for.
        subject: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// Nothing to execute.
    #[error("the command is empty")]
    EmptyCommand,
    /// A variable name that no environment can hold.
    #[error("environment variable name {name:?} is empty or contains `=`")]
    VariableName {
        /// The name.
        name: String,
    },
    /// A private root without a mount namespace would rearrange the host.
    #[error("a root of its own needs a mount namespace")]
    RootWithoutMountNamespace,
    /// A host name without a namespace for it would rename the host.
    #[error("a host name of its own needs a uts namespace")]
    HostNameWithoutNamespace,
    /// The network is chosen by its own field.
    #[error("the network namespace is joined, not made: use `network`")]
    NewNetwork,
    /// A reaper is PID 1 of something.
    #[error("a reaper as first process needs a pid namespace")]
    ReaperWithoutPidNamespace,
    /// A new pid namespace needs a /proc of its own, which needs a mount namespace.
    #[error("a pid namespace needs a mount namespace for its /proc")]
    PidWithoutMountNamespace,
    /// A value outside what the kernel takes.
    #[error("{subject} is {value}, outside {min} to {max}")]
    OutOfRange {
        /// What it is.
        subject: &'static str,
        /// What it was.
        value: i64,
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A mount below a bind that sends its mounts to the host would cover the host's own files.
    #[error("{} is inside {}, whose mounts the host sees, too", .inner.display(), .outer.display())]
    InsideBidirectional {
        /// The mount that was asked for.
        inner: PathBuf,
        /// The bind's place.
        outer: PathBuf,
    },
    /// The seccomp filter could not be compiled for this machine.
    #[error("cannot compile the seccomp profile")]
    Seccomp(#[source] seccompiler::BackendError),
    /// The profile is not available on this processor.
    #[error("no seccomp profile for the processor {processor}")]
    SeccompProcessor {
        /// Its name.
        processor: &'static str,
    },
}

/// Plans the start of a task. Pure.
///
/// # Errors
/// The specification contradicts itself or holds something that the kernel cannot take.
pub fn plan(spec: &SandboxSpec) -> Result<Plan, PlanError> {
    check_namespaces(spec)?;
    let mut steps = process::inherited(spec)?;
    steps.extend(network(spec)?);
    if spec.namespaces.contains(&Namespace::Cgroup) {
        steps.push(Step::NewCgroupNamespace);
    }
    if let Root::ReadOnlyHostView { binds, .. } = &spec.root {
        steps.extend(root::taken(binds)?);
    }
    if spec.namespaces.contains(&Namespace::Mount) {
        steps.push(Step::PrivateMounts);
    }
    if let Root::ReadOnlyHostView {
        layout,
        paths,
        binds,
        masked,
    } = &spec.root
    {
        let view = root::View {
            layout,
            paths,
            binds,
            masked,
        };
        steps.extend(root::steps(spec, &view)?);
    }
    if let Some(name) = &spec.hostname {
        steps.push(Step::HostName(c_string("host name", name.as_bytes())?));
    }
    steps.extend(process::powers(spec, spec.first_process)?);

    let mut slots = vec![Slot::Input, Slot::Output, Slot::Error];
    if spec.network == Network::Descriptor {
        slots.push(Slot::Network);
    }
    Ok(Plan {
        version: version_of(&steps),
        namespaces: born_in(spec),
        pid_namespace: if spec.namespaces.contains(&Namespace::Pid) {
            PidNamespace::New
        } else {
            PidNamespace::Keeper
        },
        slots,
        steps,
        exec: process::exec(spec)?,
    })
}

impl Plan {
    /// A sentence for a failure that a child reported: which step, on what, why.
    #[must_use]
    pub fn describe(&self, failure: ChildFailure) -> String {
        let errno = std::io::Error::from_raw_os_error(failure.errno);
        let offset = failure.step as usize;
        match self.steps.get(offset) {
            Some(step) => format!("step {offset} ({step}): {errno}"),
            None if offset == self.steps.len() => {
                let tried: Vec<_> = self
                    .exec
                    .candidates
                    .iter()
                    .map(|path| path.to_string_lossy())
                    .collect();
                format!("cannot execute {}: {errno}", tried.join(" or "))
            }
            None => format!("unknown step {offset}: {errno}"),
        }
    }
}

/// The whole plan, one line per step.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            version,
            namespaces,
            pid_namespace,
            slots,
            steps,
            exec,
        } = self;
        writeln!(f, "plan version {version}")?;
        writeln!(
            f,
            "born in: {namespaces:?}, pid namespace {pid_namespace:?}"
        )?;
        writeln!(f, "descriptors: {slots:?}")?;
        for (offset, step) in steps.iter().enumerate() {
            writeln!(f, "{offset:3} {step}")?;
        }
        for candidate in &exec.candidates {
            writeln!(f, "exec {}", candidate.to_string_lossy())?;
        }
        writeln!(f, "argv {:?}", exec.argv)?;
        exec.env
            .iter()
            .try_for_each(|variable| writeln!(f, "env {}", variable.to_string_lossy()))
    }
}

fn version_of(steps: &[Step]) -> u32 {
    let newest = steps.iter().map(Step::since).max();
    newest.unwrap_or(*PLAN_VERSIONS.start())
}

fn check_namespaces(spec: &SandboxSpec) -> Result<(), PlanError> {
    let has = |kind| spec.namespaces.contains(&kind);
    if has(Namespace::Network) {
        return Err(PlanError::NewNetwork);
    }
    if matches!(spec.root, Root::ReadOnlyHostView { .. }) && !has(Namespace::Mount) {
        return Err(PlanError::RootWithoutMountNamespace);
    }
    if has(Namespace::Pid) && !has(Namespace::Mount) {
        return Err(PlanError::PidWithoutMountNamespace);
    }
    if spec.first_process == FirstProcess::Reaper && !has(Namespace::Pid) {
        return Err(PlanError::ReaperWithoutPidNamespace);
    }
    if spec.hostname.is_some() && !has(Namespace::Uts) {
        return Err(PlanError::HostNameWithoutNamespace);
    }
    Ok(())
}

/// Namespaces made by clone itself: all but that of cgroups (see [`Step::NewCgroupNamespace`])
/// and that of process ids, which has a field of its own.
fn born_in(spec: &SandboxSpec) -> Vec<Namespace> {
    spec.namespaces
        .iter()
        .copied()
        .filter(|kind| !matches!(kind, Namespace::Cgroup | Namespace::Pid))
        .collect()
}

fn network(spec: &SandboxSpec) -> Result<Option<Step>, PlanError> {
    let from = match &spec.network {
        Network::Host => return Ok(None),
        Network::Descriptor => NamespaceSource::Slot(Slot::Network),
        Network::Path(path) => NamespaceSource::Path(root::absolute("network namespace", path)?),
    };
    Ok(Some(Step::JoinNamespaces {
        kinds: vec![Namespace::Network],
        from,
    }))
}

fn c_string(subject: &str, bytes: &[u8]) -> Result<CString, PlanError> {
    CString::new(bytes).map_err(|source| PlanError::NulByte {
        subject: subject.to_owned(),
        source,
    })
}

/// As many as a signed number of this size, for a message.
fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

const fn forbids_new_privileges(spec: &SandboxSpec) -> bool {
    matches!(spec.new_privileges, NewPrivileges::Forbidden)
}
