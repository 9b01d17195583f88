//! What keeper and pump set for their own process. Descriptors are what they need most of: two or three per task.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What ps(1) shows, also where the program was started through a link in /proc.
pub(crate) fn name_process(name: &std::ffi::CStr) {
    // A wrong name in a listing is no reason not to run.
    let _ = rustix::thread::set_name(name);
}

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
