//! A node beside a cluster: `noded`, and what noded starts and leaves running by design.
//!
//! keeper, pump and the tasks are no children of ours. They are found by what is ours alone: the
//! runtime directory in their arguments, the cgroup below which tasks live.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use protocol_client::Query;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::binaries::Program;
use crate::cluster::{Cluster, JOIN_TOKEN};
use crate::leavings;
use crate::process::{Daemon, Place, log_end};
use crate::procfs::{arguments, pids};
use crate::wait::eventually;

const PATIENCE: Duration = Duration::from_secs(30);
/// However full the disk of the tests' host is: what ended is looked at.
const NO_GC: &str = "gc_disk_usage_threshold = 100\ngc_inode_usage_threshold = 100\n";
const END_PATIENCE: Duration = Duration::from_secs(15);
/// keeper's records must not wait for a disk: its directory is on a tmpfs.
const TMPFS: &str = "/dev/shm";
/// Runs a program where the kernel tells another boot id (random(4)); arguments: a file with that
/// id, the program, its own.
const BOOTED: &str = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";

/// One of the two processes that outlive noded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// The parent of all tasks.
    Keeper,
    /// The writer of all logs.
    Pump,
}

impl Helper {
    fn argument(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Pump => "pump",
        }
    }
}

/// A node. Dropping it kills it, its helpers and its tasks, and removes its cgroups and mounts.
#[derive(Debug)]
pub struct Node {
    name: String,
    number: usize,
    daemon: Option<Daemon>,
    program: PathBuf,
    settings: PathBuf,
    log: PathBuf,
    data_dir: PathBuf,
    run_dir: TempDir,
    cgroup: PathBuf,
    /// What the kernel calls this boot, in a file; `None` = what it calls it here.
    boot_id: Option<PathBuf>,
}

impl Node {
    /// Starts a node with `raw_exec` and waits until the cluster calls it ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let mut node = Self::make(cluster, 0)?;
        node.start_again_in(cluster)?;
        node.wait_ready(cluster).await?;
        Ok(node)
    }

    /// Starts so many nodes, each at a place of its own where the cluster has a network, and waits
    /// until all are ready.
    ///
    /// # Errors
    /// When one does not become ready.
    pub async fn start_many(cluster: &Cluster, count: usize) -> anyhow::Result<Vec<Self>> {
        let mut nodes = Vec::new();
        for number in 0..count {
            let mut node = Self::make(cluster, number)?;
            node.start_again_in(cluster)?;
            nodes.push(node);
        }
        for node in &mut nodes {
            node.wait_ready(cluster).await?;
        }
        Ok(nodes)
    }

    fn make(cluster: &Cluster, number: usize) -> anyhow::Result<Self> {
        // Cgroups are named after nodes, and clusters run beside each other.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("drover-e2e-{}-{made}", std::process::id());
        let run_dir = tempfile::Builder::new()
            .prefix("drover-e2e-")
            .tempdir_in(TMPFS)?;
        let programs = cluster.settings.programs.as_deref();
        // Both are found beside noded.
        Program::NodedKeeper.path(programs)?;
        Program::NodedJail.path(programs)?;
        let node = Self {
            number,
            daemon: None,
            program: Program::Noded.path(programs)?,
            settings: cluster.folder().join(format!("node-{number}.hcl")),
            log: cluster.folder().join(format!("node-{number}.log")),
            data_dir: cluster.folder().join(format!("node-{number}")),
            run_dir,
            cgroup: leavings::cgroup_mount()?.join(&name),
            boot_id: None,
            name,
        };
        std::fs::write(&node.settings, node.text(cluster))?;
        Ok(node)
    }

    /// Its name, as the cluster shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id of noded.
    ///
    /// # Errors
    /// When it does not run.
    pub fn id(&self) -> anyhow::Result<u32> {
        Ok(self.daemon.as_ref().context("noded is down")?.id())
    }

    /// The last lines of its daemon's log, whether it runs or not, for an error.
    pub fn log_end(&self) -> String {
        log_end(&self.log)
    }

    /// keeper's and pump's directory, which holds its networks too.
    pub fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// The directory of an allocation on this node.
    pub fn alloc_dir(&self, alloc: &str) -> PathBuf {
        self.data_dir.join("alloc").join(alloc)
    }

    /// Its offset among the nodes.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Starts noded after its end; it is not ready yet when this returns.
    ///
    /// # Errors
    /// When it runs.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.start_at(&Place::Here)
    }

    /// The same where its cluster may have a network of its own.
    ///
    /// # Errors
    /// As [`Self::start_again`].
    pub fn start_again_in(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        self.start_at(&cluster.place_of_node(self.number))
    }

    fn start_at(&mut self, place: &Place<'_>) -> anyhow::Result<()> {
        ensure!(self.daemon.is_none(), "noded runs already");
        let text = |path: &'_ Path| path.to_str().map(str::to_owned);
        let settings = text(&self.settings).context("a path that is no UTF-8")?;
        let arguments = ["--config", &settings];
        let log = &self.log;
        self.daemon = Some(match &self.boot_id {
            None => Daemon::start("noded", &self.program, &arguments, log, place)?,
            Some(boot_id) => {
                let paths = [boot_id, &self.program].map(|path| text(path));
                let [Some(boot_id), Some(program)] = paths else {
                    anyhow::bail!("a path that is no UTF-8");
                };
                let (shell, unshare) = (["sh", "-c", BOOTED, "sh"], Path::new("unshare"));
                let shell = [&["--mount"], &shell[..], &[&boot_id, &program], &arguments];
                Daemon::start("noded", unshare, &shell.concat(), log, place)?
            }
        });
        Ok(())
    }

    /// `kill -9` of noded. Returns when it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let daemon = self.daemon.take();
        daemon.context("noded is down already")?.kill()
    }

    /// The host's power goes: noded, keeper, pump and tasks end at once, and what the kernel kept
    /// of them (cgroups, mounts, files in memory) is gone. Files on its disk stay. Returns when all
    /// of that is done.
    ///
    /// # Errors
    /// When something does not end.
    pub async fn cut_power(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        for helper in [Helper::Keeper, Helper::Pump] {
            self.kill_helper_for_good(helper)?;
        }
        eventually("the end of its tasks", PATIENCE, async || {
            let left = self.task_processes()?;
            for pid in &left {
                // It may have ended since it was listed.
                let _ = kill(*pid);
            }
            Ok(left.is_empty().then_some(()))
        })
        .await?;
        self.remove_from_kernel();
        for entry in std::fs::read_dir(self.run_dir.path())? {
            let path = entry?.path();
            match path.is_dir() {
                true => std::fs::remove_dir_all(path)?,
                false => std::fs::remove_file(path)?,
            }
        }
        Ok(())
    }

    /// The host boots after [`Self::cut_power`]: noded starts where the kernel says another boot id
    /// than before. It is not ready yet when this returns.
    ///
    /// # Errors
    /// When noded runs, or the kernel tells no id.
    pub fn boot_in(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let path = self.settings.with_extension("boot_id");
        std::fs::copy("/proc/sys/kernel/random/uuid", &path)?;
        self.boot_id = Some(path);
        self.start_again_in(cluster)
    }

    /// SIGTERM to noded; answers how it ended.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let daemon = self.daemon.as_mut().context("noded is down")?;
        let status = daemon.terminate(END_PATIENCE).await?;
        self.daemon = None;
        Ok(status)
    }

    /// Adds `more` to noded's configuration and has it read again, by SIGHUP.
    ///
    /// # Errors
    /// When noded does not run, or the file cannot be written.
    pub fn reload(&self, more: &str) -> anyhow::Result<()> {
        let daemon = self.daemon.as_ref().context("noded is down")?;
        let text = std::fs::read_to_string(&self.settings)?;
        std::fs::write(&self.settings, text + more)?;
        let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("process 0")?, Signal::HUP)?;
        Ok(())
    }

    /// What the cluster says of this node: `/v1/node/:id`.
    ///
    /// # Errors
    /// When no server answers, or none knows it.
    pub async fn read(&self, cluster: &Cluster) -> anyhow::Result<Value> {
        let nodes = cluster.get("/v1/nodes", &Query::new()).await?;
        let nodes = nodes.as_array().context("no list of nodes")?;
        let ours = nodes.iter().find(|node| node["Name"] == self.name.as_str());
        let id = ours.and_then(|node| node["ID"].as_str());
        let path = format!("/v1/node/{}", id.context("nobody knows it")?);
        cluster.get(&path, &Query::new()).await
    }

    /// `kill -9` of keeper or pump, and waits for the one that noded starts in its place.
    ///
    /// # Errors
    /// When there is none, before or after.
    pub async fn kill_helper(&self, helper: Helper) -> anyhow::Result<()> {
        let killed = self.helper(helper)?;
        let killed = killed.with_context(|| format!("no {helper:?} runs"))?;
        kill(killed)?;
        eventually(&format!("another {helper:?}"), PATIENCE, async || {
            let found = self.helper(helper)?;
            Ok(found.filter(|pid| *pid != killed).map(|_| ()))
        })
        .await
    }

    /// `kill -9` of keeper or pump while noded, which would start another, is down.
    ///
    /// # Errors
    /// When none runs.
    pub fn kill_helper_for_good(&self, helper: Helper) -> anyhow::Result<()> {
        ensure!(self.daemon.is_none(), "noded runs");
        let found = self.helper(helper)?;
        kill(found.with_context(|| format!("no {helper:?} runs"))?)
    }

    /// Waits until the cluster calls the node ready.
    ///
    /// # Errors
    /// When it does not in time, or noded ends.
    pub async fn wait_ready(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let daemon = self.daemon.as_mut().context("noded is down")?;
        let ready = eventually("a ready node", PATIENCE, async || {
            daemon.must_run()?;
            let nodes = cluster.get("/v1/nodes", &Query::new()).await?;
            let nodes = nodes.as_array().context("no list of nodes")?;
            let ours = nodes.iter().find(|node| node["Name"] == self.name.as_str());
            Ok(ours.filter(|node| node["Status"] == "ready").map(|_| ()))
        });
        let ready = ready.await;
        ready.with_context(|| daemon.log_end())
    }

    /// What noded and its helpers left after the tasks' end: nothing but the helpers.
    ///
    /// # Errors
    /// Names what is left.
    pub async fn must_have_no_tasks(&self) -> anyhow::Result<()> {
        eventually("nothing left of the tasks", PATIENCE, async || {
            let left = self.task_processes()?;
            ensure!(left.is_empty(), "processes {left:?}");
            let below = leavings::folders_below(&self.cgroup.join("tasks"));
            ensure!(below.is_empty(), "cgroups {below:?}");
            Ok(Some(()))
        })
        .await
    }

    /// The processes in the cgroups of tasks.
    ///
    /// # Errors
    /// When a cgroup cannot be read.
    pub fn task_processes(&self) -> anyhow::Result<Vec<i32>> {
        let mut found = Vec::new();
        for folder in leavings::folders_below(&self.cgroup.join("tasks")) {
            // It may be removed between the two calls.
            let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        Ok(found)
    }

    /// The process id of keeper or pump, if it runs.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn helper(&self, helper: Helper) -> anyhow::Result<Option<i32>> {
        let ours = self.run_dir.path().to_string_lossy();
        let is_helper = |pid: &u32| {
            let words = arguments(*pid);
            let named = |word: &str| words.iter().any(|it| it == word);
            // The one that detaches itself is not yet the one that stays.
            words
                .first()
                .is_some_and(|own| own.ends_with("noded-keeper"))
                && words.get(1).is_some_and(|it| it == helper.argument())
                && named(&ours)
                && !words.iter().any(|it| it.contains("--detach"))
        };
        let found = pids()?.into_iter().find(is_helper);
        Ok(found.map(u32::cast_signed))
    }

    /// Removes mounts and cgroups of what has ended.
    fn remove_from_kernel(&self) {
        leavings::unmount_below(self.run_dir.path());
        leavings::unmount_below(&self.data_dir);
        leavings::remove_cgroup(&self.cgroup);
    }

    fn text(&self, cluster: &Cluster) -> String {
        let servers = cluster.quic_addresses().into_iter();
        let servers: Vec<String> = servers.map(|server| format!("\"{server}\"")).collect();
        format!(
            "name = \"{name}\"\ndata_dir = \"{data_dir}\"\nrun_dir = \"{run_dir}\"\n\
             cgroup_base = \"{name}\"\nservers = [{servers}]\njoin_token = \"{JOIN_TOKEN}\"\n\
             {NO_GC}{more}{tls}driver \"raw_exec\" {{\n  enabled = true\n}}\n",
            name = self.name,
            data_dir = self.data_dir.display(),
            run_dir = self.run_dir.path().display(),
            servers = servers.join(", "),
            more = cluster.settings.node_lines,
            tls = cluster.certificates.block("node"),
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // First noded, which would start the others again. From here on nobody is left to tell.
        self.daemon = None;
        for helper in [Helper::Keeper, Helper::Pump] {
            while let Ok(Some(pid)) = self.helper(helper) {
                if kill(pid).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = std::fs::write(self.cgroup.join("cgroup.kill"), "1");
        self.remove_from_kernel();
    }
}

/// Kills a process of ours that is no child of ours.
fn kill(pid: i32) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid).context("process 0")?;
    kill_process(pid, Signal::KILL).with_context(|| format!("cannot kill {pid:?}"))
}

impl Cluster {
    /// Reads from the first server that answers.
    ///
    /// # Errors
    /// The last one's, when none does.
    pub async fn get(&self, path: &str, query: &Query) -> anyhow::Result<Value> {
        let mut last = anyhow::anyhow!("a cluster without servers");
        for number in 0..self.len() {
            match self.client(number)?.get::<Value>(path, query).await {
                Ok(answer) => return Ok(answer.value),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}
