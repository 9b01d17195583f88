//! Kernel, operating system, memory, disk and network of the host.

use std::path::Path;

use protocol_model::Node;
use rustix::fs::StatVfs;

use super::set;
use crate::networks::Availability;

/// Bytes and inodes of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) total: u64,
    /// What files take up.
    pub(crate) used: u64,
    /// What may still be written. Together with `used` it may be far less than `total`: what the
    /// file system keeps for root, or for its own needs, is neither.
    pub(crate) free: u64,
    /// 0 where the file system does not count them.
    pub(crate) inodes_total: u64,
    pub(crate) inodes_free: u64,
}

impl Disk {
    /// The bytes of which a share is used, as df(1) counts it.
    pub(crate) fn shared(self) -> u64 {
        self.used.saturating_add(self.free)
    }
}

/// The device that a directory is on: that of the longest mount point above it; empty where nothing
/// is mounted above.
pub(crate) fn device_of(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, point) = (words.next()?, Path::new(words.next()?));
        path.starts_with(point)
            .then(|| (point.components().count(), device.to_owned()))
    });
    // Of two at the same place the later one covers the earlier.
    above
        .max_by_key(|(length, _)| *length)
        .map(|(_, device)| device)
        .unwrap_or_default()
}

pub(super) fn add_attributes(node: &mut Node) {
    let uname = rustix::system::uname();
    set(node, "kernel.name", "linux");
    set(node, "kernel.version", uname.release().to_string_lossy());
    set(node, "kernel.arch", uname.machine().to_string_lossy());
    set(node, "unique.hostname", uname.nodename().to_string_lossy());
    set(
        node,
        "os.signals",
        "SIGABRT,SIGALRM,SIGBUS,SIGCHLD,SIGCONT,SIGFPE,SIGHUP,SIGILL,SIGINT,\
        SIGIO,SIGKILL,SIGPIPE,SIGPROF,SIGQUIT,SIGSEGV,SIGSTOP,SIGSYS,SIGTERM,SIGTRAP,SIGTSTP,\
        SIGTTIN,SIGTTOU,SIGURG,SIGUSR1,SIGUSR2,SIGWINCH,SIGXCPU,SIGXFSZ",
    );
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    for (attribute, key) in [("os.name", "ID"), ("os.version", "VERSION_ID")] {
        if let Some(value) = os_release(&release, key) {
            set(node, attribute, value);
        }
    }
}

/// The scheduler looks for this where a group asks for the mode.
pub(super) fn add_bridge(node: &mut Node, bridge: &Availability) {
    let present = *bridge == Availability::Present;
    set(node, "network.mode.bridge", present);
}

fn os_release(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix('=')?;
        // Either kind of quotes (os-release(5)).
        Some(value.trim_matches(['"', '\'']).to_owned())
    })
}

pub(crate) fn memory_bytes() -> u64 {
    meminfo("MemTotal")
}

/// A line of `/proc/meminfo` in bytes; 0 where there is none.
pub(crate) fn meminfo(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix(':')?;
            let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
            Some(kib * 1024)
        })
        .unwrap_or(0)
}

pub(crate) fn disk(path: &Path) -> Disk {
    match rustix::fs::statvfs(path) {
        Ok(stat) => counted(&stat),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the disk cannot be measured");
            Disk::default()
        }
    }
}

fn counted(stat: &StatVfs) -> Disk {
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Disk {
        total: bytes(stat.f_blocks),
        used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        free: bytes(stat.f_bavail),
        inodes_total: stat.f_files,
        inodes_free: stat.f_favail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_keeps_for_itself_is_not_used() {
        let mut stat = rustix::fs::statvfs("/").expect("a file system");
        (stat.f_frsize, stat.f_blocks) = (4096, 100);
        (stat.f_bfree, stat.f_bavail) = (60, 10);
        let disk = counted(&stat);
        assert_eq!(
            (disk.total, disk.used, disk.free),
            (409_600, 163_840, 40_960)
        );
        assert_eq!(disk.shared(), 204_800);
    }

    #[test]
    fn os_release_is_read_by_whole_keys() {
        let text = "PRETTY_NAME=\"Debian\"\nVERSION_ID=\"12\"\nID='debian'\n";
        assert_eq!(os_release(text, "ID").as_deref(), Some("debian"));
        assert_eq!(os_release(text, "VERSION_ID").as_deref(), Some("12"));
        assert_eq!(os_release(text, "NAME"), None);
    }
}
