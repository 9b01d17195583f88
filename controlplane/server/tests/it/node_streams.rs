//! Which node's streams are believed: an id and an epoch are no secret.

use protocol_model::{AllocId, TaskEvent, TaskEventKind, UnixNanos};
use protocol_transport::StreamKind;
use protocol_wire::kind::from_frame;
use protocol_wire::{PROTOCOL_MAX, PROTOCOL_MIN, v1};
use serde_json::{Value, json};

use crate::fake_node::{FakeNode, open, write};
use crate::world::{PATIENCE, World, service};

/// A world with a node, and an allocation on it.
async fn placed() -> (World, FakeNode, AllocId) {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let body = json!({ "Job": service("web") });
    world.put("/v1/jobs", body).await.expect("registered");
    let placed = world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let alloc = placed.allocs().next().expect("one").id;
    (world, node, alloc)
}

fn event(text: &str) -> TaskEvent {
    TaskEvent::new(TaskEventKind::Started, text, UnixNanos(7))
}

/// Whether the server answers anything on a stream of `kind` before it ends it.
async fn answers(node: &FakeNode, connection: &quinn::Connection, kind: StreamKind) -> bool {
    let (mut writer, mut reader) = open(connection, kind).await;
    write(&mut writer, &node.stream_hello()).await;
    tokio::time::timeout(PATIENCE, reader.expect())
        .await
        .expect("it is answered or ended")
        .is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_served_only_where_the_node_said_hello() {
    let (_world, node, _) = placed().await;
    assert!(answers(&node, node.session(), StreamKind::NodeWatch).await);
    let stranger = node.connect_again().await;
    assert!(!answers(&node, &stranger, StreamKind::NodeWatch).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_are_taken_only_where_the_node_said_hello() {
    let (_world, node, _) = placed().await;
    let stranger = node.connect_again().await;
    assert!(!answers(&node, &stranger, StreamKind::NodeUpdates).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_another_nodes_allocation_are_not_kept() {
    let (world, node, alloc) = placed().await;
    let node_path = format!("/v1/node/{}", node.id);
    let index = |shown: Value| shown["LastAllocUpdateIndex"].as_u64().expect("an index");
    let before = index(world.get(&node_path).await.expect("the node"));
    node.report_running(alloc, "server", event("it runs")).await;
    assert!(index(world.get(&node_path).await.expect("the node")) > before);
    let other = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    other.report_running(alloc, "server", event("forged")).await;
    let path = format!("/v1/allocation/{alloc}");
    let shown = world.get(&path).await.expect("the allocation");
    let events = &shown["TaskStates"]["server"]["Events"];
    assert_eq!(events[0]["DisplayMessage"], "it runs", "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_batches_of_updates_cost_is_among_the_metrics() {
    let (world, node, alloc) = placed().await;
    node.report_running(alloc, "server", event("it runs")).await;
    let (_, _, metrics) = world
        .raw("GET /v1/metrics?format=prometheus HTTP/1.1", "")
        .await;
    for name in [
        "batch_reports",
        "entry_batches",
        "entry_bytes",
        "queue_bytes",
        "wait_seconds",
    ] {
        assert!(
            metrics.contains(&format!("drover_update_{name}_count")),
            "{name}: {metrics}"
        );
    }
    assert!(metrics.contains("drover_update_repeated_reports"));
}

/// What a node of that number is answered whose secret and token are wrong.
async fn knock(world: &World, node: &FakeNode, number: u8) -> v1::Refused {
    let connection = node.connect_again().await;
    let (mut writer, mut reader) = open(&connection, StreamKind::NodeSession).await;
    let facts = hack_testkit::nodes::node(number);
    let json = serde_json::to_vec(&facts).expect("facts are JSON");
    let hello = v1::Hello {
        node_id: facts.id.as_bytes().to_vec().into(),
        secret: vec![9; 32].into(),
        nonce: vec![1; 16].into(),
        boot_id: vec![2; 16].into(),
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        join_token: "wrong".to_owned(),
        facts: Some(v1::NodeFacts { json: json.into() }),
        ..v1::Hello::default()
    };
    write(&mut writer, &hello).await;
    let frame = tokio::time::timeout(PATIENCE, reader.expect()).await;
    let frame = frame.expect("it is answered").expect("a frame");
    assert!(world.server.cluster().is_leader());
    from_frame(frame.kind, frame.body).expect("a refusal")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_is_refused_leaves_no_trace_in_the_log_and_is_not_looked_at_for_ever() {
    use v1::RefusedReason as Reason;
    let (world, node, _) = placed().await;
    // Scheduling may still go on; it ends without a command of its own.
    let quiet = world
        .until(|snapshot| snapshot.evals().all(|eval| eval.status.is_terminal()))
        .await;
    // The log's own figures follow a moment later.
    let mut log = world.server.cluster().raft().status();
    let caught_up = log.wait_for(|status| status.last_index >= quiet.index());
    let before = caught_up.await.expect("the log goes on").last_index;
    // Number 1 is known and has another secret, number 3 is not known.
    assert_eq!(knock(&world, &node, 1).await.reason(), Reason::WrongSecret);
    assert_eq!(knock(&world, &node, 3).await.reason(), Reason::JoinToken);
    assert_eq!(world.server.cluster().status().last_index, before);
    let mut reasons = Vec::new();
    for _ in 0..30 {
        reasons.push(knock(&world, &node, 3).await.reason());
    }
    assert!(reasons.contains(&Reason::Overloaded), "{reasons:?}");
}
