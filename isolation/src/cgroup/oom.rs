//! Kills for want of memory: one watch for all tasks, and the count of each.
//!
//! ```text
//!   tasks/memory.events                  counts the kills of all tasks; POLLPRI when it changes
//!   tasks/<alloc>/<task>.<run>/
//!       memory.events                    counts those of one run
//!       xattr trusted.drover.oom_kills   how many of them were reported
//! ```
//!
//! The attribute lives exactly as long as the cgroup, so a restarted noded neither repeats a report
//! nor misses a kill.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::error::CgroupError;
use super::hierarchy::Hierarchy;
use super::stats::keyed;
use super::task::TaskCgroup;

const EVENTS: &str = "memory.events";
/// Kernels without cgroup attributes for users have those for root.
const REPORTED: &str = "trusted.drover.oom_kills";
/// The digits of the largest number.
const DIGITS_MAX: usize = 20;

/// `memory.events` of all tasks together: POLLPRI means that a count in it changed.
#[derive(Debug)]
pub struct OomEvents(OwnedFd);

impl OomEvents {
    /// The descriptor to poll.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for OomEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Hierarchy {
    /// The kills of all tasks, to be watched; `None` without a memory controller.
    ///
    /// # Errors
    /// The file is there and cannot be opened.
    pub fn oom_events(&self) -> Result<Option<OomEvents>, CgroupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(self.tasks_directory(), EVENTS, flags, Mode::empty()) {
            Ok(file) => Ok(Some(OomEvents(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(source) => Err(CgroupError::Read {
                path: self.base().join(super::TASKS),
                file: EVENTS,
                source,
            }),
        }
    }
}

impl TaskCgroup {
    /// Processes in it and below that the kernel killed for want of memory.
    ///
    /// # Errors
    /// There is no memory controller, or the cgroup is gone.
    pub fn oom_kills(&self) -> Result<u64, CgroupError> {
        let text = self.read(EVENTS)?;
        keyed(&text, "oom_kill").ok_or_else(|| CgroupError::Content {
            path: self.path().to_owned(),
            file: EVENTS,
            content: text.lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// The kills that [`Self::set_reported_oom_kills`] noted; 0 before.
    #[must_use]
    pub fn reported_oom_kills(&self) -> u64 {
        let mut buffer = [0; DIGITS_MAX];
        let length = rustix::fs::fgetxattr(self, REPORTED, &mut buffer).unwrap_or(0);
        let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Notes that so many kills were reported.
    ///
    /// # Errors
    /// The file system has no such attributes, or the cgroup is gone.
    pub fn set_reported_oom_kills(&self, kills: u64) -> Result<(), Errno> {
        let text = kills.to_string();
        rustix::fs::fsetxattr(self, REPORTED, text.as_bytes(), XattrFlags::empty())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cgroup::ControllerSet;

    #[test]
    fn reported_kills_are_kept_with_the_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let directory = std::fs::File::open(folder.path()).unwrap().into();
            let controllers = ControllerSet::parse("memory");
            TaskCgroup::new(PathBuf::new(), PathBuf::from("t"), directory, controllers)
        };
        let first = open();
        assert!(first.oom_kills().is_err(), "there is no file yet");
        let events = "low 0\nhigh 7\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n";
        std::fs::write(folder.path().join(EVENTS), events).unwrap();
        assert_eq!(first.oom_kills().unwrap(), 3);
        assert_eq!(first.reported_oom_kills(), 0);
        if let Err(error) = first.set_reported_oom_kills(3) {
            eprintln!("skipped: needs root and extended attributes: {error}");
            return;
        }
        assert_eq!(open().reported_oom_kills(), 3);
    }
}
