//! How clusters come to be, exactly once.

use std::time::Duration;

use controlplane_raft::FormError;

use super::cluster::{Authority, PATIENCE, Server, config, form, leader_of, propose};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_that_know_one_address_form_one_cluster() {
    let authority = Authority::new();
    let servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let membership = servers[leader].raft.configuration();
    let expected: Vec<_> = {
        let mut ids: Vec<_> = servers.iter().map(Server::id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(
        membership.voters.keys().copied().collect::<Vec<_>>(),
        expected
    );
    // Asked again, a member has nothing to do.
    servers[leader].raft.form(3, &[]).await.expect("is formed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fourth_server_joins_the_three_that_were_expected() {
    let authority = Authority::new();
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(Server::start(&authority, config()).await);
    }
    let join = vec![servers[0].address.to_string()];
    let mut forming = tokio::task::JoinSet::new();
    for server in &servers {
        let (raft, join) = (server.raft.clone(), join.clone());
        forming.spawn(async move { raft.form(3, &join).await });
    }
    let formed = tokio::time::timeout(PATIENCE, forming.join_all())
        .await
        .expect("in time");
    for result in formed {
        result.expect("forms");
    }
    let leader = leader_of(&servers).await;
    servers[leader]
        .wait("four voters", |status| status.membership.voters.len() == 4)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_wait_for_the_third() {
    let authority = Authority::new();
    let first = Server::start(&authority, config()).await;
    let second = Server::start(&authority, config()).await;
    let join = vec![first.address.to_string()];
    let mut forming = tokio::task::JoinSet::new();
    for server in [&first, &second] {
        let (raft, join) = (server.raft.clone(), join.clone());
        forming.spawn(async move { raft.form(3, &join).await });
    }
    let early = tokio::time::timeout(Duration::from_millis(1500), forming.join_next()).await;
    assert!(early.is_err(), "formed without the third");
    let third = Server::start(&authority, config()).await;
    let (raft, join) = (third.raft.clone(), join.clone());
    forming.spawn(async move { raft.form(3, &join).await });
    let formed = tokio::time::timeout(PATIENCE, forming.join_all())
        .await
        .expect("in time");
    assert!(formed.iter().all(Result::is_ok));
    leader_of(&[first, second, third]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_directory_comes_back_as_a_new_server_at_the_old_address() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let last = propose(&servers, "before").await.index;
    let lost = servers.remove((leader + 1) % 3);
    let (old_id, address) = (lost.id(), lost.address);
    drop(lost.kill().await);

    let directory = std::sync::Arc::new(tempfile::tempdir().expect("a directory"));
    let new = Server::start_at(&authority, config(), directory, address).await;
    assert_ne!(new.id(), old_id);
    let join: Vec<String> = servers
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    tokio::time::timeout(PATIENCE, new.raft.form(3, &join))
        .await
        .expect("in time")
        .expect("joins");
    new.wait_applied(last).await;
    assert_eq!(new.journal.commands(), ["before"]);
    servers.push(new);
    let leader = leader_of(&servers).await;
    let membership = servers[leader].raft.configuration();
    assert_eq!(membership.voters.len(), 3, "{membership:?}");
    assert!(!membership.contains(old_id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_lead_nowhere_are_refused() {
    let authority = Authority::new();
    let server = Server::start(&authority, config()).await;
    let join = ["127.0.0.1:1".to_owned()];
    let refused = server.raft.form(1, &join).await.expect_err("must refuse");
    assert!(matches!(refused, FormError::AloneAndJoining), "{refused:?}");
    let refused = server.raft.form(0, &[]).await.expect_err("must refuse");
    assert!(matches!(refused, FormError::Nothing), "{refused:?}");
    let refused = server.raft.form(17, &join).await.expect_err("must refuse");
    assert!(matches!(refused, FormError::TooMany(17)), "{refused:?}");
}
