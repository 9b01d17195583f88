//! What keeper and pump set for their own process. Descriptors are what they need most of: two or
//! three per task.

use crate::report::tell;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What ps(1) shows, also where the program was started through a link in /proc.
pub(crate) fn name_process(name: &std::ffi::CStr) {
    // A wrong name in a listing is no reason not to run.
    let _ = rustix::thread::set_name(name);
}

/// Raises the soft limit of open files to the hard one, and answers how many may be open. A refusal
/// only means fewer tasks, so it is told and not fatal.
pub(crate) fn raise_open_files(who: &str) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(errno) => {
            tell!("{who}: warning: the limit of open files cannot be raised: {errno}");
            current.unwrap_or(u64::MAX)
        }
    }
}
