//! One server and one node, and jobs whose tasks do nothing.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Helper, Node, Settings};
use serde_json::{Value, json};

use crate::Bench;
use crate::http::{Ask as _, Http, wait};

/// The longest that tasks may take to run.
const RUNNING_MAX: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The name of every task.
pub(super) const TASK: &str = "task";

/// See the top of this file. Dropping it ends everything that was started.
pub(super) struct Scene {
    /// The first to be dropped: its state is in the cluster's folder.
    pub(super) node: Node,
    pub(super) servers: Cluster,
}

impl Scene {
    /// Starts both, with more lines in the node's file.
    ///
    /// # Errors
    /// If one is not ready in time.
    pub(super) fn start(bench: &Bench, node_lines: &str) -> anyhow::Result<Self> {
        // A task sees the path of its socket, of which the kernel takes 107 bytes (unix(7)).
        let mut settings = Settings {
            state_in: None,
            ..bench.settings(1)
        };
        settings.node_lines.push_str(node_lines);
        let servers = wait(Cluster::start(settings))?;
        let node = wait(Node::start(&servers))?;
        Ok(Self { node, servers })
    }

    /// A connection to the server.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub(super) fn http(&self) -> anyhow::Result<Http> {
        self.servers.http()
    }

    /// Registers `count` idle tasks, each with a socket and an identity file, and waits until they
    /// run; their allocations.
    ///
    /// # Errors
    /// If they do not run in time.
    pub(super) fn run_idle(&self, id: &str, count: usize) -> anyhow::Result<Vec<String>> {
        let http = self.http()?;
        let command = json!({ "command": "/bin/sleep", "args": ["1000000"] });
        http.put("/v1/jobs", &job(id, "service", count, &command, true))?;
        let deadline = Instant::now() + RUNNING_MAX;
        loop {
            let allocs = http.get(&format!("/v1/job/{id}/allocations"))?;
            let allocs = allocs.as_array().context("no list of allocations")?;
            let running = allocs.iter().filter(|one| one["ClientStatus"] == "running");
            let ids = running.filter_map(|one| one["ID"].as_str().map(str::to_owned));
            let ids: Vec<String> = ids.collect();
            if ids.len() == count {
                return Ok(ids);
            }
            let text = format!("{} of {count} tasks of {id} run", ids.len());
            ensure!(Instant::now() < deadline, text);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The directory of secrets of an allocation's task.
    pub(super) fn secrets(&self, alloc: &str) -> PathBuf {
        self.node.alloc_dir(alloc).join(TASK).join("secrets")
    }

    /// The process ids of noded and keeper.
    ///
    /// # Errors
    /// If one does not run.
    pub(super) fn daemons(&self) -> anyhow::Result<[u32; 2]> {
        let keeper = self.node.helper(Helper::Keeper)?;
        let keeper = keeper.context("no keeper runs")?;
        Ok([self.node.id()?, keeper.cast_unsigned()])
    }
}

/// A job of `raw_exec` tasks.
pub(super) fn job(id: &str, kind: &str, count: usize, config: &Value, shows: bool) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": kind, "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": count,
            "RestartPolicy": { "Attempts": 0, "Mode": "fail" },
            "ReschedulePolicy": { "Attempts": 0, "Unlimited": false },
            "EphemeralDisk": { "SizeMB": 10 },
            "Tasks": [{
                "Name": TASK, "Driver": "raw_exec", "Config": config,
                "Identity": { "Name": "default", "File": shows },
                "Resources": { "CPU": 1, "MemoryMB": 10 },
                "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 1 },
            }],
        }],
    }})
}
