//! What a node says of itself, as the API shows it.

use hack_e2e::{Cluster, Node, Settings, eventually};

use crate::running::{PATIENCE, has_root};

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
