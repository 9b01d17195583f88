//! The leader dies while every node says Hello.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hack_cluster::eventually;

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

/// The nodes that a server has in a session, as its process has logged it.
fn held(scene: &Scene, server: usize) -> anyhow::Result<BTreeSet<String>> {
    let mut sessions: BTreeMap<String, i32> = BTreeMap::new();
    for line in scene.cluster.log(server)?.lines() {
        let mut count = |said: &str, by: i32| {
            let node = said.split(' ').next().unwrap_or_default();
            *sessions.entry(node.to_owned()).or_insert(0) += by;
        };
        if line.contains("controlplane: serving") {
            sessions.clear();
        } else if let Some((_, said)) = line.split_once("node session node=") {
            count(said, 1);
        } else if let Some((_, said)) = line.split_once("node session ended node=") {
            count(said, -1);
        }
    }
    let held = sessions.into_iter().filter(|(_, count)| *count > 0);
    Ok(held.map(|(node, _)| node).collect())
}

/// Waits until every node is in a session elsewhere: one whose server died is `ready` for as long
/// as the next leader gives it to come back, and must not be cut off before it did.
async fn until_held_without(scene: &Scene, killed: usize) -> anyhow::Result<()> {
    eventually("every node in a session", PATIENCE, async || {
        let mut all = BTreeSet::new();
        for server in (0..SERVERS).filter(|server| *server != killed) {
            all.extend(held(scene, server)?);
        }
        ensure!(all.len() == scene.nodes.len(), "{all:?}");
        Ok(Some(()))
    })
    .await
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
        let ready = scene.until_node(node, "ready").await;
        ready.with_context(|| scene.logs(node))?;
    }
    until_held_without(scene, leader).await?;
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
