//! Descriptors are what keeper and pump need most of: two or three per task.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one. A refusal only means fewer tasks, so it is told and not fatal.
pub(crate) fn raise_open_files(who: &str) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        eprintln!("{who}: warning: the limit of open files cannot be raised: {errno}");
    }
}
