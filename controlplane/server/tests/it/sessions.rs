//! What a server answers to nodes that say something that it cannot take, and to those that know
//! more than it does.

use std::time::Duration;

use protocol_model::NodeStatus;
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use tokio::time::{sleep, timeout};

use crate::fake_node::{FakeNode, open, read, write};
use crate::relays::{Links, Relayed};
use crate::world::{PATIENCE, World};

/// A stream on a connection of its own, on which `hello` was said.
async fn greet(
    node: &FakeNode,
    hello: &v1::Hello,
) -> (quinn::Connection, FrameWriter, FrameReader) {
    let connection = node.connect_again().await;
    let (mut writer, reader) = open(&connection, StreamKind::NodeSession).await;
    write(&mut writer, hello).await;
    (connection, writer, reader)
}

async fn refusal(reader: &mut FrameReader) -> v1::Refused {
    timeout(PATIENCE, read(reader)).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_report_of_which_something_is_missing_is_refused_and_counted() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let hello = v1::Hello {
        daemon_restarted: true,
        ..node.hello()
    };
    let (_connection, mut writer, mut reader) = greet(&node, &hello).await;
    let welcome: v1::Welcome = read(&mut reader).await;
    assert!(!welcome.resumed);
    let part = v1::SyncPart {
        epoch: welcome.epoch,
        last: true,
        allocs_total: 3,
        ..v1::SyncPart::default()
    };
    write(&mut writer, &part).await;
    let refused = refusal(&mut reader).await;
    assert_eq!(refused.reason(), v1::RefusedReason::Malformed);
    assert_eq!(
        refused.message,
        "a complete report of 3 allocations, of which 0 came"
    );
    // The report stays owed, and how often it was refused can be seen.
    let snapshot = world.server.cluster().snapshot();
    let session = snapshot.node(node.id).expect("the node").session;
    assert_eq!(session.epoch.0, welcome.epoch);
    assert_eq!((session.syncs_rejected, session.synced_index), (1, 0));
    let (_, _, metrics) = world
        .raw("GET /v1/metrics?format=prometheus HTTP/1.1", "")
        .await;
    assert!(metrics.contains("drover_syncs_rejected"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_costs_two_entries_and_none_where_it_goes_on() {
    let world = World::start().await;
    let begun = world.barrier().await;
    let mut node = FakeNode::join(&world).await;
    let joined = world.barrier().await;
    assert_eq!(joined - begun - 1, 2, "Hello and the complete report");
    assert!(node.resume().await.resumed);
    let address = node.session().remote_address();
    let (_left, welcome) = node.move_to(address).await;
    assert!(welcome.resumed);
    let resumed = world.barrier().await;
    assert_eq!(resumed - joined - 1, 0);
    node.begin_anew(&[]).await;
    let anew = world.barrier().await;
    assert_eq!(anew - resumed - 1, 2, "Hello and the complete report");
}

/// What a follower remembers of a session may be of yesterday.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_reaches_no_leader_lets_no_session_go_on() {
    let root = tempfile::tempdir().expect("a directory");
    let relayed = Relayed::start(root.path(), Duration::from_secs(3600)).await;
    let follower = &relayed.servers[(relayed.leader().await + 1) % 3];
    let node = FakeNode::join_server(follower, root.path()).await;
    let mut newest = follower.cluster().hub().watch();
    let ready = newest.wait_for(|snapshot| {
        let record = snapshot.node(node.id);
        record.is_some_and(|record| record.node.status == NodeStatus::Ready)
    });
    let ready = timeout(PATIENCE, ready).await.expect("in time");
    drop(ready.expect("the state is there"));
    relayed.let_work(Links::None);
    let (_connection, _writer, mut reader) = greet(&node, &node.hello()).await;
    let refused = refusal(&mut reader).await;
    assert_eq!(refused.reason(), v1::RefusedReason::NoLeader, "{refused:?}");
    assert!(!follower.cluster().is_leader());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_behind_what_a_node_was_told_sends_it_to_another_one() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let snapshot = world.server.cluster().snapshot();
    let incarnation = snapshot.cluster().incarnation.expect("it is formed");
    let hello = |incarnation: [u8; 16]| v1::Hello {
        watermark: Some(v1::Watermark {
            incarnation: incarnation.to_vec().into(),
            index: snapshot.index() + 1_000,
        }),
        ..node.hello()
    };
    let (_connection, _writer, mut reader) = greet(&node, &hello(*incarnation.as_bytes())).await;
    let refused = refusal(&mut reader).await;
    assert_eq!(refused.reason(), v1::RefusedReason::Behind);
    // What another cluster told it is no reason to wait.
    let (_connection, _writer, mut reader) = greet(&node, &hello([9; 16])).await;
    let welcome: v1::Welcome = timeout(PATIENCE, read(&mut reader)).await.expect("soon");
    assert!(welcome.resumed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_sends_others_on_and_keeps_its_own() {
    let world = World::start_with(|config| config.limits.sessions = 1).await;
    let mut node = FakeNode::join(&world).await;
    let facts = hack_testkit::nodes::node(2);
    let json = serde_json::to_vec(&facts).expect("facts are JSON");
    let stranger = v1::Hello {
        node_id: facts.id.as_bytes().to_vec().into(),
        join_token: "dev".to_owned(),
        facts: Some(v1::NodeFacts { json: json.into() }),
        last_epoch: 0,
        ..node.hello()
    };
    let (_connection, _writer, mut reader) = greet(&node, &stranger).await;
    let refused = refusal(&mut reader).await;
    assert_eq!(refused.reason(), v1::RefusedReason::Overloaded);
    assert!(refused.message.contains("holds 1 sessions"), "{refused:?}");
    assert!(refused.retry_interval_ms > 0, "{refused:?}");
    // Nothing of it was written down, and the one that is there comes back over another connection.
    assert!(world.server.cluster().snapshot().node(facts.id).is_none());
    assert!(node.resume().await.resumed);
}

/// A daemon whose loop stands: what carries its connections goes on without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connections_live_and_whose_loop_stands_is_silent() {
    let silence = Duration::from_secs(2);
    let world = World::start_with(|config| config.liveness.silence = silence).await;
    let mut node = FakeNode::join(&world).await;
    for tick in 1..=10 {
        let heartbeat = v1::Heartbeat {
            epoch: node.epoch(),
            tick,
            ..v1::Heartbeat::default()
        };
        node.say(&heartbeat).await;
        sleep(Duration::from_millis(50)).await;
    }
    let path = format!("/v1/client/stats?node_id={}", node.id);
    let status = || {
        let snapshot = world.server.cluster().snapshot();
        snapshot.node(node.id).expect("the node").node.status
    };
    let mut answered = 0;
    let until_noticed = async {
        while status() == NodeStatus::Ready {
            assert_eq!(node.session().close_reason(), None);
            // The last one may meet the end of the session.
            answered += u32::from(world.get(&path).await.is_ok());
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, until_noticed)
        .await
        .expect("it is noticed");
    assert_eq!(status(), NodeStatus::Down);
    assert!(answered > 5, "it answered {answered} times meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_only_over_a_connection_that_showed_the_nodes_secret_and_its_session() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let right = node.hello();
    let attach = v1::AttachBulk {
        node_id: right.node_id.clone(),
        secret: right.secret.clone(),
        epoch: node.epoch(),
    };
    let wrong_secret = v1::AttachBulk {
        secret: vec![9; 32].into(),
        ..attach.clone()
    };
    let wrong_session = v1::AttachBulk {
        epoch: node.epoch() + 1,
        ..attach.clone()
    };
    let nobody = v1::AttachBulk {
        node_id: vec![8; 16].into(),
        ..attach.clone()
    };
    // One connection: what one stream showed says nothing of the next.
    let connection = node.connect_again().await;
    for (attach, taken) in [
        (attach.clone(), true),
        (wrong_secret, false),
        (wrong_session, false),
        (nobody, false),
        (attach, true),
    ] {
        let (mut writer, mut reader) = open(&connection, StreamKind::Bulk).await;
        write(&mut writer, &attach).await;
        let answer = timeout(PATIENCE, reader.expect()).await.expect("an end");
        let attached = answer.map(|frame| {
            from_frame::<v1::Attached>(frame.kind, frame.body).expect("an answer that fits")
        });
        assert_eq!(attached.is_ok(), taken, "{attach:?}");
    }
}
