//! A node behind a network that gives it another address now and then, as one does that translates
//! addresses and forgets.

use std::net::SocketAddr;
use std::sync::Arc;

use protocol_wire::v1;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::fake_node::FakeNode;
use crate::world::{PATIENCE, World};

/// More than any datagram of QUIC.
const DATAGRAM_MAX: usize = 64 * 1024;

/// What translates the node's address, and where the server sees it.
struct Translator {
    inside: SocketAddr,
    outside: watch::Sender<Arc<UdpSocket>>,
}

impl Translator {
    async fn before(server: SocketAddr) -> Self {
        let inside = UdpSocket::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = inside.local_addr().expect("an address");
        let (outside, current) = watch::channel(towards(server).await);
        tokio::spawn(translate(inside, current));
        Self {
            inside: address,
            outside,
        }
    }

    /// From now on the server sees the node elsewhere; what it sends to the earlier place is lost.
    async fn forget(&self, server: SocketAddr) {
        let other = towards(server).await;
        self.outside.send_replace(other);
    }
}

async fn towards(server: SocketAddr) -> Arc<UdpSocket> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await.expect("a port");
    socket.connect(server).await.expect("an address");
    Arc::new(socket)
}

async fn translate(inside: UdpSocket, mut current: watch::Receiver<Arc<UdpSocket>>) {
    let (mut out, mut back) = (vec![0; DATAGRAM_MAX], vec![0; DATAGRAM_MAX]);
    let mut node = None;
    loop {
        let outside = Arc::clone(&current.borrow_and_update());
        tokio::select! {
            Ok((length, from)) = inside.recv_from(&mut out) => {
                node = Some(from);
                let _ = outside.send(&out[..length]).await;
            }
            Ok(length) = outside.recv(&mut back) => {
                if let Some(node) = node {
                    let _ = inside.send_to(&back[..length], node).await;
                }
            }
            Ok(()) = current.changed() => {}
        }
    }
}

/// Shows that it is alive, and is answered.
async fn is_heard(node: &mut FakeNode, tick: u64) {
    let epoch = node.epoch();
    let heartbeat = v1::Heartbeat {
        epoch,
        tick,
        ..v1::Heartbeat::default()
    };
    node.say(&heartbeat).await;
    let ack: v1::HeartbeatAck = timeout(PATIENCE, node.hear()).await.expect("an answer");
    assert_eq!(ack.tick, tick);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_address_changes_keeps_its_connection_and_its_session() {
    let world = World::start().await;
    let server = world.server.quic_address().expect("an address");
    let translator = Translator::before(server).await;
    let mut node = FakeNode::join_at(translator.inside, &world.data_dir()).await;
    is_heard(&mut node, 1).await;
    let before = world.server.cluster().status().last_index;
    for tick in 2..5 {
        translator.forget(server).await;
        is_heard(&mut node, tick).await;
    }
    let snapshot = world.server.cluster().snapshot();
    let record = snapshot.node(node.id).expect("the node");
    assert_eq!(record.session.epoch.0, node.epoch());
    assert_eq!(world.server.cluster().status().last_index, before);
    assert_eq!(node.session().close_reason(), None);
}
