//! One server alone.

use std::time::Duration;

use controlplane_raft::{Membership, OpenError, ProposeError, RaftConfig, ReadError};

use super::cluster::{Authority, PATIENCE, Server, config, form};
use super::machine::Journal;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_everything() {
    let authority = Authority::new();
    let mut servers = form(&authority, 1, &config()).await;
    let server = servers.remove(0);
    let id = server.id();
    for number in 1..=50 {
        let proposed = server.propose(&format!("command {number}")).await;
        assert_eq!(proposed.response, format!("answer {number}").into_bytes());
    }
    let before = server.journal.commands();
    assert_eq!(before.len(), 50);
    let stopped = server.stop().await;

    let server = stopped.start(&authority, config()).await;
    assert_eq!(server.id(), id);
    // It was shut down in order, so all of it is there before any election.
    assert_eq!(server.journal.commands(), before);
    server.raft.read_barrier().await.expect("leads again");
    assert_eq!(server.journal.commands(), before);
    let proposed = server.propose("after").await;
    assert_eq!(proposed.response, b"answer 51");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_from_snapshot_and_log_keeps_everything() {
    let authority = Authority::new();
    let config = RaftConfig {
        snapshot_threshold: 20,
        trailing_entries: 5,
        ..config()
    };
    let server = form(&authority, 1, &config).await.remove(0);
    for number in 1..=70 {
        server.propose(&format!("command {number}")).await;
    }
    server
        .wait("a snapshot", |status| status.snapshot_index >= 40)
        .await;
    let before = server.journal.commands();
    let server = server.stop().await.start(&authority, config).await;
    let seen = server.journal.seen();
    assert!(
        seen.restored_at.is_some_and(|index| index >= 40),
        "{seen:?}"
    );
    assert_eq!(seen.commands, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposals_at_once_are_all_applied_once() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..500 {
        let raft = server.raft.clone();
        proposals.spawn(async move { raft.propose(format!("command {number}")).await });
    }
    let mut indexes = Vec::new();
    while let Some(proposed) = proposals.join_next().await {
        indexes.push(proposed.expect("runs").expect("is accepted").index);
    }
    indexes.sort_unstable();
    indexes.dedup();
    assert_eq!(indexes.len(), 500);
    let mut commands = server.journal.commands();
    commands.sort_unstable();
    commands.dedup();
    assert_eq!(commands.len(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_above_the_cap_is_refused_and_one_at_the_cap_is_not() {
    let authority = Authority::new();
    let config = RaftConfig {
        command_bytes_max: 1000,
        ..config()
    };
    let server = form(&authority, 1, &config).await.remove(0);
    let error = server
        .raft
        .propose(vec![b'x'; 1001])
        .await
        .expect_err("must refuse");
    assert_eq!(
        error,
        ProposeError::TooLarge {
            bytes: 1001,
            bytes_max: 1000
        }
    );
    server
        .raft
        .propose(vec![b'x'; 1000])
        .await
        .expect("is accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_cluster_accepts_nothing_and_says_so() {
    let authority = Authority::new();
    let config = RaftConfig {
        patience: Duration::from_millis(1700),
        ..config()
    };
    let server = Server::start(&authority, config).await;
    let error = server
        .raft
        .propose("command")
        .await
        .expect_err("must refuse");
    assert!(
        matches!(error, ProposeError::Unavailable { .. }),
        "{error:?}"
    );
    let error = server.raft.read_barrier().await.expect_err("must refuse");
    assert!(matches!(error, ReadError::Unavailable { .. }), "{error:?}");
    assert_eq!(server.raft.configuration(), Membership::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_holds_what_was_applied_when_it_was_asked_for() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    let last = server.propose("one").await;
    let mut checkpoint = server.raft.checkpoint().await.expect("a checkpoint");
    assert!(checkpoint.position.index >= last.index);
    let text = std::io::read_to_string(checkpoint.reader().expect("seeks")).expect("reads");
    assert_eq!(text, "one\n");
    assert_eq!(checkpoint.bytes(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_panics_stops_the_server() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    server
        .raft
        .propose("panic")
        .await
        .expect_err("has no answer");
    let failure = server.raft.failed().await;
    assert!(failure.to_string().contains("panicked"), "{failure}");
    let error = server.raft.propose("after").await.expect_err("must refuse");
    assert!(matches!(error, ProposeError::Stopped(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_not_understood_stops_the_server_until_it_is() {
    let authority = Authority::new();
    let server = form(&authority, 1, &config()).await.remove(0);
    server.propose("before").await;
    server
        .raft
        .propose("newer")
        .await
        .expect_err("has no answer");
    let failure = server.raft.failed().await.to_string();
    assert!(failure.contains("newer release"), "{failure}");
    assert_eq!(server.journal.commands(), ["before"], "nothing was changed");

    let stopped = server.stop().await;
    let same = stopped
        .try_start(&authority, config(), Journal::default())
        .await;
    if let Ok(same) = same {
        // What is committed may be learned after the start only: it stops then.
        let failure = same.raft.failed().await.to_string();
        assert!(failure.contains("newer release"), "{failure}");
        assert_eq!(same.journal.commands(), ["before"]);
        drop(same.stop().await);
    }

    let started = async {
        loop {
            let journal = Journal {
                upgraded: true,
                ..Journal::default()
            };
            match stopped.try_start(&authority, config(), journal).await {
                Ok(server) => return server,
                // What failed to start lets go of the file a moment later; a process would be gone.
                Err(OpenError::Log(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    let upgraded = tokio::time::timeout(PATIENCE, started)
        .await
        .expect("the upgraded release starts");
    upgraded.propose("after").await;
    assert_eq!(upgraded.journal.commands(), ["before", "newer", "after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_large_entries_is_compacted_by_its_bytes() {
    let authority = Authority::new();
    let config = RaftConfig {
        snapshot_bytes: 200_000,
        ..config()
    };
    let server = form(&authority, 1, &config).await.remove(0);
    let filler = "x".repeat(20_000);
    // Far fewer entries than a snapshot by number takes.
    for number in 0..60 {
        server.propose(&format!("command {number} {filler}")).await;
    }
    server
        .wait("entries to go", |status| status.purged_index > 0)
        .await;
    let status = server.raft.status().borrow().clone();
    assert!(status.purged_index < status.snapshot_index, "{status:?}");
    let stopped = server.stop().await;
    let again = stopped.start(&authority, config).await;
    assert_eq!(again.journal.commands().len(), 60);
}
