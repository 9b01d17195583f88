//! A canary on real processes: it is placed, promoted and rolled out over the deaths of three
//! leaders, and two of three instances run at every moment.

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::drains::{set, two_run};
use crate::running::{PATIENCE, has_root, script};

const MS: u64 = 1_000_000;
const COUNT: usize = 3;

fn job(version: &str) -> Value {
    let mut job = script("web", "service", "exec sleep 3600", &json!({}));
    let group = &mut job["Job"]["TaskGroups"][0];
    group["Count"] = json!(COUNT);
    group["Tasks"][0]["Env"] = json!({ "VERSION": version });
    group["Update"] = json!({
        "MaxParallel": 1, "Canary": 1, "HealthCheck": "task_states", "MinHealthyTime": 500 * MS,
        "HealthyDeadline": 20_000 * MS, "ProgressDeadline": 60_000 * MS,
    });
    job
}

/// Kills the leader and starts it again once there is another one.
async fn lose_leader(cluster: &mut Cluster) -> anyhow::Result<()> {
    let leader = cluster.leader().await?;
    cluster.kill(leader)?;
    cluster.leader().await?;
    cluster.restart(leader).await
}

/// The newest deployment, once it has this status and so many healthy allocations.
async fn deployment(cluster: &Cluster, status: &str, healthy: usize) -> anyhow::Result<Value> {
    let what = format!("a deployment that is {status} with {healthy} healthy ones");
    eventually(&what, PATIENCE, async || {
        let found = cluster.get("/v1/job/web/deployment", &Query::new()).await?;
        ensure!(found["Status"] == status, "{found}");
        let groups = found["TaskGroups"].as_object().context("groups")?;
        let counts = groups
            .values()
            .filter_map(|it| it["HealthyAllocs"].as_u64());
        ensure!(counts.sum::<u64>() >= healthy as u64, "{found}");
        Ok(Some(found))
    })
    .await
}

/// How many allocations of a version run and are wanted.
async fn running(cluster: &Cluster, version: u64) -> anyhow::Result<usize> {
    let path = "/v1/job/web/allocations";
    let allocs = cluster.get(path, &Query::new()).await?;
    let all = allocs.as_array().into_iter().flatten();
    let wanted = all.filter(|alloc| {
        alloc["JobVersion"] == version
            && alloc["DesiredStatus"] == "run"
            && alloc["ClientStatus"] == "running"
    });
    Ok(wanted.count())
}

async fn release(cluster: &mut Cluster) -> anyhow::Result<()> {
    set(cluster, "/v1/jobs", &job("two")).await?;
    lose_leader(cluster).await?;
    let found = deployment(cluster, "running", 1).await?;
    let text = &found["StatusDescription"];
    ensure!(
        text == "Deployment is running but requires manual promotion",
        "{text}"
    );
    let old = running(cluster, 0).await?;
    ensure!(
        old == COUNT,
        "{old} of the old version run before the promotion"
    );
    lose_leader(cluster).await?;
    let id = found["ID"].as_str().context("an id")?;
    let body = json!({ "DeploymentID": id, "All": true });
    set(cluster, &format!("/v1/deployment/promote/{id}"), &body).await?;
    deployment(cluster, "running", 2).await?;
    lose_leader(cluster).await?;
    deployment(cluster, "successful", COUNT).await?;
    eventually("the new version alone", PATIENCE, async || {
        let (old, new) = (running(cluster, 0).await?, running(cluster, 1).await?);
        ensure!((old, new) == (0, COUNT), "{old} old, {new} new");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_released_over_killed_leaders() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let mut cluster = Cluster::start(Settings::of(3)).await?;
    let nodes = Node::start_many(&cluster, 2).await?;
    set(&cluster, "/v1/jobs", &job("one")).await?;
    deployment(&cluster, "successful", COUNT).await?;
    tokio::select! {
        fewer = two_run(&nodes) => fewer?,
        released = release(&mut cluster) => released?,
    }
    let mut tasks = 0;
    for node in &nodes {
        tasks += node.task_processes()?.len();
    }
    ensure!(tasks == COUNT, "{tasks} processes of tasks run");
    let leader = cluster.leader().await?;
    let client = cluster.client(leader)?;
    client.delete::<Value>("/v1/job/web", &Query::new()).await?;
    for node in &nodes {
        node.must_have_no_tasks().await?;
    }
    Ok(())
}
