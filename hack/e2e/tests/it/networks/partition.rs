//! A node that nobody reaches for a while, and that lives all the time.

use super::scene::{Scene, Window};

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_on_a_node_that_is_cut_off_is_lost_and_stopped_when_it_is_back()
-> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let old = scene.run("plain", Window::None).await?;
    scene.net()?.cut(scene.way_of_node(0))?;
    scene.until_node(0, "down").await?;
    scene.until(&old, "lost").await?;
    let new = scene.replacement("plain", &old).await?;
    // Nobody could tell the node.
    scene.must_live(&old);

    scene.net()?.heal(scene.way_of_node(0))?;
    scene.until_node(0, "ready").await?;
    scene.gone(&old).await?;
    assert_eq!(scene.the_one("plain").await?, new);
    assert_eq!(scene.starts(&old).await?, 1);
    assert_eq!(scene.starts(&new).await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_window_tolerates_on_a_node_that_is_cut_off_goes_on_when_it_is_back()
-> anyhow::Result<()> {
    let Some(scene) = Scene::start().await? else {
        return Ok(());
    };
    let waiting = scene.run("waiting", Window::Waits).await?;
    let kept = scene.run("kept", Window::Replaces("keep_original")).await?;
    let replaced = Window::Replaces("keep_replacement");
    let replaced = scene.run("replaced", replaced).await?;
    scene.net()?.cut(scene.way_of_node(0))?;
    scene.until_node(0, "disconnected").await?;
    for placed in [&waiting, &kept, &replaced] {
        scene.until(placed, "unknown").await?;
    }
    let beside = scene.replacement("kept", &kept).await?;
    let instead = scene.replacement("replaced", &replaced).await?;

    scene.net()?.heal(scene.way_of_node(0))?;
    scene.until_node(0, "ready").await?;
    assert_eq!(scene.the_one("waiting").await?, waiting);
    assert_eq!(scene.the_one("kept").await?, kept);
    assert_eq!(scene.the_one("replaced").await?, instead);
    for stays in [&waiting, &kept] {
        scene.until_event(stays, "Reconnected").await?;
    }
    scene.gone(&beside).await?;
    scene.gone(&replaced).await?;
    for placed in [&waiting, &kept, &replaced, &beside, &instead] {
        assert_eq!(scene.starts(placed).await?, 1, "{placed:?}");
    }
    Ok(())
}
