//! Three servers: replication, leadership, members coming and going.

use std::time::Duration;

use controlplane_raft::{ChangeError, ProposeError, RaftConfig, RaftRole};

use super::cluster::{Authority, PATIENCE, Server, config, form, leader_of, propose};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_leader_accepts_reaches_everyone() {
    let authority = Authority::new();
    let servers = form(&authority, 3, &config()).await;
    let mut last = 0;
    for number in 0..20 {
        last = propose(&servers, &format!("command {number}")).await.index;
    }
    for server in &servers {
        server.wait_applied(last).await;
        assert_eq!(server.journal.commands().len(), 20);
        assert_eq!(server.journal.commands(), servers[0].journal.commands());
        assert_eq!(server.raft.configuration().voters.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_refuses_with_the_leaders_address_and_reads_currently() {
    let authority = Authority::new();
    let servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let follower = &servers[(leader + 1) % 3];
    let error = follower
        .raft
        .propose("command")
        .await
        .expect_err("must refuse");
    let ProposeError::NotLeader { leader: found } = error else {
        panic!("{error:?}")
    };
    assert_eq!(found.id, servers[leader].id());
    assert_eq!(found.info, Some(servers[leader].info()));
    for number in 0..10 {
        let written = propose(&servers, &format!("command {number}")).await;
        let read = follower.raft.read_barrier().await.expect("reads");
        assert!(read >= written.index);
        assert_eq!(follower.journal.commands().len(), number + 1);
    }
    assert!(follower.raft.last_contact().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_goes_where_it_is_sent() {
    let authority = Authority::new();
    let servers = form(&authority, 3, &config()).await;
    propose(&servers, "before").await;
    let old = leader_of(&servers).await;
    let new = (old + 1) % 3;
    servers[old]
        .raft
        .transfer_leadership(servers[new].id())
        .await
        .expect("is transferred");
    servers[new]
        .wait("leading", |status| status.is_leader())
        .await;
    let error = servers[old]
        .raft
        .transfer_leadership(servers[old].id())
        .await;
    assert!(
        matches!(error, Err(ChangeError::NotLeader { .. })),
        "{error:?}"
    );
    propose(&servers, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_successor_is_a_voter_that_keeps_up() {
    let authority = Authority::new();
    let servers = form(&authority, 3, &config()).await;
    propose(&servers, "before").await;
    let leader = leader_of(&servers).await;
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    // The one that is cut off has the lower id: an order of ids would choose it.
    let (gone, kept) = if servers[one].id() < servers[other].id() {
        (one, other)
    } else {
        (other, one)
    };
    servers[gone].cut_off();
    servers[leader].propose("without it").await;
    let chosen = async {
        while servers[leader].raft.successor() != Some(servers[kept].id()) {
            tokio::time::sleep(config().heartbeat).await;
        }
    };
    tokio::time::timeout(super::cluster::PATIENCE, chosen)
        .await
        .expect("who keeps up is chosen");
    assert_eq!(servers[gone].raft.successor(), None, "it does not lead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_member_is_brought_up_by_a_snapshot() {
    let authority = Authority::new();
    let config = RaftConfig {
        snapshot_threshold: 50,
        trailing_entries: 10,
        ..config()
    };
    let mut servers = form(&authority, 1, &config).await;
    // Some megabytes, so that the snapshot travels in many chunks.
    let filler = "x".repeat(20_000);
    for number in 0..160 {
        servers[0]
            .propose(&format!("command {number} {filler}"))
            .await;
    }
    servers[0]
        .wait("a snapshot", |status| status.snapshot_index >= 100)
        .await;
    let last = servers[0].propose("last").await.index;
    let new = Server::start(&authority, config.clone()).await;
    let join = [servers[0].address.to_string()];
    tokio::time::timeout(super::cluster::PATIENCE, new.raft.form(0, &join))
        .await
        .expect("in time")
        .expect("joins");
    new.wait_applied(last).await;
    let seen = new.journal.seen();
    assert!(
        seen.restored_at.is_some(),
        "it was not a snapshot that brought it up"
    );
    assert_eq!(seen.commands, servers[0].journal.commands());
    servers.push(new);
    let leader = leader_of(&servers).await;
    assert_eq!(servers[leader].raft.configuration().voters.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_added_and_removed() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let gone = (leader + 1) % 3;
    let raft = servers[leader].raft.clone();
    raft.remove_server(servers[gone].id())
        .await
        .expect("is removed");
    raft.remove_server(servers[gone].id())
        .await
        .expect("a repeat succeeds");
    assert_eq!(raft.configuration().voters.len(), 2);
    raft.propose("without it").await.expect("two are enough");

    let added = Server::start(&authority, config()).await;
    let promoted = raft.promote(added.id()).await;
    assert_eq!(promoted, Err(ChangeError::UnknownServer(added.id())));
    raft.add_learner(added.id(), added.info())
        .await
        .expect("is added");
    raft.add_learner(added.id(), added.info())
        .await
        .expect("a repeat succeeds");
    added
        .wait("learning", |status| {
            status.membership.learners.contains_key(&status.id)
        })
        .await;
    raft.promote(added.id()).await.expect("is promoted");
    added
        .wait("voting", |status| status.role == RaftRole::Follower)
        .await;
    let last = raft.propose("with it").await.expect("is accepted").index;
    added.wait_applied(last).await;
    servers[gone] = added;
    leader_of(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_removed_while_it_was_away_learns_of_it() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let away = servers.remove((leader + 1) % 3);
    let id = away.id();
    let away = away.kill().await;
    let leader = leader_of(&servers).await;
    let raft = servers[leader].raft.clone();
    raft.remove_server(id).await.expect("is removed");
    let back = away.start(&authority, config()).await;
    assert!(back.raft.configuration().contains(id), "its log is old");
    let looking = back.raft.clone();
    let looking = tokio::spawn(async move { looking.watch_removal(&[]).await });
    let told = async {
        while !back.raft.is_removed() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("is told");
    looking.abort();
    // Who is a member, and only hears nobody for a while, is not.
    let other = servers[1 - leader_of(&servers).await].raft.clone();
    assert!(!other.is_removed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_moved_is_found_at_its_new_address() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let mover = servers.remove((leader + 1) % 3);
    let id = mover.id();
    let moved = mover
        .stop()
        .await
        .start_elsewhere(&authority, config())
        .await;
    assert_eq!(moved.id(), id);
    let join: Vec<String> = servers
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    tokio::time::timeout(super::cluster::PATIENCE, moved.raft.form(3, &join))
        .await
        .expect("in time")
        .expect("is found");
    let last = propose(&servers, "after the move").await.index;
    moved.wait_applied(last).await;
    let leader = leader_of(&servers).await;
    let membership = servers[leader].raft.configuration();
    assert_eq!(membership.voters.get(&id), Some(&moved.info()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_alone_that_moved_leads_at_its_new_address() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    let moved = server
        .stop()
        .await
        .start_elsewhere(&authority, config())
        .await;
    tokio::time::timeout(super::cluster::PATIENCE, moved.raft.form(1, &[]))
        .await
        .expect("in time")
        .expect("leads");
    assert_eq!(
        moved.raft.configuration().voters.get(&moved.id()),
        Some(&moved.info())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_voter_stays() {
    let authority = Authority::new();
    let servers = form(&authority, 1, &config()).await;
    let id = servers[0].id();
    assert_eq!(
        servers[0].raft.remove_server(id).await,
        Err(ChangeError::LastVoter(id))
    );
    servers[0].propose("still here").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_removes_itself_hands_over() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = servers.remove(leader_of(&servers).await);
    leader
        .raft
        .remove_server(leader.id())
        .await
        .expect("is removed");
    propose(&servers, "after").await;
    let next = leader_of(&servers).await;
    assert_eq!(servers[next].raft.configuration().voters.len(), 2);
}
