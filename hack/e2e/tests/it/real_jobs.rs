//! Job files that others wrote for Nomad, submitted unchanged: what this release can run does what
//! its author meant; the rest is planned and registered, with a warning for each block that is not
//! honoured yet.
//!
//! The files lie outside of this tree, because they are others' work.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, has_root};

/// The folder of the files; says so where there is none.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/jobspecs/real");
    let found = folder.is_dir();
    if !found {
        eprintln!(
            "skipped: needs the job files of others in {}",
            folder.display()
        );
    }
    found.then_some(folder)
}

/// The file whose name contains `part`, as the server parses it.
async fn parse(cluster: &Cluster, folder: &Path, part: &str) -> anyhow::Result<Value> {
    let path = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains(part))
        .with_context(|| format!("no file is called {part}"))?;
    let text = std::fs::read_to_string(&path)?;
    let body = json!({ "JobHCL": text, "Canonicalize": true });
    let client = cluster.client(0)?;
    let parsed = client
        .put::<_, Value>("/v1/jobs/parse", &Query::new(), &body)
        .await;
    Ok(parsed.with_context(|| format!("parse {part}"))?.value)
}

async fn register(cluster: &Cluster, job: &Value) -> anyhow::Result<Value> {
    let client = cluster.client(0)?;
    let body = json!({ "Job": job });
    let answer = client
        .put::<_, Value>("/v1/jobs", &Query::new(), &body)
        .await?;
    Ok(answer.value)
}

/// A job of one of the files, running on a node.
struct Real<'a> {
    cluster: &'a Cluster,
    id: String,
}

impl<'a> Real<'a> {
    async fn submit(cluster: &'a Cluster, folder: &Path, part: &str) -> anyhow::Result<Self> {
        let job = parse(cluster, folder, part).await?;
        register(cluster, &job).await?;
        let id = job["ID"].as_str().context("a job without an id")?;
        Ok(Self {
            cluster,
            id: id.to_owned(),
        })
    }

    /// Waits until it has `count` allocations, all in this status, and answers them whole.
    async fn until(&self, count: usize, status: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/job/{}/allocations", self.id);
        let what = format!("{count} allocations of {} that are {status}", self.id);
        let ids = eventually(&what, PATIENCE, async || {
            let allocs = self.cluster.get(&path, &Query::new()).await?;
            let allocs = allocs.as_array().context("no list")?;
            ensure!(
                allocs.len() == count && allocs.iter().all(|one| one["ClientStatus"] == status),
                "they are {allocs:?}"
            );
            let id = |alloc: &Value| alloc["ID"].as_str().map(str::to_owned);
            Ok(allocs.iter().map(id).collect::<Option<Vec<_>>>())
        })
        .await?;
        let mut whole = Vec::new();
        for id in ids {
            let path = format!("/v1/allocation/{id}");
            whole.push(self.cluster.get(&path, &Query::new()).await?);
        }
        Ok(whole)
    }

    /// The output of a task, once there is some: pump may write it after the task's end is known.
    async fn output(&self, alloc: &Value, task: &str) -> anyhow::Result<String> {
        let id = alloc["ID"]
            .as_str()
            .context("an allocation without an id")?;
        let query = Query::new().with("task", task).with("type", "stdout");
        let path = format!("/v1/client/fs/logs/{id}");
        let query = query.with("plain", "true");
        let client = self.cluster.client(0)?;
        eventually("its output", PATIENCE, async || {
            let text = client.text(&path, &query).await?.value;
            Ok((!text.is_empty()).then_some(text))
        })
        .await
    }

    async fn purge(self, node: &Node) -> anyhow::Result<()> {
        let path = format!("/v1/job/{}", self.id);
        let client = self.cluster.client(0)?;
        let query = Query::new().with("purge", "true");
        client.delete::<Value>(&path, &query).await?;
        eventually("the end of its tasks", PATIENCE, async || {
            Ok(node.task_processes()?.is_empty().then_some(()))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_this_release_can_run_do_what_their_authors_meant() -> anyhow::Result<()> {
    let Some(folder) = folder().filter(|_| has_root()) else {
        return Ok(());
    };
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;

    let job = Real::submit(&cluster, &folder, "isolation_input_exec").await?;
    let alloc = &job.until(1, "complete").await?[0];
    let output = job.output(alloc, "bash").await?;
    assert_eq!(output, "my pid is 1\n", "it has process ids of its own");
    job.purge(&node).await?;

    let job = Real::submit(&cluster, &folder, "isolation_input_raw_exec").await?;
    let alloc = &job.until(1, "complete").await?[0];
    let output = job.output(alloc, "bash").await?;
    let pid: u32 = output
        .trim()
        .strip_prefix("my pid is ")
        .context("it said something else")?
        .parse()?;
    assert!(pid > 1, "it has the host's process ids");
    job.purge(&node).await?;

    let job = Real::submit(&cluster, &folder, "shared_jobs_sleep").await?;
    job.until(1, "running").await?;
    job.purge(&node).await?;

    let job = Real::submit(&cluster, &folder, "norescheduling").await?;
    job.until(3, "failed").await?;
    let path = format!("/v1/job/{}/evaluations", job.id);
    eventually("the end of its evaluations", PATIENCE, async || {
        let evals = cluster.get(&path, &Query::new()).await?;
        let evals = evals.as_array().context("no list")?;
        ensure!(
            evals.iter().all(|eval| eval["Status"] == "complete"),
            "something is tried again: {evals:?}"
        );
        Ok(Some(()))
    })
    .await?;
    job.until(3, "failed").await?;
    job.purge(&node).await?;

    let job = Real::submit(&cluster, &folder, "completed_leader").await?;
    let alloc = &job.until(1, "complete").await?[0];
    let follower = &alloc["TaskStates"]["completed_leader"];
    assert_eq!(follower["State"], "dead");
    assert_eq!(follower["Failed"], false, "it ended because its leader did");
    let events = follower["Events"].as_array().context("no events")?;
    assert!(
        events
            .iter()
            .any(|event| event["Type"] == "Leader Task Dead"),
        "{events:?}"
    );
    job.purge(&node).await?;

    let job = Real::submit(&cluster, &folder, "multiple_affinities").await?;
    for alloc in job.until(4, "running").await? {
        let scores = &alloc["Metrics"]["ScoreMetaData"][0]["Scores"];
        // One of two affinities of the same weight holds on this node.
        assert_eq!(scores["node-affinity"], 0.5, "{scores}");
    }
    job.purge(&node).await
}

/// Files that ask for more than this release has, and what each has to be warned of.
const WARNED: [(&str, &[&str]); 5] = [
    ("nspawn", &["nspawn", "service", "check"]),
    ("checks_happy", &["service", "check"]),
    ("vault_exec", &[]),
    ("restic", &[]),
    ("poseidon", &["docker"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn files_that_ask_for_more_are_planned_and_registered_with_a_warning() -> anyhow::Result<()> {
    let Some(folder) = folder() else {
        return Ok(());
    };
    // No node: what they would do is not wanted here.
    let cluster = Cluster::start(Settings::of(1)).await?;
    for (part, words) in WARNED {
        let job = parse(&cluster, &folder, part).await?;
        let id = job["ID"].as_str().context("a job without an id")?;
        let path = format!("/v1/job/{id}/plan");
        let body = json!({ "Job": job, "Diff": true });
        let client = cluster.client(0)?;
        let planned = client
            .put::<_, Value>(&path, &Query::new(), &body)
            .await
            .with_context(|| format!("plan {part}"))?
            .value;
        let registered = register(&cluster, &job)
            .await
            .with_context(|| format!("register {part}"))?;
        for (verb, answer) in [("plan", &planned), ("register", &registered)] {
            let warnings = answer["Warnings"].as_str().unwrap_or_default();
            for word in words {
                ensure!(
                    warnings.contains(word),
                    "{verb} {part}: no warning names {word:?}: {warnings}"
                );
            }
        }
    }
    Ok(())
}
