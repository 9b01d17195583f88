//! The connection for calls of a node, which it attaches when the server asks.

use std::time::{Duration, Instant};

use protocol_client::{Answer, Client, ClientError, Query};
use protocol_model::NodeId;
use protocol_wire::v1;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fake_node::FakeNode;
use crate::three;
use crate::world::{PATIENCE, World, refusal};

/// A call to the node, which answers with its statistics.
fn call(client: &Client, node: NodeId) -> JoinHandle<Result<Answer<Value>, ClientError>> {
    let client = client.clone();
    let query = Query::new().with("node_id", node.to_string());
    tokio::spawn(async move { client.get("/v1/client/stats", &query).await })
}

async fn answered(call: JoinHandle<Result<Answer<Value>, ClientError>>) {
    let answer = call.await.expect("it ends").expect("statistics");
    assert_eq!(answer.value["Timestamp"], 1);
}

async fn asked(node: &mut FakeNode) {
    let _: v1::CallsWanted = timeout(PATIENCE, node.hear()).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_asks_the_node_for_its_connection_and_reaches_it() {
    let world = World::start().await;
    let mut node = FakeNode::join_detached(&world.server, &world.data_dir(), 2).await;
    assert_eq!(node.protocol(), 2);
    let first = call(&world.client, node.id);
    asked(&mut node).await;
    let second = call(&world.client, node.id);
    node.attach().await;
    answered(first).await;
    answered(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_asks_again_after_the_connection_ended() {
    let world = World::start().await;
    let mut node = FakeNode::join(&world).await;
    answered(call(&world.client, node.id)).await;
    node.detach();
    let id = node.id;
    let mut again = call(&world.client, id);
    {
        let asked = asked(&mut node);
        tokio::pin!(asked);
        loop {
            tokio::select! {
                () = &mut asked => break,
                // The server may not have received the end of the connection yet.
                lost = &mut again => drop(lost.expect("it ends").expect_err("it is lost")),
            }
            again = call(&world.client, id);
        }
    }
    node.attach().await;
    answered(again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_protocol_1_is_never_asked() {
    let world = World::start().await;
    let mut node = FakeNode::join_detached(&world.server, &world.data_dir(), 1).await;
    assert_eq!(node.protocol(), 1);
    let unanswered = call(&world.client, node.id).await.expect("it ends");
    assert_eq!(refusal(unanswered).0, 404);
    let epoch = node.epoch();
    let heartbeat = v1::Heartbeat {
        epoch,
        tick: 1,
        ..v1::Heartbeat::default()
    };
    node.say(&heartbeat).await;
    // The next message on the stream is the answer to this, and no CallsWanted.
    let ack: v1::HeartbeatAck = timeout(PATIENCE, node.hear()).await.expect("in time");
    assert_eq!(ack.tick, 1);
    node.attach().await;
    answered(call(&world.client, node.id)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relayed_call_asks_the_node_and_names_one_that_does_not_attach() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster(root.path()).await;
    let mut node = FakeNode::join_detached(&servers[0], root.path(), 2).await;
    let started = Instant::now();
    let calls = [&servers[0], &servers[1]].map(|server| call(&three::client(server), node.id));
    for call in calls {
        let (code, words) = refusal(call.await.expect("it ends"));
        let reason = "did not open a connection for calls within 5s";
        assert_eq!((code, words), (500, format!("node {} {reason}", node.id)));
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    let through = call(&three::client(&servers[1]), node.id);
    asked(&mut node).await;
    node.attach().await;
    answered(through).await;
}
