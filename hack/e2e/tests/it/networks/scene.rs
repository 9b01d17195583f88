//! Three servers, four nodes, and jobs that would rather run on the first node.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use hack_cluster::{Cluster, Net, Node, Settings, Way, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, Process, Running};

pub(super) const SERVERS: usize = 3;
const NODES: usize = 4;
const HOUR_NANOS: u64 = 3_600_000_000_000;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The cluster and its nodes.
#[derive(Debug)]
pub(super) struct Scene {
    /// Before the cluster: nodes end before their servers.
    pub(super) nodes: Vec<Node>,
    pub(super) cluster: Cluster,
}

/// An allocation and the process of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) alloc: String,
    pub(super) node: String,
    pub(super) process: Process,
}

/// What a group says about silent nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Nothing: its allocations are lost.
    None,
    /// They stay unknown, and nothing takes their place.
    Waits,
    /// They are replaced meanwhile, and afterwards this one stays.
    Replaces(&'static str),
    /// The node stops them itself when nobody confirms it for that long.
    Leased(Duration),
}

impl Scene {
    /// Everything runs; `None` where this host has no namespaces, which is said aloud.
    pub(super) async fn start() -> anyhow::Result<Option<Self>> {
        let Some(net) = Net::make(SERVERS + NODES)? else {
            return Ok(None);
        };
        let settings = Settings::of(SERVERS).with_silence("2600ms");
        let cluster = Cluster::start_in(settings, net).await?;
        let nodes = Node::start_many(&cluster, NODES).await?;
        Ok(Some(Self { nodes, cluster }))
    }

    pub(super) fn net(&self) -> anyhow::Result<&Net> {
        self.cluster.net()
    }

    /// Everything that a node says or is told.
    pub(super) fn way_of_node(&self, number: usize) -> Way {
        Way::All(SERVERS + number)
    }

    /// Registers a job of one task that sleeps, and waits until it runs on the first node.
    pub(super) async fn run(&self, id: &str, window: Window) -> anyhow::Result<Placed> {
        let running = Running::start(&self.cluster, &self.job(id, window)).await?;
        running.until("running").await?;
        let placed = self.placed(&running.alloc).await?;
        ensure!(placed.node == self.nodes[0].name(), "{placed:?}");
        Ok(placed)
    }

    pub(super) fn job(&self, id: &str, window: Window) -> Value {
        let never = json!({ "Attempts": 0, "Mode": "fail" });
        let text = "echo pid $$ >&2; exec sleep 100000";
        let mut job = crate::running::script(id, "service", text, &never);
        let group = &mut job["Job"]["TaskGroups"][0];
        group["Affinities"] = json!([{
            "LTarget": "${node.unique.name}", "RTarget": self.nodes[0].name(),
            "Operand": "=", "Weight": 100,
        }]);
        if let Window::Replaces(_) = window {
            // What takes the place of a silent one is a rescheduled one.
            group["ReschedulePolicy"] = json!({ "Unlimited": true });
        }
        group["Disconnect"] = match window {
            Window::None => Value::Null,
            Window::Waits => json!({ "LostAfter": HOUR_NANOS, "Replace": false }),
            Window::Leased(after) => json!({ "StopOnClientAfter": nanos(after) }),
            Window::Replaces(stays) => {
                json!({ "LostAfter": HOUR_NANOS, "Replace": true, "Reconcile": stays })
            }
        };
        job
    }

    async fn placed(&self, alloc: &str) -> anyhow::Result<Placed> {
        let running = Running::find(&self.cluster, "", alloc);
        let process = running.process().await?;
        let node = running.read().await?["NodeName"]
            .as_str()
            .map(str::to_owned);
        Ok(Placed {
            alloc: alloc.to_owned(),
            node: node.context("an allocation without a node")?,
            process,
        })
    }

    /// Waits until a node has this status.
    pub(super) async fn until_node(&self, number: usize, status: &str) -> anyhow::Result<()> {
        let what = format!("node {number} that is {status}");
        eventually(&what, PATIENCE, async || {
            let node = self.nodes[number].read(&self.cluster).await?;
            ensure!(node["Status"] == status, "it is {}", node["Status"]);
            Ok(Some(()))
        })
        .await
    }

    /// The end of the logs of a node and of all servers, for an error.
    pub(super) fn logs(&self, node: usize) -> String {
        let servers = (0..SERVERS).map(|server| self.cluster.log_end(server));
        let logs: Vec<String> = servers.chain([self.nodes[node].log_end()]).collect();
        logs.join("\n")
    }

    /// Waits until so many tasks run on a node, whatever the control plane knows of them.
    pub(super) async fn until_tasks(&self, number: usize, count: usize) -> anyhow::Result<()> {
        let what = format!("{count} tasks on node {number}");
        eventually(&what, PATIENCE, async || {
            // Each is one process: `exec sleep`.
            let found = self.nodes[number].task_processes()?.len();
            ensure!(found == count, "{found} run");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until the allocation has this status.
    pub(super) async fn until(&self, placed: &Placed, status: &str) -> anyhow::Result<()> {
        let running = Running::find(&self.cluster, "", &placed.alloc);
        running.until(status).await.map(drop)
    }

    /// Waits until the control plane knows that an allocation is over.
    pub(super) async fn until_over(&self, placed: &Placed) -> anyhow::Result<()> {
        let running = Running::find(&self.cluster, "", &placed.alloc);
        eventually("the end of an allocation", PATIENCE, async || {
            let status = running.read().await?["ClientStatus"].clone();
            ensure!(status != "running", "it is {status}");
            Ok(Some(()))
        })
        .await
    }

    /// Waits until the history of an allocation's task has exactly one event of this type.
    pub(super) async fn until_event(&self, placed: &Placed, kind: &str) -> anyhow::Result<()> {
        let running = Running::find(&self.cluster, "", &placed.alloc);
        let what = format!("one event {kind:?} of {placed:?}");
        eventually(&what, PATIENCE, async || {
            let alloc = running.read().await?;
            let tasks = alloc["TaskStates"].as_object().context("no task states")?;
            let events = tasks.values().filter_map(|task| task["Events"].as_array());
            let kinds: Vec<&Value> = events.flatten().map(|event| &event["Type"]).collect();
            let count = kinds.iter().filter(|it| **it == kind).count();
            ensure!(count == 1, "its events are {kinds:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Every allocation of a job.
    pub(super) async fn allocs(&self, job: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/job/{job}/allocations");
        let allocs = self.cluster.get(&path, &Query::new()).await?;
        Ok(allocs.as_array().context("no list")?.clone())
    }

    /// Waits until exactly one allocation of the job runs and is wanted, and nothing else of it is
    /// under way; answers it.
    pub(super) async fn the_one(&self, job: &str) -> anyhow::Result<Placed> {
        let alloc = eventually(&format!("one allocation of {job}"), PATIENCE, async || {
            let allocs = self.allocs(job).await?;
            let over = ["complete", "failed", "lost"];
            let live = |it: &&Value| {
                let status = it["ClientStatus"].as_str().unwrap_or_default();
                it["DesiredStatus"] == "run" && !over.contains(&status) || status == "running"
            };
            let live: Vec<&Value> = allocs.iter().filter(live).collect();
            let [one] = live.as_slice() else {
                anyhow::bail!("{} are live: {live:#?}", live.len());
            };
            ensure!(one["ClientStatus"] == "running", "{one:#}");
            Ok(one["ID"].as_str().map(str::to_owned))
        })
        .await?;
        self.placed(&alloc).await
    }

    /// Waits until a job has another allocation than this one, which runs elsewhere.
    pub(super) async fn replacement(&self, job: &str, of: &Placed) -> anyhow::Result<Placed> {
        let alloc = eventually(&format!("a replacement of {job}"), PATIENCE, async || {
            let allocs = self.allocs(job).await?;
            let other =
                |it: &&Value| it["ID"] != of.alloc.as_str() && it["ClientStatus"] == "running";
            let found = allocs.iter().find(other);
            Ok(found.and_then(|it| it["ID"].as_str()).map(str::to_owned))
        })
        .await?;
        let placed = self.placed(&alloc).await?;
        ensure!(placed.node != of.node, "{placed:?} replaces {of:?}");
        Ok(placed)
    }

    /// How often the task of an allocation was started.
    pub(super) async fn starts(&self, placed: &Placed) -> anyhow::Result<usize> {
        let running = Running::find(&self.cluster, "", &placed.alloc);
        // A node that is ready may be on its way to another server: nobody reaches it then.
        let said = eventually("the logs", PATIENCE, async || {
            running.logs("stderr").await.map(Some)
        });
        let said = said.await?;
        Ok(said.lines().filter(|line| line.starts_with("pid ")).count())
    }

    /// Waits until the process of an allocation is gone, whatever the control plane knows of it.
    pub(super) async fn gone(&self, placed: &Placed) -> anyhow::Result<()> {
        eventually("the end of a process", PATIENCE, async || {
            let process = Process::find(placed.process.pid);
            Ok((process != Some(placed.process)).then_some(()))
        })
        .await
    }

    /// The process is the one that it was.
    pub(super) fn must_live(&self, placed: &Placed) {
        let process = Process::find(placed.process.pid);
        assert_eq!(process, Some(placed.process), "{placed:?} was restarted");
    }
}
