//! What keeper does with cgroups: list and open those beneath its base, kill one, see whether it is
//! empty.
//!
//! A directory is opened for each use: a descriptor per idle task would cost more than the open.

use super::custody::Tree;
use crate::protocol::OomKill;
use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What statfs(2) says of cgroup v2 (linux/magic.h).
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// Entries read of one directory: files of cgroup v2, and several times as many cgroups as runs.
const LISTED_MAX: usize = 8 * super::custody::RUNS_MAX;

/// The directory below which every task cgroup lies.
#[derive(Debug)]
pub(crate) struct CgroupBase {
    directory: OwnedFd,
}

/// One task's cgroup, open.
#[derive(Debug)]
pub(crate) struct TaskCgroup {
    directory: OwnedFd,
}

impl CgroupBase {
    /// Opens the base, which is made when missing: after a reboot keeper comes before noded. A
    /// directory that is not in cgroup v2 is refused, because plain directories would hold nothing.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                let parent = Self::open(path.parent().ok_or(Errno::NOENT)?)?;
                let name = path.file_name().ok_or(Errno::INVAL)?;
                match fs::mkdirat(&parent.directory, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                fs::openat(&parent.directory, name, flags, Mode::empty())?
            }
            directory => directory?,
        };
        let magic: i64 = fs::fstatfs(&directory)?.f_type;
        if magic == CGROUP2_MAGIC {
            Ok(Self { directory })
        } else {
            Err(Errno::NOTSUP)
        }
    }

    /// Whether no other keeper uses this base, so that whatever runs below it is ours. That holds
    /// until [`Self::share`]. A keeper of an earlier release takes no lock and is not seen.
    pub(crate) fn is_ours_alone(&self) -> Result<bool, Errno> {
        match fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Lets other keepers know that this one uses the base, for as long as it lives (flock(2)).
    pub(crate) fn share(&self) -> Result<(), Errno> {
        fs::flock(&self.directory, FlockOperation::NonBlockingLockShared)
    }

    pub(crate) fn task(&self, relative: &str) -> Result<TaskCgroup, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let directory = fs::openat2(&self.directory, relative, flags, Mode::empty(), resolve)?;
        Ok(TaskCgroup { directory })
    }

    /// Names of the cgroups directly below the base, or below one of them.
    pub(crate) fn children(&self, relative: Option<&str>) -> Result<Vec<String>, Errno> {
        let below = relative.map(|relative| self.task(relative)).transpose()?;
        let directory = below
            .as_ref()
            .map_or_else(|| self.directory.as_fd(), AsFd::as_fd);
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(directory)?.take(LISTED_MAX) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if entry.file_type() == FileType::Directory && name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }
}

/// Whether a keeper uses the cgroups below `path`; one that is not there is used by none.
///
/// # Errors
/// Where it is no directory of cgroup v2, or cannot be locked.
pub fn is_base_used(path: &Path) -> Result<bool, Errno> {
    if !path.exists() {
        return Ok(false);
    }
    CgroupBase::open(path)?.is_ours_alone().map(|ours| !ours)
}

impl TaskCgroup {
    /// Whether any process is in it or below.
    pub(crate) fn tree(&self) -> Result<Tree, Errno> {
        let events = self.read("cgroup.events")?;
        Ok(if value_of(&events, "populated") == Some(0) {
            Tree::Empty
        } else {
            Tree::Populated
        })
    }

    /// Kills every process in it and below, forks in progress included (Linux 5.14).
    pub(crate) fn kill(&self) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = fs::openat(&self.directory, "cgroup.kill", flags, Mode::empty())?;
        rustix::io::write(&file, b"1").map(drop)
    }

    /// A descriptor that polls as exceptional when `populated` changes.
    pub(crate) fn watch(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        fs::openat(&self.directory, "cgroup.events", flags, Mode::empty())
    }

    /// How many processes the kernel killed here for want of memory since the cgroup was made;
    /// `None` without the memory controller.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let events = self.read("memory.events").ok()?;
        value_of(&events, "oom_kill")
    }

    fn read(&self, name: &str) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = fs::openat(&self.directory, name, flags, Mode::empty())?;
        let mut bytes = [0; 1024];
        let length = rustix::io::read(&file, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

impl AsFd for TaskCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Compares the count of now with the count at the start of the run.
pub(crate) fn oom_between(at_start: Option<u64>, now: Option<u64>) -> OomKill {
    match (at_start, now) {
        (_, None) => OomKill::NotMeasured,
        (before, Some(now)) if now > before.unwrap_or(0) => OomKill::Yes,
        (_, Some(_)) => OomKill::No,
    }
}

fn value_of(text: &str, field: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plain_directory_becomes_a_base() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("drover/tasks");
        assert_eq!(CgroupBase::open(&base).unwrap_err(), Errno::NOTSUP);
        assert!(!folder.path().join("drover").exists());
    }

    #[test]
    fn fields_are_told_from_those_that_begin_alike() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(value_of(events, "oom_kill"), Some(2));
        assert_eq!(value_of(events, "oom"), Some(3));
        assert_eq!(value_of(events, "frozen"), None);
    }

    #[test]
    fn only_kills_since_the_start_count() {
        assert_eq!(oom_between(Some(2), Some(2)), OomKill::No);
        assert_eq!(oom_between(Some(2), Some(3)), OomKill::Yes);
        assert_eq!(oom_between(None, Some(1)), OomKill::Yes);
        assert_eq!(oom_between(Some(2), None), OomKill::NotMeasured);
    }
}
