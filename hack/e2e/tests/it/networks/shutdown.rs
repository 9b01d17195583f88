//! A node that goes away with everything that it ran, and comes back with the same files.

use super::scene::{Scene, Window};

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_on_a_node_that_went_away_runs_elsewhere_and_not_twice() -> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let old = scene.run("plain", Window::None).await?;
    scene.nodes[0].kill_everything().await?;
    scene.until_node(0, "down").await?;
    scene.until(&old, "lost").await?;
    let new = scene.replacement("plain", &old).await?;

    let Scene { nodes, cluster } = &mut scene;
    nodes[0].start_again_in(cluster)?;
    scene.until_node(0, "ready").await?;
    assert_eq!(scene.the_one("plain").await?, new);
    assert_eq!(scene.starts(&new).await?, 1);
    scene.nodes[0].must_have_no_tasks().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_window_tolerates_on_a_node_that_went_away_is_there_once_when_it_is_back()
-> anyhow::Result<()> {
    let Some(mut scene) = Scene::start().await? else {
        return Ok(());
    };
    let waiting = scene.run("waiting", Window::Waits).await?;
    let replaced = Window::Replaces("best_score");
    let replaced = scene.run("replaced", replaced).await?;
    scene.nodes[0].kill_everything().await?;
    scene.until_node(0, "disconnected").await?;
    scene.until(&waiting, "unknown").await?;
    scene.until(&replaced, "unknown").await?;
    let instead = scene.replacement("replaced", &replaced).await?;

    let Scene { nodes, cluster } = &mut scene;
    nodes[0].start_again_in(cluster)?;
    scene.until_node(0, "ready").await?;
    // What ended with its node cannot be the better one of the two.
    assert_eq!(scene.the_one("replaced").await?, instead);
    assert_eq!(scene.starts(&instead).await?, 1);
    Ok(())
}
