//! A Hello that comes with a connection's first packet: what is answered before the node's
//! handshake is over, and what waits for it.

use std::time::Duration;

use controlplane_state::SessionEpoch;
use hack_testkit::HeldWay;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Early, EarlyWords, FrameReader, FrameWriter, StreamKind};
use protocol_wire::v1;
use tokio::time::timeout;

use crate::fake_node::{FakeNode, open, read, write};
use crate::world::{PATIENCE, World};

/// A Hello that was said with the first packet, while nothing else of its node arrives.
struct SaidEarly {
    way: HeldWay,
    _writer: FrameWriter,
    reader: FrameReader,
    early: Early,
    _connection: quinn::Connection,
}

fn session(world: &World, node: &FakeNode) -> SessionEpoch {
    let snapshot = world.server.cluster().snapshot();
    snapshot.node(node.id).expect("the node").session.epoch
}

async fn say_early(world: &World, node: &FakeNode, hello: &v1::Hello) -> SaidEarly {
    let server = world.server.quic_address().expect("an address");
    let way = HeldWay::to(server).await;
    let endpoint = node.endpoint();
    // Tickets come when the first handshake is over.
    let known = endpoint.connect(way.address()).await.expect("connects");
    let (mut writer, mut reader) = open(&known, StreamKind::NodeSession).await;
    write(&mut writer, &node.hello()).await;
    let _: v1::Welcome = read(&mut reader).await;
    way.hold_server();
    let dialed = endpoint
        .connect_early(way.address(), Wish::new(WishKind::Session))
        .await;
    let dialed = dialed.expect("connects");
    let early = dialed.early.expect("the server gave a ticket");
    let (mut writer, reader) = open(&dialed.connection, StreamKind::NodeSession).await;
    let opened = sent(&dialed.connection, 0).await;
    write(&mut writer, hello).await;
    sent(&dialed.connection, opened).await;
    // The client learns only now that it may go on with its handshake.
    way.hold(true);
    SaidEarly {
        way,
        _writer: writer,
        reader,
        early,
        _connection: dialed.connection,
    }
}

/// Waits until the connection has sent more frames of streams than `before`, and answers how many.
async fn sent(connection: &quinn::Connection, before: u64) -> u64 {
    loop {
        let now = connection.stats().frame_tx.stream;
        if now > before {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_of_the_newest_session_is_answered_before_the_handshake_is_over() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let mut said = say_early(&world, &node, &node.hello()).await;
    let welcome = timeout(PATIENCE, read(&mut said.reader)).await;
    let welcome: v1::Welcome = welcome.expect("an answer");
    assert!(welcome.resumed);
    let settled = timeout(PATIENCE, said.early.settle()).await;
    let settled = settled.expect("a handshake").expect("a server");
    assert_eq!(settled, EarlyWords::Taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_might_end_a_newer_session_waits_until_its_node_is_there() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let newest = session(&world, &node);
    let older = v1::Hello {
        nonce: vec![9; 16].into(),
        last_epoch: newest.0 - 1,
        ..node.hello()
    };
    let mut said = say_early(&world, &node, &older).await;
    // Everything that the server does meanwhile would come after an answer to this Hello.
    let _other = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    assert_eq!(session(&world, &node), newest);
    said.way.hold(false);
    let welcome = timeout(PATIENCE, read(&mut said.reader)).await;
    let welcome: v1::Welcome = welcome.expect("an answer");
    assert_eq!(welcome.epoch, session(&world, &node).0);
    assert!(welcome.epoch > newest.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_of_a_session_that_another_followed_meanwhile_waits_until_its_node_is_there() {
    let world = World::start().await;
    let mut node = FakeNode::join(&world).await;
    let newest = session(&world, &node);
    let (incarnation, index) = {
        let snapshot = world.server.cluster().snapshot();
        let incarnation = snapshot.cluster().incarnation.expect("it was begun");
        (incarnation, snapshot.index())
    };
    // It waits until the server knows what the node has seen: the next session and its report. What
    // two other nodes do would come after an answer.
    let early = v1::Hello {
        nonce: vec![9; 16].into(),
        watermark: Some(v1::Watermark {
            incarnation: incarnation.as_bytes().to_vec().into(),
            index: index + 2,
        }),
        ..node.hello()
    };
    let mut said = say_early(&world, &node, &early).await;
    node.begin_anew(&[]).await;
    let next = session(&world, &node);
    assert!(next > newest);
    for other in [2, 3] {
        FakeNode::join_as(&world.server, &world.data_dir(), other).await;
    }
    assert_eq!(session(&world, &node), next);
    said.way.hold(false);
    let welcome = timeout(PATIENCE, read(&mut said.reader)).await;
    let welcome: v1::Welcome = welcome.expect("an answer");
    assert!(welcome.epoch > next.0);
}
