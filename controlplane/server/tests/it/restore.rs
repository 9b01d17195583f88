//! A saved snapshot takes the state's place, while everything goes on running.

use std::time::Duration;

use controlplane_state::checkpoint::inspect;
use controlplane_state::{Command, Digest, RESTORE_BYTES_MAX};
use protocol_client::{Answer, Client, ClientError, Query};
use protocol_model::{
    AllocId, ClientStatus, EvalStatus, Incarnation, NodeStatus, TaskEvent, TaskEventKind,
    TaskRunState, TaskState, UnixNanos,
};
use protocol_transport::StreamKind;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use serde_json::{Value, json};

use crate::fake_node::{FakeNode, Past, open, read, write};
use crate::three;
use crate::world::{PATIENCE, World, refusal, service};

const PATH: &str = "/v1/operator/snapshot";

async fn save(client: &Client) -> Vec<u8> {
    let mut stream = client.stream(PATH, &Query::new()).await.expect("a stream");
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await.expect("a part") {
        bytes.extend_from_slice(&part);
    }
    bytes
}

async fn restore(client: &Client, bytes: Vec<u8>) -> Result<Answer<Value>, ClientError> {
    client.put_bytes(PATH, &Query::new(), bytes.into()).await
}

async fn register(client: &Client, id: &str) -> u64 {
    let body = json!({ "Job": service(id) });
    let answer: Answer<Value> = client
        .put("/v1/jobs", &Query::new(), &body)
        .await
        .expect("registered");
    answer.index
}

async fn jobs(client: &Client) -> Vec<String> {
    let list: Answer<Value> = client.get("/v1/jobs", &Query::new()).await.expect("a list");
    let list = list.value.as_array().cloned().unwrap_or_default();
    let ids = list.iter().filter_map(|job| job["ID"].as_str());
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_is_there_and_what_came_later_is_not() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    let later = register(&world.client, "later").await;
    let restored = restore(&world.client, saved).await.expect("restored");
    assert_eq!(restored.value, Value::Null, "the answer is empty");
    assert!(restored.index > later, "{} {later}", restored.index);
    assert_eq!(jobs(&world.client).await, ["web"]);
    // And the cluster goes on, counting upwards.
    let after = register(&world.client, "after").await;
    assert!(after > restored.index);
    assert_eq!(jobs(&world.client).await, ["after", "web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_clusters_file_is_restored_into_a_new_one() {
    let old = World::start().await;
    for number in 0..20 {
        register(&old.client, &format!("job-{number}")).await;
    }
    let saved = save(&old.client).await;
    // The old cluster may have gone on since.
    let old_index = inspect(saved.as_slice()).expect("a snapshot").index;
    let young = World::start().await;
    assert!(young.server.cluster().snapshot().index() < old_index);
    let restored = restore(&young.client, saved).await.expect("restored");
    assert!(restored.index > old_index);
    assert_eq!(jobs(&young.client).await.len(), 20);
    let after = register(&young.client, "after").await;
    assert!(after > restored.index);
    assert_eq!(jobs(&young.client).await.len(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_change_is_answered() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    register(&world.client, "later").await;
    // Until nothing but the restore can change the list.
    world
        .until(|snapshot| {
            let mut evals = snapshot.evals();
            evals.all(|eval| eval.status != EvalStatus::Pending)
        })
        .await;
    let list = world.get_whole("/v1/jobs").await.expect("a list");
    assert_eq!(list.value.as_array().map(Vec::len), Some(2));
    let seen = list.index;
    let path = format!("/v1/jobs?index={seen}&wait=600s");
    let (restored, waited) = tokio::join!(
        restore(&world.client, saved),
        tokio::time::timeout(PATIENCE, world.get_whole(&path))
    );
    restored.expect("restored");
    let waited = waited.expect("it ends in time").expect("a list");
    assert_eq!(waited.value.as_array().map(Vec::len), Some(1));
    assert!(waited.index > seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_says_what_is_wrong() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    let before = world.server.cluster().snapshot();
    let changed = |offset: usize, byte: u8| {
        let mut bytes = saved.clone();
        bytes[offset] ^= byte;
        bytes
    };
    for (bad, why) in [
        (saved[..saved.len() - 1].to_vec(), "ends too early"),
        (saved[..20].to_vec(), "ends too early"),
        (
            changed(saved.len() / 2, 0x10),
            "snapshot cannot be restored",
        ),
        (changed(30, 1), "checksum does not match"),
        (changed(0, 1), "not a checkpoint"),
        (changed(8, 1), "is not known: this release reads"),
        ([saved.as_slice(), b"more"].concat(), "cannot be read"),
        (b"{}".repeat(100), "not a checkpoint"),
        (Vec::new(), "no body"),
    ] {
        let (code, text) = refusal(restore(&world.client, bad).await);
        assert_eq!(code, 400, "{why}: {text}");
        assert!(text.contains(why), "{why}: {text}");
    }
    let after = world.server.cluster().snapshot();
    assert_eq!(after.cluster(), before.cluster());
    assert!(after.pending_restore().is_none());
    let left: Vec<_> = std::fs::read_dir(world.data_dir())
        .expect("the directory")
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().contains("restore"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_restore_at_a_time() {
    let world = World::start().await;
    let saved = save(&world.client).await;
    let incarnation = Incarnation::from_u128(0xc2);
    let begin = |bytes| Command::RestoreBegin {
        incarnation,
        bytes,
        sha256: Digest([0; 32]),
    };
    let cluster = world.server.cluster();
    cluster
        .change(begin(RESTORE_BYTES_MAX + 1))
        .await
        .expect_err("too large");
    cluster.change(begin(10)).await.expect("it begins");
    let (code, text) = refusal(restore(&world.client, saved.clone()).await);
    assert_eq!(code, 409, "{text}");
    assert!(text.contains("in progress"), "{text}");
    cluster
        .change(Command::RestoreDrop { incarnation })
        .await
        .expect("dropped");
    restore(&world.client, saved).await.expect("restored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_put_or_posted() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let (code, _, text) = world
        .raw("POST /v1/operator/snapshot HTTP/1.1", "what")
        .await;
    assert_eq!(code, 400, "{text}");
    let (code, _, text) = world
        .raw(
            "PUT /v1/operator/snapshot?region=elsewhere HTTP/1.1",
            "what",
        )
        .await;
    assert_eq!((code, text.as_str()), (500, "No path to region"));
    assert_eq!(jobs(&world.client).await, ["web"]);
}

/// What a node says of an allocation that runs in a version of the history before.
fn runs(alloc: AllocId, version: u64) -> AllocReport {
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
