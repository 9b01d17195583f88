//! Preemption on a real node: the new allocation starts after its victim has ended.

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::drains::set;
use crate::running::{Running, has_root, script};

/// A job that needs more than half of the node's memory. Its task takes a second to stop.
fn job(id: &str, priority: i64, memory_mb: i64) -> Value {
    let text = "trap 'sleep 1; exit 0' TERM INT; while true; do sleep 0.1; done";
    let mut job = script(id, "service", text, &json!({}));
    job["Job"]["Priority"] = json!(priority);
    let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
    task["Resources"]["MemoryMB"] = json!(memory_mb);
    task["KillTimeout"] = json!(10_000_000_000_u64);
    job
}

/// A time of the task, with nine digits of a second, so that texts compare as the times do.
fn time(alloc: &Value, key: &str) -> anyhow::Result<String> {
    let state = &alloc["TaskStates"]["task"];
    let text = state[key].as_str().and_then(|text| text.strip_suffix('Z'));
    let text = text.with_context(|| format!("{key}: {state}"))?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    Ok(format!("{seconds}.{fraction:0<9}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preempting_alloc_starts_after_its_victim_ended() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let read = node.read(&cluster).await?;
    let memory = read["NodeResources"]["Memory"]["MemoryMB"].as_i64();
    let memory = memory.context("the node's memory")? * 6 / 10;
    let config = json!({ "PreemptionConfig": { "ServiceSchedulerEnabled": true } });
    set(&cluster, "/v1/operator/scheduler/configuration", &config).await?;
    let low = Running::start(&cluster, &job("low", 20, memory)).await?;
    low.until("running").await?;
    let high = Running::start(&cluster, &job("high", 80, memory)).await?;
    let new = high.until("running").await?;
    let old = low.until("complete").await?;
    ensure!(old["DesiredStatus"] == "evict", "{old}");
    let text = format!("Preempted by alloc ID {}", high.alloc);
    ensure!(old["DesiredDescription"] == text.as_str(), "{old}");
    ensure!(old["PreemptedByAllocation"] == high.alloc.as_str());
    ensure!(new["PreemptedAllocations"] == json!([low.alloc]));
    let (ended, started) = (time(&old, "FinishedAt")?, time(&new, "StartedAt")?);
    ensure!(ended <= started, "ended {ended}, started {started}");
    let evals = cluster
        .get("/v1/job/low/evaluations", &Query::new())
        .await?;
    let mut triggers = evals.as_array().into_iter().flatten();
    ensure!(
        triggers.any(|eval| eval["TriggeredBy"] == "preemption"),
        "{evals}"
    );
    for id in ["low", "high"] {
        let client = cluster.client(0)?;
        let path = format!("/v1/job/{id}");
        client.delete::<Value>(&path, &Query::new()).await?;
    }
    node.must_have_no_tasks().await
}
