//! One task's cgroup: born into, limited, frozen, killed, watched.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::controllers::ControllerSet;
use super::error::CgroupError;
use super::hierarchy::{read_at, write};
use super::limits::{self, CgroupLimits, Unenforced};
use super::stats::StatReader;

/// Longest file name (NAME_MAX).
const NAME_BYTES_MAX: usize = 255;

/// Whose cgroup it is. Both names are plain directory names; that of a task may say which of its
/// runs is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskPath {
    alloc: String,
    task: String,
}

/// The cgroup of one task.
#[derive(Debug)]
pub struct TaskCgroup {
    mount: PathBuf,
    path: PathBuf,
    directory: OwnedFd,
    controllers: ControllerSet,
}

/// `cgroup.events` held open: POLLPRI on it means that [`Self::populated`] may have changed.
#[derive(Debug)]
pub struct Events {
    file: OwnedFd,
    path: PathBuf,
}

impl TaskPath {
    /// A path from the names of an allocation and a task.
    ///
    /// # Errors
    /// A name is empty, too long, contains `/` or NUL, or begins with `.`: such a name could leave
    /// the subtree or hide in it.
    pub fn new(alloc: &str, task: &str) -> Result<Self, CgroupError> {
        for name in [alloc, task] {
            let plain = !name.is_empty()
                && name.len() <= NAME_BYTES_MAX
                && !name.starts_with('.')
                && !name.contains(['/', '\0']);
            if !plain {
                return Err(CgroupError::Name {
                    name: name.to_owned(),
                });
            }
        }
        Ok(Self {
            alloc: alloc.to_owned(),
            task: task.to_owned(),
        })
    }

    /// Name of the allocation.
    #[must_use]
    pub fn alloc(&self) -> &str {
        &self.alloc
    }

    /// Name of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }
}

impl fmt::Display for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.alloc, self.task)
    }
}

impl TaskCgroup {
    pub(super) const fn new(
        mount: PathBuf,
        path: PathBuf,
        directory: OwnedFd,
        controllers: ControllerSet,
    ) -> Self {
        Self {
            mount,
            path,
            directory,
            controllers,
        }
    }

    /// Sets limits. Returns those that this host cannot enforce because their controller is
    /// missing; everything else is set.
    ///
    /// # Errors
    /// The kernel refused a limit whose controller is there.
    pub fn apply_limits(&self, limits: &CgroupLimits) -> Result<Vec<Unenforced>, CgroupError> {
        limits::apply(self, limits)
    }

    /// Kills every process in it and below, those being forked included (`cgroup.kill`). Returns
    /// before they are gone: wait for `populated` to become false.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn kill(&self) -> Result<(), CgroupError> {
        self.write("cgroup.kill", "1")
    }

    /// Asks for all processes to stop where they are; `cgroup.events` tells when they have.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn freeze(&self) -> Result<(), CgroupError> {
        self.write("cgroup.freeze", "1")
    }

    /// Lets frozen processes go on.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn thaw(&self) -> Result<(), CgroupError> {
        self.write("cgroup.freeze", "0")
    }

    /// Processes in this cgroup itself, numbered in the caller's namespace.
    ///
    /// # Errors
    /// The list could not be read.
    pub fn procs(&self) -> Result<Vec<u32>, CgroupError> {
        let text = self.read("cgroup.procs")?;
        text.lines()
            .map(|line| line.parse().map_err(|_| self.content("cgroup.procs", line)))
            .collect()
    }

    /// Whether any process lives in it or below.
    ///
    /// # Errors
    /// `cgroup.events` could not be read.
    pub fn populated(&self) -> Result<bool, CgroupError> {
        parse_event(&self.path, &self.read("cgroup.events")?, "populated")
    }

    /// Whether all its processes are frozen now.
    ///
    /// # Errors
    /// `cgroup.events` could not be read.
    pub fn frozen(&self) -> Result<bool, CgroupError> {
        parse_event(&self.path, &self.read("cgroup.events")?, "frozen")
    }

    /// `cgroup.events`, to be watched.
    ///
    /// # Errors
    /// It could not be opened.
    pub fn events(&self) -> Result<Events, CgroupError> {
        Events::open(self.directory.as_fd(), &self.path)
    }

    /// The usage files, to be read many times.
    ///
    /// # Errors
    /// `cpu.stat`, which every cgroup has, could not be opened.
    pub fn stat_reader(&self) -> Result<StatReader, CgroupError> {
        StatReader::open(self.directory.as_fd(), &self.path)
    }

    /// Its path below the mount.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    pub(super) const fn controllers(&self) -> &ControllerSet {
        &self.controllers
    }

    /// Whether this kernel has a file for it.
    pub(super) fn has(&self, file: &'static str) -> bool {
        rustix::fs::accessat(&self.directory, file, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    pub(super) fn write(&self, file: &'static str, value: &str) -> Result<(), CgroupError> {
        write(self.directory.as_fd(), &self.path, file, value)
    }

    /// A file of it as it is now, for what [`Self::stat_reader`] does not read.
    ///
    /// # Errors
    /// It is not there, as those of a missing controller are not, or could not be read.
    pub fn read(&self, file: &'static str) -> Result<String, CgroupError> {
        read_at(self.directory.as_fd(), file).map_err(|source| CgroupError::Read {
            path: self.path.clone(),
            file,
            source,
        })
    }

    fn content(&self, file: &'static str, line: &str) -> CgroupError {
        CgroupError::Content {
            path: self.path.clone(),
            file,
            content: line.to_owned(),
        }
    }
}

/// The directory: what [`crate::spawn`] takes.
impl AsFd for TaskCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Events {
    pub(super) fn open(directory: BorrowedFd<'_>, path: &Path) -> Result<Self, CgroupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, "cgroup.events", flags, Mode::empty())
            .map_err(|source| read_error(path, source))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Whether any process lives in the cgroup or below. Reading also arms the next POLLPRI.
    ///
    /// # Errors
    /// The file could not be read: the cgroup is gone (ENODEV).
    pub fn populated(&self) -> Result<bool, CgroupError> {
        let mut buffer = [0; 128];
        let length = rustix::io::pread(&self.file, &mut buffer, 0)
            .map_err(|source| read_error(&self.path, source))?;
        parse_event(
            &self.path,
            &String::from_utf8_lossy(&buffer[..length]),
            "populated",
        )
    }

    /// Waits until no process is left, for at most `timeout_ms`; says whether that is so.
    ///
    /// # Errors
    /// The file could not be read or watched.
    pub fn wait_empty(&self, timeout_ms: u32) -> Result<bool, CgroupError> {
        if !self.populated()? {
            return Ok(true);
        }
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        let mut watched = [PollFd::new(&self.file, PollFlags::PRI)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => self.populated().map(|populated| !populated),
            Err(source) => Err(read_error(&self.path, source)),
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn read_error(path: &Path, source: Errno) -> CgroupError {
    CgroupError::Read {
        path: path.to_owned(),
        file: "cgroup.events",
        source,
    }
}

/// A line `name 0` or `name 1`.
fn parse_event(path: &Path, text: &str, name: &str) -> Result<bool, CgroupError> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    match value {
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        _ => Err(CgroupError::Content {
            path: path.to_owned(),
            file: "cgroup.events",
            content: text.lines().next().unwrap_or_default().to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_leave_the_subtree_is_refused() {
        for name in ["", "..", ".hidden", "a/b", "a\0b", &"x".repeat(256)] {
            assert!(matches!(
                TaskPath::new("alloc", name),
                Err(CgroupError::Name { .. })
            ));
            assert!(matches!(
                TaskPath::new(name, "task"),
                Err(CgroupError::Name { .. })
            ));
        }
        let path = TaskPath::new("0e7f", "web server").map(|path| path.to_string());
        assert!(matches!(path.as_deref(), Ok("0e7f/web server")));
    }

    #[test]
    fn events_are_read_by_name() {
        let path = Path::new("x");
        let text = "populated 1\nfrozen 0\n";
        assert!(matches!(parse_event(path, text, "populated"), Ok(true)));
        assert!(matches!(parse_event(path, text, "frozen"), Ok(false)));
        assert!(matches!(
            parse_event(path, "odd\n", "frozen"),
            Err(CgroupError::Content { .. })
        ));
    }
}
