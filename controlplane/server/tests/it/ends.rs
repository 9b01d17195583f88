//! What ends a server: whatever it cannot do its work without.

use controlplane_server::Server;
use controlplane_server::config::Config;
use tempfile::TempDir;

use crate::world::{PATIENCE, World};

fn config(directory: &TempDir) -> Config {
    let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
    config.http.listen.set_port(0);
    config.quic_listen.set_port(0);
    config
}

async fn failure(server: &mut Server) -> String {
    tokio::time::timeout(PATIENCE, server.failed())
        .await
        .expect("the server says that it failed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_log_is_gone_has_failed() {
    let mut world = World::start().await;
    // These two end with the log that they follow, one after the other.
    world.server.cluster().raft().shutdown().await;
    let reason = failure(&mut world.server).await;
    let followers = ["the leader's loop", "the life of root keys"];
    let ended = followers.iter().any(|it| reason.starts_with(it));
    assert!(
        ended && reason.ends_with("ended before the server did"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_can_never_be_in_a_cluster_has_failed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut bent = config(&directory);
    bent.bootstrap_expect = 0;
    let mut server = Server::start(bent).await.expect("it starts");
    let reason = failure(&mut server).await;
    assert!(
        reason.contains("neither bootstrap_expect nor retry_join"),
        "{reason}"
    );
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_understand_an_entry_has_failed_and_says_what_to_do() {
    let mut world = World::start().await;
    let before = world.server.cluster().snapshot().index();
    let raft = world.server.cluster().raft().clone();
    let unknown: &[u8] = b"a command of another century";
    raft.propose(unknown).await.expect_err("has no answer");
    let reason = failure(&mut world.server).await;
    assert!(reason.contains("upgrade this server"), "{reason}");
    assert!(reason.contains("entry "), "it names the entry: {reason}");
    assert_eq!(world.server.cluster().snapshot().index(), before);
}
