//! Kernel, operating system, memory, disk and network of the host.

use std::path::Path;

use protocol_model::Node;

use super::{network, set};
use crate::keeper_link::chain;

/// Bytes and inodes of a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) total: u64,
    pub(crate) free: u64,
    /// 0 where the file system does not count them.
    pub(crate) inodes_total: u64,
    pub(crate) inodes_free: u64,
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

pub(super) fn add_network(node: &mut Node) {
    let found = match netns::default_interface() {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the default route cannot be read");
            None
        }
    };
    let reachable = found.and_then(|found| Some((found.link.name, found.address?)));
    // A host without a route still runs tasks, which reach each other on the loopback.
    let (device, ip) = match reachable {
        Some((device, address)) => (device, address.to_string()),
        None => ("lo".to_owned(), "127.0.0.1".to_owned()),
    };
    set(node, "unique.network.ip-address", &ip);
    let width = if ip.contains(':') { 128 } else { 32 };
    let cidr = format!("{ip}/{width}");
    node.node_resources.networks = vec![network(&device, &ip, &cidr)];
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
        Ok(stat) => Disk {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            inodes_total: stat.f_files,
            inodes_free: stat.f_favail,
        },
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the disk cannot be measured");
            Disk::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_read_by_whole_keys() {
        let text = "PRETTY_NAME=\"Debian\"\nVERSION_ID=\"12\"\nID='debian'\n";
        assert_eq!(os_release(text, "ID").as_deref(), Some("debian"));
        assert_eq!(os_release(text, "VERSION_ID").as_deref(), Some("12"));
        assert_eq!(os_release(text, "NAME"), None);
    }
}
