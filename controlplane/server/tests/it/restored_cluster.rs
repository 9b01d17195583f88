//! What a restore means for nodes, for the leader and for the other servers.

use std::time::Duration;

use protocol_client::Client;
use protocol_model::{
    AllocId, ClientStatus, NodeStatus, TaskEvent, TaskEventKind, TaskRunState, TaskState, UnixNanos,
};
use protocol_transport::StreamKind;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;

use crate::fake_node::{FakeNode, Past, open, read, write};
use crate::restore::{jobs, register, restore, save};
use crate::three;
use crate::world::World;

/// What a node says of an allocation that runs in a version of the history before.
pub(crate) fn runs(alloc: AllocId, version: u64) -> AllocReport {
    let mut report = AllocReport::new(alloc, 7, ClientStatus::Running);
    report.desired_version = version;
    let state = TaskState {
        state: TaskRunState::Running,
        ..TaskState::default()
    };
    report.task_states.insert("server".to_owned(), state);
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_sync_anew_and_are_told_everything_again() {
    let world = World::start().await;
    let mut node = FakeNode::join(&world).await;
    register(&world.client, "web").await;
    let placed = world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let alloc = placed.allocs().next().expect("one").id;
    let started = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(alloc, "server", started).await;
    let saved = save(&world.client).await;
    let former = world.server.cluster().snapshot();
    restore(&world.client, saved).await.expect("restored");
    // Its session is over, and it is not ready before it has said everything again.
    let refused = node.refused().await;
    assert_eq!(refused.reason(), v1::RefusedReason::NotInSession);
    let snapshot = world.server.cluster().snapshot();
    let record = snapshot.node(node.id).expect("it was saved");
    assert_eq!(record.node.status, NodeStatus::Initializing);
    // It has what it was told by the former incarnation, in a version far ahead of this one's.
    let past = Past {
        epoch: node.epoch(),
        watermark: Some(v1::Watermark {
            incarnation: former
                .cluster()
                .incarnation
                .map(|it| it.as_bytes().to_vec().into())
                .unwrap_or_default(),
            index: 1_000_000,
        }),
        reports: vec![runs(alloc, 999_999)],
    };
    let node = FakeNode::knock(&world.server, &world.data_dir(), 1, past).await;
    assert!(node.epoch() > former.index());
    let ready = world
        .until(|snapshot| {
            let record = snapshot.node(node.id);
            record.is_some_and(|record| record.node.status == NodeStatus::Ready)
        })
        .await;
    let same = ready.alloc(alloc).expect("the allocation");
    assert_eq!(same.client_status, ClientStatus::Running);
    assert!(same.previous_allocation.is_none() && !same.server_terminal());
    let (mut writer, mut reader) = open(node.session(), StreamKind::NodeWatch).await;
    write(&mut writer, &node.stream_hello()).await;
    let map: v1::WatchMap = read(&mut reader).await;
    let incarnation = ready.cluster().incarnation.expect("one");
    let at = map.at.expect("a watermark");
    assert_eq!(at.incarnation.as_ref(), incarnation.as_bytes().as_slice());
    assert_eq!(map.allocs.len(), 1);
    let delta: v1::WatchDelta = read(&mut reader).await;
    let told = delta.changed.first().expect("the allocation, told anew");
    assert_eq!(told.alloc_id.as_ref(), alloc.as_bytes().as_slice());
    assert!(delta.removed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_schedules_on_after_a_restore() {
    let world = World::start().await;
    FakeNode::join(&world).await;
    let saved = save(&world.client).await;
    restore(&world.client, saved).await.expect("restored");
    register(&world.client, "after").await;
    // Nothing may be placed before the node is back; then the blocked evaluation is tried again.
    let blocked = world
        .until(|snapshot| snapshot.evals().any(|eval| eval.blocked_eval.is_some()))
        .await;
    assert_eq!(blocked.allocs().count(), 0);
    let _node = FakeNode::join(&world).await;
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stays_away_after_a_restore_is_given_time() {
    let world = World::start_with(|config| {
        config.liveness.silence = Duration::from_millis(100);
        config.liveness.takeover_extra = Duration::from_millis(100);
    })
    .await;
    let node = FakeNode::join(&world).await.id;
    let saved = save(&world.client).await;
    // This node sends no heartbeats.
    world
        .until(|snapshot| {
            snapshot
                .node(node)
                .is_some_and(|record| record.node.status == NodeStatus::Down)
        })
        .await;
    restore(&world.client, saved).await.expect("restored");
    // Time passes: the leader has led anew, and has carried out a change since.
    register(&world.client, "web").await;
    let later = world
        .until(|snapshot| snapshot.evals().any(|eval| eval.status.is_terminal()))
        .await;
    let record = later.node(node).expect("it was saved");
    assert_eq!(record.node.status, NodeStatus::Initializing);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_has_the_restored_state_whichever_was_asked() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(three::client).collect();
    register(&clients[0], "web").await;
    let saved = save(&clients[1]).await;
    for (number, client) in clients.iter().enumerate() {
        register(client, &format!("later-{number}")).await;
        let restored = restore(client, saved.clone()).await.expect("restored");
        for (server, client) in servers.iter().zip(&clients) {
            assert_eq!(jobs(client).await, ["web"], "asked at {number}");
            assert!(server.cluster().snapshot().index() >= restored.index);
        }
    }
    let mut incarnations: Vec<_> = servers
        .iter()
        .map(|server| server.cluster().snapshot().cluster().incarnation)
        .collect();
    incarnations.dedup();
    assert_eq!(incarnations.len(), 1);
    assert!(servers.iter().any(|server| server.cluster().is_leader()));
}
