//! One server and one node, whose `exec` tasks see the suite's programs.

use std::path::PathBuf;

use anyhow::Context;
use hack_cluster::{Cluster, Helper, Node};
use isolation::cgroup::{TASKS, find_mount};
use serde_json::{Value, json};

use super::census::Place;
use super::folder;
use super::sandbox::Sandbox;
use crate::Bench;
use crate::http::{Ask as _, Http, wait};
use crate::programs::Program;

/// A running cluster. Dropping it ends everything that was started.
#[derive(Debug)]
pub(super) struct Host {
    /// The first to be dropped: its state is in the cluster's folder.
    node: Node,
    servers: Cluster,
    program: PathBuf,
}

impl Host {
    /// Starts both. The tasks' program is `program`, in a folder that every task sees.
    ///
    /// # Errors
    /// A daemon does not start or is not ready in time; the error has its log.
    pub(super) fn start(bench: &Bench, program: Program) -> anyhow::Result<Self> {
        let programs = folder(bench, "programs")?;
        let path = programs.join(format!("{program:?}"));
        program.write(&path)?;
        let mut seen = Sandbox::host_paths();
        seen.push(programs);
        let seen: Vec<String> = seen
            .iter()
            .map(|path| format!("{:?}", path.display()))
            .collect();
        let mut settings = bench.settings(1);
        settings
            .node_lines
            .push_str(&format!("chroot_paths = [{}]\n", seen.join(", ")));
        let servers = wait(Cluster::start(settings))?;
        let node = wait(Node::start(&servers))?;
        Ok(Self {
            node,
            servers,
            program: path,
        })
    }

    /// A connection to the server.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub(super) fn http(&self) -> anyhow::Result<Http> {
        self.servers.http()
    }

    /// The process ids of noded, keeper and pump, in this order.
    ///
    /// # Errors
    /// One does not run.
    pub(super) fn daemons(&self) -> anyhow::Result<Vec<(u32, &'static str)>> {
        let mut daemons = vec![(self.node.id()?, "noded")];
        for (helper, name) in [(Helper::Keeper, "keeper"), (Helper::Pump, "pump")] {
            let found = self.node.helper(helper)?;
            let pid = found.with_context(|| format!("no {name} runs"))?;
            daemons.push((pid.cast_unsigned(), name));
        }
        Ok(daemons)
    }

    /// Where the tasks' leavings would be.
    ///
    /// # Errors
    /// A daemon does not run, or cgroup v2 is not mounted.
    pub(super) fn place(&self) -> anyhow::Result<Place> {
        Ok(Place {
            daemons: self.daemons()?,
            cgroups: find_mount()?.path.join(self.node.name()).join(TASKS),
            folders: vec![
                self.servers.folder().to_owned(),
                self.node.run_dir().to_owned(),
            ],
        })
    }

    /// The node as the cluster stores it.
    ///
    /// # Errors
    /// No server answers.
    pub(super) fn read(&self) -> anyhow::Result<Value> {
        wait(self.node.read(&self.servers))
    }

    /// A job of `count` allocations, each with one `exec` task that runs the program.
    pub(super) fn job(&self, id: &str, kind: &str, count: usize) -> Value {
        json!({"Job": {
            "ID": id, "Name": id, "Type": kind, "Datacenters": ["*"],
            "TaskGroups": [{
                "Name": "group", "Count": count,
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
                "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
                "Tasks": [{
                    "Name": "task", "Driver": "exec",
                    "Config": {"command": self.program},
                    "Resources": {"CPU": 1, "MemoryMB": 10},
                    "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
                }],
                "EphemeralDisk": {"SizeMB": 10},
            }],
        }})
    }
}

/// The allocations of a job that are in one of the states of its summary (`Running`, `Complete`).
///
/// # Errors
/// The server does not answer, or an allocation failed or was lost.
pub(super) fn count(http: &Http, id: &str, state: &str) -> anyhow::Result<usize> {
    let summary = http.get(&format!("/v1/job/{id}/summary"))?;
    let of = |state: &str| summary["Summary"]["group"][state].as_u64().unwrap_or(0);
    let bad = of("Failed") + of("Lost");
    anyhow::ensure!(bad == 0, "{bad} allocations of {id} failed or are lost");
    Ok(usize::try_from(of(state))?)
}
