//! What users see of a task's end: restarts, exit codes, events.

use anyhow::{Context as _, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, has_root, script};

/// The events of the one task, by type.
fn events(alloc: &Value) -> Vec<&Value> {
    let events = alloc["TaskStates"]["task"]["Events"].as_array();
    events.into_iter().flatten().collect()
}

fn event<'a>(alloc: &'a Value, kind: &str) -> anyhow::Result<&'a Value> {
    let mut all = events(alloc).into_iter();
    let found = all.find(|event| event["Type"] == kind);
    found.with_context(|| format!("no event {kind}: {}", alloc["TaskStates"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_killed_is_restarted() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let policy = json!({
        "Attempts": 3, "Interval": 60_000_000_000_u64, "Delay": 100_000_000_u64, "Mode": "fail",
    });
    let text = "echo pid $$ >&2; exec sleep 1000";
    let task = Running::start(&cluster, &script("restarted", "service", text, &policy)).await?;
    task.until("running").await?;
    let first = task.process().await?;
    kill_process(Pid::from_raw(first.pid).context("pid")?, Signal::KILL)?;
    eventually("a restart and its events", PATIENCE, async || {
        let alloc = task.read().await?;
        let state = &alloc["TaskStates"]["task"];
        ensure!(
            state["Restarts"] == 1 && state["State"] == "running",
            "{state}"
        );
        let ended = event(&alloc, "Terminated")?;
        ensure!(ended["Signal"] == 9, "{ended}");
        event(&alloc, "Restarting")?;
        Ok(Some(()))
    })
    .await?;
    let second = eventually("another process", PATIENCE, async || {
        Ok(Some(task.process().await?).filter(|second| *second != first))
    })
    .await?;
    assert_ne!(first, second);
    task.stop(&node).await?;
    node.must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_seen_and_a_batch_job_that_ends_well_is_complete() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let never = json!({ "Attempts": 0, "Mode": "fail" });
    let failing = script("failing", "batch", "echo out; echo err >&2; exit 7", &never);
    let failing = Running::start(&cluster, &failing).await?;
    let ending = script("ending", "batch", "echo done", &never);
    let ending = Running::start(&cluster, &ending).await?;

    let alloc = failing.until("failed").await?;
    let state = &alloc["TaskStates"]["task"];
    assert_eq!(
        (&state["State"], &state["Failed"]),
        (&json!("dead"), &json!(true))
    );
    assert_eq!(event(&alloc, "Terminated")?["ExitCode"], 7);
    failing.must_print("stdout", "out\n").await?;
    failing.must_print("stderr", "err\n").await?;

    let alloc = ending.until("complete").await?;
    assert_eq!(event(&alloc, "Terminated")?["ExitCode"], 0);
    ending.must_print("stdout", "done\n").await?;
    node.must_have_no_tasks().await
}
