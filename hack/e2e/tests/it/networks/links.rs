//! Trouble between servers, or of one of them: nodes have another one, and nobody notices.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use hack_cluster::{Way, eventually};
use protocol_client::Query;
use serde_json::Value;

use super::scene::{SERVERS, Scene, Window};
use crate::running::PATIENCE;

/// How long one server is slow.
const SLOW: Duration = Duration::from_secs(20);
/// How long a link is cut: longer than an election, and than a node may be silent.
const CUT: Duration = Duration::from_secs(5);

/// When each node became what it is: another answer means that it was something else meanwhile.
async fn since(scene: &Scene) -> anyhow::Result<Vec<(String, String, u64)>> {
    let nodes = eventually("the nodes", PATIENCE, async || {
        let nodes = scene.cluster.get("/v1/nodes", &Query::new()).await?;
        Ok(Some(nodes.as_array().context("no list")?.clone()))
    })
    .await?;
    let mut nodes: Vec<(String, String, u64)> = nodes
        .iter()
        .map(|node| {
            let text = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
            let since = node["StatusUpdatedAt"].as_u64().unwrap_or_default();
            (text("Name"), text("Status"), since)
        })
        .collect();
    nodes.sort_unstable();
    Ok(nodes)
}

/// Registers a job again and again, through one server after another, for as long as that.
async fn work(scene: &Scene, job: &Value, long: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    for number in (0..SERVERS).cycle() {
        let registered = eventually("a job that is registered", PATIENCE, async || {
            let client = scene.cluster.client(number)?;
            let none = Query::new();
            let asked = client.put::<_, Value>("/v1/jobs", &none, job);
            let answer = tokio::time::timeout(Duration::from_secs(5), asked).await?;
            Ok(Some(answer.map(drop)?))
        });
        // Through a server that reaches nobody it takes until the link is back.
        if tokio::time::timeout(long, registered).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if begun.elapsed() >= long {
            return Ok(());
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_leaves_ready_while_one_server_is_slow() -> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let placed = scene.run("patient", Window::Waits).await?;
    let before = since(&scene).await?;
    let leader = scene.cluster.leader().await?;
    let slow = (leader + 1) % SERVERS;
    if !scene.net()?.slow_down(slow)? {
        return Ok(());
    }
    work(&scene, &scene.job("other", Window::None), SLOW).await?;
    assert_eq!(since(&scene).await?, before);
    scene.net()?.speed_up(slow)?;
    scene.the_one("other").await?;
    assert_eq!(scene.the_one("patient").await?, placed);
    assert_eq!(since(&scene).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_leaves_ready_while_any_link_between_servers_is_cut() -> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let placed = scene.run("patient", Window::Waits).await?;
    let before = since(&scene).await?;
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        scene.net()?.cut(Way::Between(one, other))?;
        work(&scene, &scene.job("other", Window::None), CUT).await?;
        assert_eq!(since(&scene).await?, before, "{one} and {other}");
        scene.net()?.heal(Way::Between(one, other))?;
        scene.cluster.leader().await?;
    }
    scene.the_one("other").await?;
    assert_eq!(scene.the_one("patient").await?, placed);
    assert_eq!(since(&scene).await?, before);
    Ok(())
}
