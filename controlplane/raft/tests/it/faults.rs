//! Servers that die, lose their network, or find their files torn.

use std::fs;
use std::time::Duration;

use controlplane_raft::{ProposeError, RaftConfig};

use super::cluster::{Authority, Server, config, form, leader_of, propose};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_leads_when_the_leader_dies_and_nothing_acknowledged_is_lost() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    for number in 0..20 {
        propose(&servers, &format!("command {number}")).await;
    }
    let leader = leader_of(&servers).await;
    let dead = servers.remove(leader).kill().await;
    for server in &servers {
        server.raft.read_barrier().await.expect("reads");
        assert_eq!(server.journal.commands().len(), 20);
    }
    let last = propose(&servers, "after").await.index;

    let back = dead.start(&authority, config()).await;
    back.wait_applied(last).await;
    servers[0].wait_applied(last).await;
    assert_eq!(back.journal.commands(), servers[0].journal.commands());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_was_away_catches_up() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    let leader = leader_of(&servers).await;
    let away = servers.remove((leader + 1) % 3).stop().await;
    let mut last = 0;
    for number in 0..50 {
        last = propose(&servers, &format!("command {number}")).await.index;
    }
    let back = away.start(&authority, config()).await;
    back.wait_applied(last).await;
    assert_eq!(back.journal.commands().len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_refuses() {
    let authority = Authority::new();
    let config = RaftConfig {
        patience: Duration::from_millis(1700),
        ..config()
    };
    let servers = form(&authority, 3, &config).await;
    propose(&servers, "before").await;
    let leader = leader_of(&servers).await;
    for server in &servers {
        server.cut_off();
    }
    // The lease runs out; what was accepted before is of unknown outcome, what comes after is
    // refused.
    let refused = loop {
        match servers[leader].raft.propose("lost").await {
            Err(ProposeError::OutcomeUnknown) => {}
            Err(error) => break error,
            Ok(proposed) => panic!("accepted without a majority: {proposed:?}"),
        }
    };
    assert!(
        matches!(refused, ProposeError::Unavailable { .. }),
        "{refused:?}"
    );
    servers[leader]
        .raft
        .leader_read_barrier()
        .await
        .expect_err("no current reads either");
    for server in &servers {
        server.heal();
    }
    propose(&servers, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hears_nobody_for_a_while_begins_no_terms() {
    let authority = Authority::new();
    let config = config();
    let mut servers = form(&authority, 3, &config).await;
    let leader = leader_of(&servers).await;
    let deaf = servers.remove((leader + 1) % 3);
    deaf.cut_off();
    // Time for eight elections at least, one after the other.
    tokio::time::sleep(config.election_max * 8).await;
    let term = |server: &Server| server.raft.status().borrow().term;
    let newest = servers.iter().map(term).max().unwrap_or(0);
    // On a host that is busy the others may hear nobody for once, too, and encourage it.
    let begun = term(&deaf).saturating_sub(newest);
    assert!(begun < 4, "it began {begun} terms");
    deaf.heal();
    let last = propose(&servers, "after").await.index;
    deaf.wait_applied(last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_servers_restarting_lose_nothing() {
    let authority = Authority::new();
    let mut servers = form(&authority, 3, &config()).await;
    for number in 0..10 {
        propose(&servers, &format!("command {number}")).await;
    }
    let mut stopped = Vec::new();
    for server in servers.drain(..) {
        stopped.push(server.kill().await);
    }
    for stopped in stopped {
        servers.push(stopped.start(&authority, config()).await);
    }
    let leader = leader_of(&servers).await;
    servers[leader].raft.read_barrier().await.expect("reads");
    assert_eq!(servers[leader].journal.commands().len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_snapshot_and_leftovers_do_not_lose_state() {
    let authority = Authority::new();
    let config = RaftConfig {
        snapshot_threshold: 20,
        // The log still reaches the first snapshot (index 19 or above) when the second one is
        // taken as late as possible (index 51).
        trailing_entries: 35,
        ..config()
    };
    let server = form(&authority, 1, &config).await.remove(0);
    for (commands, snapshot) in [(0..25, 19), (25..50, 39)] {
        for number in commands {
            server.propose(&format!("command {number}")).await;
        }
        server
            .wait("a snapshot", |status| status.snapshot_index >= snapshot)
            .await;
    }
    let before = server.journal.commands();
    let stopped = server.kill().await;

    let directory = stopped.path().join("snapshots");
    let mut snapshots: Vec<_> = fs::read_dir(&directory)
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "snapshot")
        })
        .collect();
    snapshots.sort();
    assert_eq!(snapshots.len(), 2);
    let newest = fs::read(&snapshots[1]).expect("reads");
    fs::write(&snapshots[1], &newest[..newest.len() - 3]).expect("writes");
    fs::write(directory.join("7.tmp"), b"half").expect("writes");

    let server = stopped.start(&authority, config).await;
    let seen = server.journal.seen();
    assert_eq!(seen.commands, before, "restored at {:?}", seen.restored_at);
    assert!(!directory.join("7.tmp").exists());
    assert!(snapshots[1].with_extension("damaged").exists());
    server.propose("after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_what_it_acknowledged() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    for number in 0..30 {
        server.propose(&format!("command {number}")).await;
    }
    // What a killed process leaves: the files as they are at this moment, nothing flushed or
    // closed. The copy opens as a crashed database does.
    let copy = std::sync::Arc::new(tempfile::tempdir().expect("a directory"));
    fs::create_dir(copy.path().join("log")).expect("is made");
    let segment = "log/0000000000000001.segment";
    for name in [segment, "server-id"] {
        fs::copy(server.path().join(name), copy.path().join(name)).expect("copies");
    }
    let listen = ([127, 0, 0, 1], 0).into();
    let back = super::cluster::Server::start_at(&authority, config(), copy, listen).await;
    back.raft.read_barrier().await.expect("leads");
    assert_eq!(back.journal.commands(), server.journal.commands());
}
