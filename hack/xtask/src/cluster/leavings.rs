//! What a node leaves behind on purpose, taken down: tasks, keeper, pump, cgroups, mounts.
//!
//! They outlive noded by design, so a measurement has to end them itself, also when it failed half
//! way: the folder of a cluster cannot be removed while a file system is mounted in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// How long killed processes may take to leave their cgroups.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(10);

/// Clears when it is dropped, unless that was done before.
#[derive(Debug)]
pub(crate) struct Leavings {
    noded: PathBuf,
    settings: PathBuf,
    cleared: bool,
}

impl Leavings {
    /// Will clear what the node with these settings leaves.
    pub(crate) fn of(noded: PathBuf, settings: PathBuf) -> Self {
        Self {
            noded,
            settings,
            cleared: false,
        }
    }

    /// Kills whatever runs in the node's cgroups and has noded remove the rest.
    ///
    /// # Errors
    /// If something does not go; the words are noded's.
    pub(crate) fn clear(mut self) -> anyhow::Result<()> {
        self.clear_once()
    }

    fn clear_once(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.cleared, true) {
            return Ok(());
        }
        let cgroup = cgroup_mount()?.join(cgroup_base());
        if cgroup.is_dir() {
            std::fs::write(cgroup.join("cgroup.kill"), "1")
                .with_context(|| format!("kill {}", cgroup.display()))?;
            wait_empty(&cgroup)?;
        }
        let output = Command::new(&self.noded)
            .arg("--config")
            .arg(&self.settings)
            .arg("--end-custody")
            .output()
            .with_context(|| format!("run {}", self.noded.display()))?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "noded --end-custody: {words}");
        Ok(())
    }
}

impl Drop for Leavings {
    fn drop(&mut self) {
        if let Err(error) = self.clear_once() {
            eprintln!("warning: the cluster left something behind: {error:#}");
        }
    }
}

/// The part of the cgroup tree that the measured node works in; no other node has it.
pub(crate) fn cgroup_base() -> String {
    format!("drover-bench-{}", std::process::id())
}

fn cgroup_mount() -> anyhow::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
    mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&"cgroup2"))
        .and_then(|fields| fields.get(1).map(PathBuf::from))
        .context("no cgroup v2 is mounted")
}

fn wait_empty(cgroup: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + EMPTY_TIMEOUT;
    loop {
        let events = std::fs::read_to_string(cgroup.join("cgroup.events"))?;
        if events.lines().any(|line| line == "populated 0") {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{} does not empty",
            cgroup.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
