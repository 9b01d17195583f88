//! The restrictions of a child, in the order in which they are possible.
//!
//! ```text
//!  limit()    not dumpable, parent-death signal, resource limits, no capabilities,
//!             no new privileges                                  before the request is read
//!  shut_in()  landlock -> thread that watches descriptor 0 -> seccomp    before it is worked on
//! ```
//!
//! Landlock restricts the calling thread and those that it starts, so the thread comes after it.
//! The seccomp filter is put on all threads at once.

mod calls;
mod files;

use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::verb::VerbLimits;

/// The access that a child keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// Processor and memory: no file, no socket, no process.
    Compute,
    /// TCP and UDP to others, the host's programs, and one directory to write in.
    Fetch {
        /// The directory.
        staging: PathBuf,
    },
}

/// A restriction that the host refused. The child does no work.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A call of [`limit`].
    #[error("cannot confine this process: {step}")]
    Step {
        /// The restriction.
        step: &'static str,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
    /// landlock.
    #[error("cannot confine this process: landlock")]
    Landlock(#[source] landlock::RulesetError),
    /// The thread that watches descriptor 0.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The list of refusals that tasks have, too.
    #[error("cannot compile the system call filter of tasks")]
    Refusals(#[source] isolation::PlanError),
    /// The filter cannot be compiled.
    #[error("cannot compile the system call filter")]
    Compile(#[source] seccompiler::BackendError),
    /// The filter cannot be installed.
    #[error("cannot confine this process: seccomp")]
    Seccomp(#[source] seccompiler::Error),
    /// No list of calls for this processor.
    #[error("no system call filter for the processor {0}")]
    Processor(&'static str),
}

/// The number of bits that a set of capabilities has.
const CAPABILITY_BITS: u32 = 64;

/// Restrictions that no request changes.
///
/// # Errors
/// The kernel refused one.
pub fn limit(limits: &VerbLimits) -> Result<(), ConfineError> {
    let step = |step| move |source| ConfineError::Step { step, source };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("parent-death signal"))?;
    // Its memory may hold credentials: no other process reads it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("dumpable"))?;
    let data = limits.data_bytes as u64;
    let seconds = limits.processor_time.as_secs();
    let file_bytes = limits
        .file_bytes
        .map(|bytes| (Resource::Fsize, bytes, bytes));
    let fixed = [
        (Resource::Core, 0, 0),
        (Resource::Data, data, data),
        (Resource::Nofile, limits.open_files, limits.open_files),
        // SIGXCPU tells the parent the reason; the hard limit is SIGKILL.
        (Resource::Cpu, seconds, seconds + 1),
    ];
    for (resource, soft, hard) in fixed.into_iter().chain(file_bytes) {
        let limit = Rlimit {
            current: Some(soft),
            maximum: Some(hard),
        };
        setrlimit(resource, limit).map_err(step("resource limits"))?;
    }
    drop_capabilities().map_err(step("capabilities"))?;
    set_no_new_privs(true).map_err(step("no new privileges"))
}

/// Restrictions by profile. `watch` starts a thread that lives under all of them.
///
/// # Errors
/// The kernel refused one. A kernel without landlock is no error: seccomp alone refuses the calls.
pub fn shut_in(
    profile: &Profile,
    watch: impl FnOnce() -> io::Result<JoinHandle<()>>,
) -> Result<(), ConfineError> {
    files::restrict(profile)?;
    let _detached = watch().map_err(ConfineError::Thread)?;
    calls::restrict(profile)
}

/// No capability now, and none by executing a program.
fn drop_capabilities() -> Result<(), Errno> {
    if capabilities(None)?
        .permitted
        .contains(CapabilitySet::SETPCAP)
    {
        for bit in 0..CAPABILITY_BITS {
            match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
                Ok(()) => {}
                // Past the last one that this kernel knows.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(errno),
            }
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)
}
