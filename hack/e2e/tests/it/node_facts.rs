//! What a node says of itself, as the API shows it.

use hack_cluster::{Cluster, Net, Node, Settings, eventually};
use protocol_client::Query;
use serde_json::json;

use crate::running::{PATIENCE, Running, has_root, script};

/// How many evaluations a job has had.
async fn evaluations(cluster: &Cluster, job: &str) -> anyhow::Result<usize> {
    let path = format!("/v1/job/{job}/evaluations");
    let evals = cluster.get(&path, &Query::new()).await?;
    Ok(evals.as_array().map_or(0, Vec::len))
}

/// Reconnect hole 3: each restart of a node's daemon made the scheduler look at all of its jobs,
/// since free space and clock rates tremble.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_restarted_makes_nobody_look_at_its_jobs_again() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    // Of its own: whether a node has mode bridge depends on the other nodes of its network.
    let Some(net) = Net::make(2)? else {
        return Ok(());
    };
    let settings = Settings::of(1).with_silence("60s");
    let cluster = Cluster::start_in(settings, net).await?;
    let mut node = Node::start(&cluster).await?;
    let never = json!({ "Attempts": 0, "Mode": "fail" });
    let rests = script("rests", "batch", "sleep 600", &never);
    let rests = Running::start(&cluster, &rests).await?;
    rests.until("running").await?;
    let before = evaluations(&cluster, "rests").await?;
    for round in 0..3 {
        node.kill()?;
        // Some of the disk is taken meanwhile.
        let written = tempfile::NamedTempFile::new()?;
        std::fs::write(written.path(), vec![b'x'; 8 << 20])?;
        node.start_again_in(&cluster)?;
        // Its end is told in the new session, so that the facts were before.
        let id = format!("ends-{round}");
        let ends = script(&id, "batch", "true", &never);
        let ends = Running::start(&cluster, &ends).await?;
        ends.until("complete").await?;
        assert_eq!(evaluations(&cluster, "rests").await?, before, "{round}");
    }
    rests.stop(&node).await?;
    node.must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_meta_is_seen_at_the_node_after_sighup() -> anyhow::Result<()> {
    if !has_root() {
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1)).await?;
    let node = Node::start(&cluster).await?;
    let before = node.read(&cluster).await?;
    assert!(before["Meta"]["rack"].is_null(), "{}", before["Meta"]);
    node.reload("meta {\n  rack = \"r2\"\n}\n")?;
    let after = eventually("the new meta", PATIENCE, async || {
        let read = node.read(&cluster).await?;
        Ok((read["Meta"]["rack"] == "r2").then_some(read))
    })
    .await?;
    assert_eq!(after["Status"], "ready", "the session went on");
    assert_eq!(after["ID"], before["ID"]);
    Ok(())
}
