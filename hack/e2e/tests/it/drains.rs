//! A drain on real processes: a service keeps two of three instances at every moment, although
//! leaders are killed while it moves.

use std::time::Duration;

use anyhow::ensure;
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, has_root, script};

const MS: u64 = 1_000_000;
const COUNT: usize = 3;
/// Between two looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

fn job() -> Value {
    let mut job = script("web", "service", "exec sleep 3600", &json!({}));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(COUNT);
    group["Update"] = json!({
        "MaxParallel": 3, "HealthCheck": "task_states", "MinHealthyTime": 100 * MS,
        "HealthyDeadline": 20_000 * MS, "ProgressDeadline": 30_000 * MS,
    });
    group["Migrate"] = json!({
        "MaxParallel": 1, "HealthCheck": "task_states", "MinHealthyTime": 1_000 * MS,
        "HealthyDeadline": 20_000 * MS,
    });
    job
}

pub(crate) async fn set(cluster: &Cluster, path: &str, body: &Value) -> anyhow::Result<()> {
    let leader = cluster.leader().await?;
    let client = cluster.client(leader)?;
    client.put::<_, Value>(path, &Query::new(), body).await?;
    Ok(())
}

/// How many of the job's allocations run and are healthy on this node, and are wanted.
async fn healthy_on(cluster: &Cluster, node: &str) -> anyhow::Result<usize> {
    let path = "/v1/job/web/allocations";
    let allocs = cluster.get(path, &Query::new()).await?;
    let all = allocs.as_array().into_iter().flatten();
    let healthy = all.filter(|alloc| {
        alloc["NodeID"] == node
            && alloc["DesiredStatus"] == "run"
            && alloc["ClientStatus"] == "running"
            && alloc["DeploymentStatus"]["Healthy"] == true
    });
    Ok(healthy.count())
}

async fn until_healthy(cluster: &Cluster, node: &str, count: usize) -> anyhow::Result<()> {
    eventually(&format!("{count} healthy ones"), PATIENCE, async || {
        let found = healthy_on(cluster, node).await?;
        ensure!(found >= count, "{found}");
        Ok(Some(()))
    })
    .await
}

/// Fails as soon as fewer than two instances run.
pub(crate) async fn two_run(nodes: &[Node]) -> anyhow::Result<()> {
    loop {
        let mut running = 0;
        for node in nodes {
            running += node.task_processes()?.len();
        }
        ensure!(running >= COUNT - 1, "{running} of {COUNT} run");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The drain, over the deaths of two leaders.
async fn drain(cluster: &mut Cluster, from: &str, to: &str) -> anyhow::Result<()> {
    let spec = json!({ "DrainSpec": { "Deadline": 600_000 * MS }, "Meta": { "why": "test" } });
    set(cluster, &format!("/v1/node/{from}/drain"), &spec).await?;
    for moved in 1..COUNT {
        until_healthy(cluster, to, moved).await?;
        let leader = cluster.leader().await?;
        cluster.kill(leader)?;
        cluster.leader().await?;
        cluster.restart(leader).await?;
    }
    until_healthy(cluster, to, COUNT).await?;
    let path = format!("/v1/node/{from}");
    eventually("the end of the drain", PATIENCE, async || {
        let node = cluster.get(&path, &Query::new()).await?;
        let last = node["LastDrain"].clone();
        ensure!(last["Status"] == "complete", "{last}");
        ensure!(node["DrainStrategy"].is_null() && last["Meta"]["why"] == "test");
        ensure!(node["SchedulingEligibility"] == "ineligible");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_three_run_at_every_moment_of_a_drain_over_killed_leaders() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let nodes = Node::start_many(&cluster, 2).await?;
    let from = nodes[0].read(&cluster).await?["ID"].clone();
    let to = nodes[1].read(&cluster).await?["ID"].clone();
    let (from, to) = (from.as_str().unwrap_or(""), to.as_str().unwrap_or(""));
    let eligibility = format!("/v1/node/{to}/eligibility");
    set(
        &cluster,
        &eligibility,
        &json!({ "Eligibility": "ineligible" }),
    )
    .await?;
    set(&cluster, "/v1/jobs", &job()).await?;
    until_healthy(&cluster, from, COUNT).await?;
    set(
        &cluster,
        &eligibility,
        &json!({ "Eligibility": "eligible" }),
    )
    .await?;
    tokio::select! {
        fewer = two_run(&nodes) => fewer?,
        drained = drain(&mut cluster, from, to) => drained?,
    }
    nodes[0].must_have_no_tasks().await?;
    let leader = cluster.leader().await?;
    let client = cluster.client(leader)?;
    client.delete::<Value>("/v1/job/web", &Query::new()).await?;
    nodes[1].must_have_no_tasks().await
}
