//! Node pools of real nodes.

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running, has_root, script};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_changes_its_pool_takes_what_waits_there() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let client = cluster.client(0)?;
    let node = Node::start(&cluster).await?;
    let query = Query::new();
    let pool = json!({ "Name": "gpu" });
    client
        .put::<_, Value>("/v1/node/pools", &query, &pool)
        .await?;
    let never = json!({ "Attempts": 0, "Mode": "fail" });
    let mut job = script("waits", "batch", "sleep 600", &never);
    job["Job"]["NodePool"] = json!("gpu");
    client.put::<_, Value>("/v1/jobs", &query, &job).await?;
    eventually("a blocked evaluation", PATIENCE, async || {
        let evals = cluster.get("/v1/job/waits/evaluations", &query).await?;
        let evals = evals.as_array().context("a list")?;
        Ok(evals
            .iter()
            .any(|it| it["Status"] == "blocked")
            .then_some(()))
    })
    .await?;
    node.reload("node_pool = \"gpu\"\n")?;
    let alloc = eventually("an allocation", PATIENCE, async || {
        let allocs = cluster.get("/v1/job/waits/allocations", &query).await?;
        Ok(allocs[0]["ID"].as_str().map(str::to_owned))
    })
    .await?;
    let waits = Running::find(&cluster, "waits", &alloc);
    waits.until("running").await?;
    let nodes = cluster.get("/v1/node/pool/gpu/nodes", &query).await?;
    ensure!(nodes[0]["Name"] == node.name(), "{nodes}");
    let deleted = client
        .delete::<Value>("/v1/node/pool/gpu", &query)
        .await
        .err()
        .context("the pool is in use")?;
    ensure!(deleted.to_string().contains("has nodes"), "{deleted}");
    waits.stop(&node).await?;
    node.must_have_no_tasks().await
}
