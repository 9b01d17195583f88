//! Three servers: a rotation goes on with another leader, and a write that is sealed with a key
//! that goes meanwhile is sealed again.

use std::time::Duration;

use controlplane_state::RootKeyState;
use protocol_client::Query;
use serde_json::Value;

use super::traffic::{Tolerance, Traffic};
use super::{name, rotate_full, seed, state_of, text, until};
use crate::three::{client, cluster, cluster_with};

const VARIABLES: usize = 2_000;
const USED: usize = 60;
/// Rotations of one test that follow each other.
const ROTATIONS: u32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_rotation_goes_on_with_the_next_leader() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    seed(&servers[0], &root.path().join("0"), VARIABLES).await;
    let leads = |server: &controlplane_server::Server| server.cluster().is_leader();
    let leader = servers.iter().position(leads).expect("a leader");
    let leader = servers.remove(leader);
    let clients: Vec<_> = servers.iter().map(client).collect();
    let traffic = Traffic::start(&clients, USED, Tolerance::LostLeader);
    rotate_full(&clients[0]).await;
    let begun = until(&leader, |it| it.sealed_with(2).variables > 200).await;
    let left = begun.sealed_with(1).variables;
    assert!(left > 0, "the rekey is over before its leader is lost");
    leader.shutdown().await;
    let at_the_loss = servers[0].cluster().snapshot().sealed_with(1).variables;
    println!("{left}, then {at_the_loss} values were left when the leader was lost");
    for server in &servers {
        let ended = until(server, |it| state_of(it, 1) == Some(RootKeyState::Inactive)).await;
        assert!(ended.sealed_with(1).is_empty());
        assert_eq!(ended.sealed_with(2).variables, VARIABLES as u64);
    }
    let values = traffic.stop().await;
    for (number, value) in values.into_iter().enumerate() {
        let key = name(number);
        let query = Query::new().with("namespace", key.namespace);
        let path = format!("/v1/var/{}", key.path);
        for client in &clients {
            let read = client
                .get::<Value>(&path, &query)
                .await
                .expect("it is read");
            assert_eq!(read.value["Items"]["key"], text(value), "{path}");
        }
    }
}

/// Each old key is removed as soon as nothing is sealed with it: writers at every server lose the
/// key that they sealed with again and again. No answer is an error.
#[tokio::test(flavor = "multi_thread")]
async fn writes_succeed_while_the_keys_that_seal_them_are_removed() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster_with(root.path(), |config| {
        config.liveness.silence = Duration::from_secs(3600);
        config.root_keys.gc_interval = Duration::from_secs(1);
        config.root_keys.gc_threshold = Duration::ZERO;
    })
    .await;
    seed(&servers[0], &root.path().join("0"), USED).await;
    let clients: Vec<_> = servers.iter().map(client).collect();
    let traffic = Traffic::start(&clients, USED, Tolerance::Nothing);
    for number in 1..=ROTATIONS {
        rotate_full(&clients[number as usize % clients.len()]).await;
        for server in &servers {
            until(server, |it| state_of(it, number).is_none()).await;
        }
    }
    let (writes, reads) = traffic.counts();
    traffic.stop().await;
    println!("{writes} writes and {reads} reads over {ROTATIONS} rotations");
    assert!(writes > 0 && reads > 0);
}
