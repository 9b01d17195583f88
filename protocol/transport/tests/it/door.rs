//! Admission where more peers connect than are served at a time.

use std::time::{Duration, Instant};

use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Endpoint, Listener, Peer, Role};
use tokio::time::timeout;

use super::{authority, endpoint, identity};

/// Sessions that are made at a time, at first.
const PLACES: usize = 32;
/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(4);

/// A server all of whose places are taken by sessions that are not live yet.
struct Full {
    server: Endpoint,
    node: Endpoint,
    listener: Listener,
    peers: Vec<Peer>,
    _connections: Vec<quinn::Connection>,
}

async fn full() -> Full {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let node = endpoint(identity(&authority, Role::Node, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address");
    let (mut peers, mut connections) = (Vec::new(), Vec::new());
    for _ in 0..PLACES {
        let wish = Wish::new(WishKind::Session);
        let connection = node.connect_wishing(address, wish).await;
        connections.push(connection.expect("connects"));
        peers.push(listener.accept().await.expect("a peer"));
    }
    Full {
        server,
        node,
        listener,
        peers,
        _connections: connections,
    }
}

#[tokio::test]
async fn a_node_waits_until_another_session_is_live() {
    let mut full = full().await;
    let address = full.server.local_address().expect("an address");
    let wish = Wish::new(WishKind::Session);
    let node = full.node.clone();
    let waiting = tokio::spawn(async move { node.connect_wishing(address, wish).await });
    let doorway = full.listener.doorway().clone();
    let begun = Instant::now();
    while doorway.state(tokio::time::Instant::now()).waiting == 0 {
        assert!(begun.elapsed() < SOON, "no node waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    full.peers[0].place.live();
    let accepted = timeout(SOON, full.listener.accept()).await;
    accepted.expect("in time").expect("a peer");
    waiting.await.expect("no panic").expect("connects");
    let state = doorway.state(tokio::time::Instant::now());
    assert_eq!((state.waiting, state.refused), (0, 0));
}

#[tokio::test]
async fn a_node_that_waited_for_too_long_is_told_that_the_server_is_busy() {
    let full = full().await;
    let address = full.server.local_address().expect("an address");
    let wish = Wish {
        patience: Duration::from_millis(800),
        ..Wish::new(WishKind::Session)
    };
    let refused = timeout(SOON, full.node.connect_wishing(address, wish)).await;
    let error = refused.expect("in time").expect_err("refused");
    assert!(error.is_busy(), "{error:?}");
    assert!(!error.is_silence(), "{error:?}");
    // A packet that was sent again meanwhile may wait, as another attempt.
    let state = full.listener.doorway().state(tokio::time::Instant::now());
    assert_eq!(state.refused, 1);
}

#[tokio::test]
async fn a_server_is_let_in_at_once_where_nodes_wait() {
    let mut full = full().await;
    let address = full.server.local_address().expect("an address");
    let (node, wish) = (full.node.clone(), Wish::new(WishKind::Standby));
    tokio::spawn(async move { node.connect_wishing(address, wish).await });
    timeout(SOON, full.node.connect(address))
        .await
        .expect("in time")
        .expect("connects");
    let accepted = timeout(SOON, full.listener.accept()).await;
    accepted.expect("in time").expect("a peer");
}
