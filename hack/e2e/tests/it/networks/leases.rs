//! Groups that stop themselves when the control plane does not hear their node
//! (`stop_on_client_after`): never two of one at a time.

use std::time::Duration;

use hack_cluster::Way;

use super::scene::{SERVERS, Scene, Window};

/// Shorter than any patience.
const LEASE: Duration = Duration::from_secs(4);
/// Longer than the way of a node from a dead server to the new leader, also on a busy machine: the
/// silence is noticed after some seconds, and the first other address may be of no use.
const LONG_LEASE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_group_ends_on_a_node_that_is_cut_off_before_another_takes_its_place()
-> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let old = scene.run("leased", Window::Leased(LEASE)).await?;
    scene.net()?.cut(scene.way_of_node(0))?;
    scene.gone(&old).await?;
    // The leader waits for clocks that are slower than its own, and for the longest kill timeout.
    assert_eq!(scene.allocs("leased").await?.len(), 1);
    let new = scene.replacement("leased", &old).await?;

    scene.net()?.heal(scene.way_of_node(0))?;
    scene.until_node(0, "ready").await?;
    assert_eq!(scene.the_one("leased").await?, new);
    assert_eq!(scene.starts(&old).await?, 1);
    assert_eq!(scene.starts(&new).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_group_ends_though_nothing_of_its_node_but_keeper_lives() -> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let old = scene.run("leased", Window::Leased(LEASE)).await?;
    let plain = scene.run("plain", Window::Waits).await?;
    scene.nodes[0].kill()?;
    scene.gone(&old).await?;
    assert_eq!(scene.allocs("leased").await?.len(), 1);
    scene.must_live(&plain);
    let new = scene.replacement("leased", &old).await?;

    let Scene { nodes, cluster } = &mut scene;
    nodes[0].start_again_in(cluster)?;
    scene.until_node(0, "ready").await?;
    assert_eq!(scene.the_one("leased").await?, new);
    assert_eq!(scene.the_one("plain").await?, plain);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_no_majority_confirm_nobody_and_leased_groups_end() -> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let leased = scene.run("leased", Window::Leased(LEASE)).await?;
    let plain = scene.run("plain", Window::None).await?;
    let pairs = [(0, 1), (1, 2), (2, 0)];
    // Every node reaches every server, and no server another one.
    for (one, other) in pairs {
        scene.net()?.cut(Way::Between(one, other))?;
    }
    scene.gone(&leased).await?;
    scene.must_live(&plain);
    for (one, other) in pairs {
        scene.net()?.heal(Way::Between(one, other))?;
    }
    for node in 0..scene.nodes.len() {
        scene.until_node(node, "ready").await?;
    }
    // Its node can say so only now.
    scene.until_over(&leased).await?;
    let again = scene.the_one("leased").await?;
    assert_ne!(again.alloc, leased.alloc);
    assert_eq!(scene.starts(&again).await?, 1);
    assert_eq!(scene.the_one("plain").await?, plain);
    assert_eq!(scene.starts(&plain).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_group_goes_on_while_leaders_come_and_go() -> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let leased = scene.run("leased", Window::Leased(LONG_LEASE)).await?;
    for _ in 0..SERVERS {
        let leader = scene.cluster.leader().await?;
        scene.cluster.kill(leader)?;
        tokio::time::sleep(LONG_LEASE).await;
        scene.must_live(&leased);
        scene.cluster.restart(leader).await?;
    }
    assert_eq!(scene.the_one("leased").await?, leased);
    assert_eq!(scene.starts(&leased).await?, 1);
    Ok(())
}
