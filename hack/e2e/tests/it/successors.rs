//! What takes the place of something that is slow to stop: its next version, and another job.

use std::path::Path;

use anyhow::ensure;
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, has_root, script};

const MS: u64 = 1_000_000;

/// A service on a static port, which takes 3 s to end after its signal, and fails where what had
/// the port before has not ended.
fn job(id: &str, version: &str, held: &Path) -> Value {
    let held = held.display();
    let text = format!(
        "trap 'sleep 3; rmdir {held}; exit 0' INT; mkdir {held} || exit 1; \
         while :; do sleep 0.1; done"
    );
    let mut job = script(
        id,
        "service",
        &text,
        &json!({ "Attempts": 0, "Mode": "fail" }),
    );
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Networks"] = json!([{ "ReservedPorts": [{ "Label": "http", "Value": 8099 }] }]);
    group["Update"] = json!({
        "MaxParallel": 1, "HealthCheck": "task_states", "MinHealthyTime": 100 * MS,
        "HealthyDeadline": 20_000 * MS, "ProgressDeadline": 30_000 * MS,
    });
    group["Tasks"][0]["KillTimeout"] = json!(15_000 * MS);
    group["Tasks"][0]["Env"] = json!({ "VERSION": version });
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_port_is_handed_on_when_its_holder_has_ended() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let folder = tempfile::tempdir()?;
    let held = folder.path().join("held");
    let old = Running::start(&cluster, &job("web", "1", &held)).await?;
    old.until("running").await?;
    // The program is a moment behind its process.
    eventually("a task that holds the folder", PATIENCE, async || {
        Ok(held.exists().then_some(()))
    })
    .await?;

    // Its next version: placed at once, started after the end.
    let client = cluster.client(0)?;
    let next = job("web", "2", &held);
    client
        .put::<_, Value>("/v1/jobs", &Query::new(), &next)
        .await?;
    let new = eventually("a successor", PATIENCE, async || {
        let alloc = old.read().await?;
        let next = alloc["NextAllocation"].as_str().filter(|id| !id.is_empty());
        Ok(next.map(str::to_owned))
    })
    .await?;
    let new = Running::find(&cluster, "web", &new);
    let before = old.until("complete").await?;
    let after = new.until("running").await?;
    let task = |alloc: &Value| alloc["TaskStates"]["task"].clone();
    let (before, after) = (task(&before), task(&after));
    ensure!(
        before["FinishedAt"].as_str() <= after["StartedAt"].as_str() && after["Failed"] == false,
        "{before} {after}"
    );
    eventually("a deployment that succeeded", PATIENCE, async || {
        let deployment = cluster.get("/v1/job/web/deployment", &Query::new()).await?;
        let succeeded = deployment["Status"] == "successful";
        Ok(succeeded.then_some(()))
    })
    .await?;

    // Another job: placed after the end, which unblocks it.
    client.delete::<Value>("/v1/job/web", &Query::new()).await?;
    let other = Running::start(&cluster, &job("other", "1", &held)).await?;
    ensure!(new.read().await?["ClientStatus"] == "complete");
    other.until("running").await?;
    other.stop(&node).await?;
    node.must_have_no_tasks().await
}
