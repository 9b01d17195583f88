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
    runtime: RuntimeDir,
    cleared: bool,
}

impl Leavings {
    /// Will clear what the node with these settings leaves.
    pub(crate) fn of(noded: PathBuf, settings: PathBuf, runtime: RuntimeDir) -> Self {
        Self {
            noded,
            settings,
            runtime,
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
        self.runtime.unmount()
    }
}

impl Drop for Leavings {
    fn drop(&mut self) {
        if let Err(error) = self.clear_once() {
            eprintln!("warning: the cluster left something behind: {error:#}");
        }
    }
}

/// A runtime directory in memory, as `/run` is on an installed host.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
}

impl RuntimeDir {
    /// Makes it.
    ///
    /// # Errors
    /// If it cannot be mounted.
    pub(crate) fn mount(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "mode=755", "drover-bench"]);
        say(mount.arg(path))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Takes it down. pump may just be leaving it.
    fn unmount(&self) -> anyhow::Result<()> {
        say(Command::new("umount").arg("--lazy").arg(&self.path))
    }
}

fn say(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("run {command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {words}");
    Ok(())
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
