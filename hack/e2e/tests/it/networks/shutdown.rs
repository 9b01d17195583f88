//! A host whose power goes, and that boots again with the same disk.

use std::time::Duration;

use super::scene::{Placed, Scene, Window};

/// Longer than a node is tolerated without a word, shorter than any patience.
const LEASE: Duration = Duration::from_secs(4);
/// How long a node that booted is looked at while nobody can tell it anything.
const ALONE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_on_a_host_that_lost_its_power_runs_elsewhere_and_not_twice() -> anyhow::Result<()>
{
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let old = scene.run("plain", Window::None).await?;
    scene.nodes[0].cut_power().await?;
    scene.until_node(0, "down").await?;
    scene.until(&old, "lost").await?;
    let new = scene.replacement("plain", &old).await?;

    let Scene { nodes, cluster } = &mut scene;
    nodes[0].boot_in(cluster)?;
    scene.until_node(0, "ready").await?;
    assert_eq!(scene.the_one("plain").await?, new);
    assert_eq!(scene.starts(&new).await?, 1);
    scene.nodes[0].must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_window_tolerates_on_a_host_that_lost_its_power_is_there_once_when_it_is_back()
-> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let waiting = scene.run("waiting", Window::Waits).await?;
    let kept = scene.run("kept", Window::Replaces("keep_original")).await?;
    let replaced = Window::Replaces("keep_replacement");
    let replaced = scene.run("replaced", replaced).await?;
    scene.nodes[0].cut_power().await?;
    scene.until_node(0, "disconnected").await?;
    scene.until(&waiting, "unknown").await?;
    scene.until(&replaced, "unknown").await?;
    scene.replacement("kept", &kept).await?;
    let instead = scene.replacement("replaced", &replaced).await?;

    let Scene { nodes, cluster } = &mut scene;
    nodes[0].boot_in(cluster)?;
    scene.until_node(0, "ready").await?;
    // The same allocation, started once more where it was.
    let again = scene.the_one("waiting").await?;
    assert_eq!((&again.alloc, &again.node), (&waiting.alloc, &waiting.node));
    assert_eq!(scene.starts(&waiting).await?, 2);
    // Whether or not they were started again by then.
    let again = scene.the_one("kept").await?;
    assert_eq!((&again.alloc, &again.node), (&kept.alloc, &kept.node));
    assert_eq!(scene.the_one("replaced").await?, instead);
    assert_eq!(scene.starts(&instead).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_boots_while_it_is_cut_off_starts_what_waits_for_it_and_nothing_else()
-> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let waiting = scene.run("waiting", Window::Waits).await?;
    let plain = scene.run("plain", Window::None).await?;
    let leased = scene.run("leased", Window::Leased(LEASE)).await?;
    scene.net()?.cut(scene.way_of_node(0))?;
    scene.nodes[0].cut_power().await?;
    let Scene { nodes, cluster } = &mut scene;
    nodes[0].boot_in(cluster)?;
    scene.until_tasks(0, 1).await?;
    tokio::time::sleep(ALONE).await;
    scene.until_tasks(0, 1).await?;
    scene.until_node(0, "disconnected").await?;
    let elsewhere = scene.replacement("plain", &plain).await?;
    let after_lease = scene.replacement("leased", &leased).await?;

    scene.net()?.heal(scene.way_of_node(0))?;
    scene.until_node(0, "ready").await?;
    let again = scene.the_one("waiting").await?;
    assert_eq!((&again.alloc, &again.node), (&waiting.alloc, &waiting.node));
    assert_eq!(scene.starts(&waiting).await?, 2);
    for (job, new, old) in [("plain", elsewhere, plain), ("leased", after_lease, leased)] {
        assert_eq!(scene.the_one(job).await?, new);
        starts_once(&scene, &new).await?;
        starts_once(&scene, &old).await?;
    }
    Ok(())
}

async fn starts_once(scene: &Scene, placed: &Placed) -> anyhow::Result<()> {
    assert_eq!(scene.starts(placed).await?, 1, "{placed:?}");
    Ok(())
}
