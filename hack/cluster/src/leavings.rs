//! What a node leaves in the kernel on purpose: cgroups of tasks, mounts. They are taken down with
//! the node: a folder cannot be removed while a file system is mounted in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::mount::{UnmountFlags, unmount};

/// Where cgroup v2 is mounted: alone, or beside v1.
const CGROUP_MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Where the cgroups of nodes are made.
pub(crate) fn cgroup_mount() -> anyhow::Result<PathBuf> {
    let mounts = CGROUP_MOUNTS.iter().map(PathBuf::from);
    let mut found = mounts.filter(|path| path.join("cgroup.procs").exists());
    found.next().context("cgroup v2 is not mounted")
}

/// Every folder below `path`, at any depth.
pub(crate) fn folders_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut queue = vec![path.to_owned()];
    while let Some(folder) = queue.pop() {
        // It may be removed while we look.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                queue.push(entry.path());
                found.push(entry.path());
            }
        }
    }
    found
}

/// Takes down every mount in a folder.
pub(crate) fn unmount_below(folder: &Path) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut ours: Vec<&str> = points
        .filter(|point| Path::new(point).starts_with(folder))
        .collect();
    ours.sort_unstable();
    for point in ours.into_iter().rev() {
        let _ = unmount(point, UnmountFlags::DETACH);
    }
}

/// Removes a cgroup and all below it, whose processes were killed.
pub(crate) fn remove_cgroup(cgroup: &Path) {
    let mut folders = folders_below(cgroup);
    folders.push(cgroup.to_owned());
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    for folder in folders {
        // Killed processes leave a cgroup only when they have ended.
        for _ in 0..100 {
            match std::fs::remove_dir(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => break,
            }
        }
    }
}
