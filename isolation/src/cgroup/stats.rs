//! Usage of a cgroup, read through descriptors that stay open: a sample is a few `pread`s.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::error::CgroupError;

/// Larger than any of the files read here.
const FILE_BYTES: usize = 4096;

/// Open usage files of one cgroup.
#[derive(Debug)]
pub struct StatReader {
    path: PathBuf,
    cpu: OwnedFd,
    memory: Option<OwnedFd>,
    swap: Option<OwnedFd>,
    memory_events: Option<OwnedFd>,
    pids: Option<OwnedFd>,
}

/// One sample. `None` means that the host has no controller that counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Processor time used.
    pub cpu_usage_us: u64,
    /// Of it, in user mode.
    pub cpu_user_us: u64,
    /// Of it, in the kernel.
    pub cpu_system_us: u64,
    /// How often `cpu.max` stopped it.
    pub throttled_periods: Option<u64>,
    /// For how long.
    pub throttled_us: Option<u64>,
    /// Memory charged to it.
    pub memory_bytes: Option<u64>,
    /// Swap charged to it.
    pub swap_bytes: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

impl StatReader {
    pub(super) fn open(directory: BorrowedFd<'_>, path: &Path) -> Result<Self, CgroupError> {
        let open = |file: &'static str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::openat(directory, file, flags, Mode::empty()).map_err(|source| {
                CgroupError::Read {
                    path: path.to_owned(),
                    file,
                    source,
                }
            })
        };
        let optional = |file| match open(file) {
            Ok(fd) => Ok(Some(fd)),
            // The controller is not here.
            Err(CgroupError::Read {
                source: Errno::NOENT,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        };
        Ok(Self {
            path: path.to_owned(),
            cpu: open("cpu.stat")?,
            memory: optional("memory.current")?,
            swap: optional("memory.swap.current")?,
            memory_events: optional("memory.events")?,
            pids: optional("pids.current")?,
        })
    }

    /// Reads all counters now.
    ///
    /// # Errors
    /// A file could not be read (the cgroup is gone: ENODEV) or understood.
    pub fn read(&self) -> Result<Stats, CgroupError> {
        let mut buffer = [0; FILE_BYTES];
        let cpu = self.text(&self.cpu, "cpu.stat", &mut buffer)?;
        let required = |key| {
            keyed(cpu, key).ok_or_else(|| CgroupError::Content {
                path: self.path.clone(),
                file: "cpu.stat",
                content: cpu.lines().next().unwrap_or_default().to_owned(),
            })
        };
        let mut stats = Stats {
            cpu_usage_us: required("usage_usec")?,
            cpu_user_us: required("user_usec")?,
            cpu_system_us: required("system_usec")?,
            throttled_periods: keyed(cpu, "nr_throttled"),
            throttled_us: keyed(cpu, "throttled_usec"),
            ..Stats::default()
        };
        stats.memory_bytes = self.number(self.memory.as_ref(), "memory.current")?;
        stats.swap_bytes = self.number(self.swap.as_ref(), "memory.swap.current")?;
        stats.pids = self.number(self.pids.as_ref(), "pids.current")?;
        if let Some(fd) = &self.memory_events {
            stats.oom_kills = keyed(self.text(fd, "memory.events", &mut buffer)?, "oom_kill");
        }
        Ok(stats)
    }

    fn number(&self, fd: Option<&OwnedFd>, file: &'static str) -> Result<Option<u64>, CgroupError> {
        let Some(fd) = fd else { return Ok(None) };
        let mut buffer = [0; FILE_BYTES];
        let text = self.text(fd, file, &mut buffer)?.trim();
        text.parse().map(Some).map_err(|_| CgroupError::Content {
            path: self.path.clone(),
            file,
            content: text.to_owned(),
        })
    }

    fn text<'a>(
        &self,
        fd: &OwnedFd,
        file: &'static str,
        buffer: &'a mut [u8; FILE_BYTES],
    ) -> Result<&'a str, CgroupError> {
        let read = |source| CgroupError::Read {
            path: self.path.clone(),
            file,
            source,
        };
        let length = rustix::io::pread(fd, &mut buffer[..], 0).map_err(read)?;
        std::str::from_utf8(&buffer[..length]).map_err(|_| read(Errno::ILSEQ))
    }
}

/// The value in a line `key value`.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_values_need_the_whole_key() {
        let text = "usage_usec 70\nuser_usec 50\nnr_throttled 3\n";
        assert_eq!(keyed(text, "usage_usec"), Some(70));
        assert_eq!(keyed(text, "usage"), None);
        assert_eq!(keyed(text, "throttled_usec"), None);
    }
}
