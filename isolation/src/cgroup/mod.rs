//! The cgroup v2 subtree that tasks live in.
//!
//! ```text
//! <mount>/<base>            Hierarchy   ours; made when missing, or delegated to us
//!         ├ supervisor      keeper and pump, so that no level has both children and processes
//!         ├ jail            children of noded that handle foreign bytes
//!         └ tasks/<alloc>/<task>.<run>
//!                           TaskCgroup  made before a task, removed after it
//! ```
//!
//! The mount is found in `/proc/self/mountinfo`, never assumed: on a hybrid host it lies beside
//! version 1 hierarchies, which are not touched. A controller that is bound to version 1 is
//! missing here; limits that need it are returned as [`Unenforced`], never dropped silently.

mod controllers;
mod error;
mod hierarchy;
mod limits;
mod mount;
mod oom;
mod remove;
mod stats;
mod task;

pub use controllers::{Controller, ControllerSet};
pub use error::CgroupError;
pub use hierarchy::{Hierarchy, JAIL, SUPERVISOR, TASKS};
pub use limits::{CPUSET_CPUS, CgroupLimits, CpuMax, MemoryMax, Unenforced};
pub use mount::{Mount, MountError, find_mount};
pub use oom::OomEvents;
pub use remove::{Patience, kill_and_remove_subtree, remove_subtree};
pub use stats::{StatReader, Stats};
pub use task::{Events, TaskCgroup, TaskPath};
