//! A job on a node, looked at from outside: its allocation, its process, its output.

use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

/// Long, because servers without enough of the processor declare no node dead until they have it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Of one question: a server that is looking for a leader answers later than we want to know.
const CALL_MAX: Duration = Duration::from_secs(5);

/// Whether this test can run; says so where it cannot.
pub(crate) fn has_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root: tasks live in cgroups");
    }
    root
}

/// A job of one task that runs a shell script.
pub(crate) fn script(id: &str, kind: &str, text: &str, restart: &Value) -> Value {
    json!({ "Job": {
        "ID": id, "Name": id, "Type": kind, "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "group", "Count": 1, "RestartPolicy": restart,
            "ReschedulePolicy": { "Attempts": 0, "Unlimited": false },
            "Tasks": [{
                "Name": "task", "Driver": "raw_exec",
                "Config": { "command": "/bin/sh", "args": ["-c", text] },
                "KillTimeout": 2_000_000_000_u64,
                "Resources": { "CPU": 20, "MemoryMB": 32 },
            }],
        }],
    }})
}

/// A process, told from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    start: u64,
}

impl Process {
    /// The process with this id, if there is one.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; field 22 is the start (proc_pid_stat(5)).
        let rest = text.rsplit_once(") ")?.1;
        let start = rest.split(' ').nth(19)?.parse().ok()?;
        Some(Self { pid, start })
    }
}

/// A registered job with its one allocation.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    cluster: &'a Cluster,
    job: String,
    pub(crate) alloc: String,
}

impl<'a> Running<'a> {
    /// Registers a job and waits for its allocation.
    pub(crate) async fn start(cluster: &'a Cluster, job: &Value) -> anyhow::Result<Self> {
        let id = job["Job"]["ID"].as_str().context("a job without an id")?;
        let client = cluster.client(0)?;
        client
            .put::<_, Value>("/v1/jobs", &Query::new(), job)
            .await?;
        let path = format!("/v1/job/{id}/allocations");
        let alloc = eventually("an allocation", PATIENCE, async || {
            let allocs = cluster.get(&path, &Query::new()).await?;
            Ok(allocs[0]["ID"].as_str().map(str::to_owned))
        })
        .await?;
        Ok(Self {
            cluster,
            job: id.to_owned(),
            alloc,
        })
    }

    /// A job that was registered before.
    pub(crate) fn find(cluster: &'a Cluster, job: &str, alloc: &str) -> Self {
        Self {
            cluster,
            job: job.to_owned(),
            alloc: alloc.to_owned(),
        }
    }

    /// The allocation as the API shows it.
    pub(crate) async fn read(&self) -> anyhow::Result<Value> {
        let path = format!("/v1/allocation/{}", self.alloc);
        let query = Query::new();
        let asked = tokio::time::timeout(CALL_MAX, self.cluster.get(&path, &query)).await;
        asked.context("no answer about the allocation")?
    }

    /// Waits until the API shows the allocation in this status, and answers it.
    pub(crate) async fn until(&self, status: &str) -> anyhow::Result<Value> {
        eventually(
            &format!("an allocation that is {status}"),
            PATIENCE,
            async || {
                let alloc = self.read().await?;
                let found = &alloc["ClientStatus"];
                let (wanted, why) = (&alloc["DesiredStatus"], &alloc["DesiredDescription"]);
                let states = &alloc["TaskStates"];
                ensure!(
                    found == status,
                    "it is {found}, wanted {wanted} ({why}): {states}"
                );
                Ok(Some(alloc))
            },
        )
        .await
    }

    /// Waits until this is all that the task has written: pump may write it after an end is known.
    pub(crate) async fn must_print(&self, stream: &str, expected: &str) -> anyhow::Result<()> {
        eventually("the task's output", PATIENCE, async || {
            let text = self.logs(stream).await?;
            ensure!(text == expected, "it printed {text:?}");
            Ok(Some(()))
        })
        .await
    }

    /// What the task has written, through the API.
    pub(crate) async fn logs(&self, stream: &str) -> anyhow::Result<String> {
        let path = format!("/v1/client/fs/logs/{}", self.alloc);
        let query = Query::new().with("task", "task").with("type", stream);
        let query = query.with("plain", "true");
        let mut last = anyhow::anyhow!("a cluster without servers");
        for number in 0..self.cluster.len() {
            let client = self.cluster.client(number)?;
            match tokio::time::timeout(CALL_MAX, client.text(&path, &query)).await {
                Ok(Ok(answer)) => return Ok(answer.value),
                Ok(Err(error)) => last = error.into(),
                Err(_) => last = anyhow::anyhow!("server {number} did not answer"),
            }
        }
        Err(last.context("no logs"))
    }

    /// The process that runs the task now: the last that said its id on stderr.
    pub(crate) async fn process(&self) -> anyhow::Result<Process> {
        eventually("the task's process", PATIENCE, async || {
            let text = self.logs("stderr").await?;
            let last = text.lines().last().context("it has said nothing")?;
            let pid = last.strip_prefix("pid ").context("it has said no id")?;
            Ok(Process::find(pid.parse()?))
        })
        .await
    }

    /// Stops the job and waits until nothing of it runs.
    pub(crate) async fn stop(&self, node: &Node) -> anyhow::Result<()> {
        let path = format!("/v1/job/{}", self.job);
        let client = self.cluster.client(0)?;
        client.delete::<Value>(&path, &Query::new()).await?;
        self.until("complete").await?;
        let left = eventually("the end of the task", PATIENCE, async || {
            let left = node.task_processes()?;
            Ok(left.is_empty().then_some(()))
        });
        left.await
    }
}
