//! The leader dies while every node says Hello.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use hack_e2e::eventually;

use super::scene::{Placed, SERVERS, Scene, Window};
use crate::running::PATIENCE;

/// How long after the first session of a round was made.
const KILLED_AFTER_MS: [u64; 5] = [0, 2, 10, 40, 120];

/// The newest session of each node, as servers have logged them.
fn epochs(scene: &Scene) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut newest = BTreeMap::new();
    for server in 0..SERVERS {
        for line in scene.cluster.log(server)?.lines() {
            let Some((_, said)) = line.split_once("node session node=") else {
                continue;
            };
            let mut words = said.split(' ');
            let node = words.next().unwrap_or_default().to_owned();
            let epoch = words.next().and_then(|word| word.strip_prefix("epoch="));
            if let Some(epoch) = epoch.and_then(|epoch| epoch.parse::<u64>().ok()) {
                let known = newest.entry(node).or_insert(0);
                *known = epoch.max(*known);
            }
        }
    }
    Ok(newest)
}

async fn round(scene: &mut Scene, placed: &[Placed], after: Duration) -> anyhow::Result<()> {
    let nodes = scene.nodes.len();
    for node in 0..nodes {
        scene.net()?.cut(scene.way_of_node(node))?;
    }
    scene.until_node(0, "disconnected").await?;
    for node in 1..nodes {
        scene.until_node(node, "down").await?;
    }
    let before = epochs(scene)?;
    ensure!(before.len() == nodes, "{before:?}");
    let leader = scene.cluster.leader().await?;
    for node in 0..nodes {
        scene.net()?.heal(scene.way_of_node(node))?;
    }
    eventually("a node that says Hello", PATIENCE, async || {
        Ok((epochs(scene)? != before).then_some(()))
    })
    .await?;
    tokio::time::sleep(after).await;
    scene.cluster.kill(leader)?;
    for node in 0..nodes {
        scene.until_node(node, "ready").await?;
    }
    for (node, epoch) in epochs(scene)? {
        assert!(before.get(&node).is_some_and(|old| *old < epoch), "{node}");
    }
    for placed in placed {
        scene.until(placed, "running").await?;
        scene.must_live(placed);
    }
    scene.cluster.restart(leader).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_ready_again_though_the_leader_dies_as_they_say_hello() -> anyhow::Result<()>
{
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let mut placed = Vec::new();
    for job in ["one", "two", "three"] {
        placed.push(scene.run(job, Window::Waits).await?);
    }
    for after in KILLED_AFTER_MS {
        round(&mut scene, &placed, Duration::from_millis(after)).await?;
    }
    for (job, placed) in ["one", "two", "three"].into_iter().zip(&placed) {
        assert_eq!(scene.the_one(job).await?, *placed);
        assert_eq!(scene.starts(placed).await?, 1);
    }
    Ok(())
}
