//! Sandboxes: what the kernel is asked to do for one task, planned as data, then applied.
//!
//! # Entry points
//!
//! - [`plan`] turns a [`SandboxSpec`] into a [`Plan`]: namespaces to be born in, an ordered list
//!   of [`Step`]s, one program to execute. It is pure: no file is opened, nothing is asked of the
//!   kernel, so a plan can be printed, compared and tested without root.
//! - [`plan_exec_into`] does the same for one more process inside a running task.
//! - [`spawn`] clones a child into its cgroup and namespaces; the child applies the steps and
//!   executes the program. It never blocks: the caller polls [`Spawned::report`] and hands it to
//!   [`read_report`].
//! - [`cgroup`] owns the cgroup v2 subtree: create, limit, kill, freeze, read, remove.
//! - [`enforcement`] says what this host is able to enforce, and why not where it is not.
//! - [`signals::pid1_ignores`] answers whether a stop signal would be discarded by the kernel.
//! - [`scratch`] mounts and removes the small memory file systems of a task's secrets.
//!
//! # Inputs and outputs
//!
//! noded plans. The plan travels to keeper as postcard bytes, so `Plan` and everything in it is
//! serde data with [`PLAN_VERSIONS`]; a keeper refuses a version that it does not know. Steps name
//! open files by [`Slot`], never by number: keeper passes them beside the plan as
//! [`Descriptors`].
//!
//! A child that fails writes a [`ChildFailure`] (which step, which errno) to its report pipe and
//! leaves; [`Plan::describe`] makes a sentence of it. End of file on the pipe means that the
//! program runs.
//!
//! # Limits
//!
//! cgroup v2 only. Everything a task could inherit by accident (signal mask, dispositions,
//! session, limits, umask, descriptors, environment) is a step of the plan, so nothing is
//! inherited silently. Paths inside a task's root are resolved beneath a held descriptor and
//! never through a symlink.

#[expect(
    unsafe_code,
    reason = "raw system calls have no safe interface; all of them are here"
)]
mod sys;

pub mod cgroup;
pub mod enforcement;
pub mod scratch;
pub mod signals;

mod apply;
mod capability;
mod failure;
mod identity;
mod mounting;
mod plan;
mod reaper;
mod seccomp;
mod spawn;
mod spec;
mod step;

pub use capability::{CapabilitySet, UnknownCapability};
pub use failure::{ChildFailure, Report, ReportError, read_report};
pub use identity::{IdentityError, lookup_identity};
pub use plan::{
    Exec, ExecInto, PLAN_VERSIONS, PidNamespace, Plan, PlanError, plan, plan_exec_into,
};
pub use seccomp::{Filter, Instruction, SeccompProfile};
pub use spawn::{Descriptors, SpawnError, Spawned, spawn};
pub use spec::{
    Access, Bind, Capabilities, FirstProcess, Identity, Namespace, Network, NewPrivileges,
    OPEN_FILES_SOFT, Propagation, Resource, ResourceLimit, Root, SandboxSpec, TaskLayout, Terminal,
    default_host_view,
};
pub use step::{FileSystem, Missing, MountFlags, NamespaceSource, Slot, Step};
