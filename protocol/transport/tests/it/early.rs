//! What is said before a handshake is over: when it arrives, that it arrives once, and what becomes
//! of it where the server forgot its client.

use std::net::SocketAddr;
use std::time::Duration;

use hack_testkit::HeldWay;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Dialed, EarlyWords, Endpoint, EndpointConfig, Listener, Peer, Role};
use tokio::net::UdpSocket;

use crate::{authority, endpoint, identity};

const WORDS: &[u8] = b"it is me";

/// Dials until there is a ticket: it comes when the first handshake is over.
async fn dial(client: &Endpoint, address: SocketAddr) -> Dialed {
    loop {
        let dialed = client
            .connect_early(address, Wish::new(WishKind::Session))
            .await
            .expect("connects");
        if dialed.early.is_some() {
            return dialed;
        }
        tokio::task::yield_now().await;
    }
}

/// A client and a server which know each other, and nobody else.
async fn acquainted(client: &Endpoint, address: SocketAddr, listener: &mut Listener) {
    let connection = client.connect(address).await.expect("connects");
    let mut peer = listener.accept().await.expect("a peer");
    assert!(peer.handshake.done().await);
    // What the server says on a stream comes after its tickets.
    let (mut stream, _) = peer.connection.open_bi().await.expect("a stream");
    stream.write_all(WORDS).await.expect("it is sent");
    let (_, mut stream) = connection.accept_bi().await.expect("a stream");
    let mut words = [0; WORDS.len()];
    stream.read_exact(&mut words).await.expect("it comes");
    connection.close(0_u32.into(), b"");
}

async fn say(connection: &quinn::Connection) {
    let (mut stream, _) = connection.open_bi().await.expect("a stream");
    stream.write_all(WORDS).await.expect("it is sent");
    stream.finish().expect("it is whole");
}

async fn hear(peer: &Peer) -> Vec<u8> {
    let (_, mut stream) = peer.connection.accept_bi().await.expect("a stream");
    stream.read_to_end(64).await.expect("it comes")
}

fn ends() -> (Endpoint, Endpoint) {
    let authority = authority();
    let of = |role| endpoint(identity(&authority, role, "global"));
    (of(Role::Server), of(Role::Node))
}

#[tokio::test]
async fn who_is_known_is_heard_before_the_handshake_is_over() {
    let (server, client) = ends();
    let mut listener = server.listen();
    let way = HeldWay::to(server.local_address().expect("an address")).await;
    acquainted(&client, way.address(), &mut listener).await;
    way.hold(true);
    let dialed = dial(&client, way.address()).await;
    // In one go: the connection is driven only when we wait.
    say(&dialed.connection).await;
    let mut peer = listener.accept().await.expect("a peer");
    assert_eq!(peer.identity.role, Role::Node);
    assert_eq!(hear(&peer).await, WORDS);
    // The client's next packet is kept back, so that its handshake is not over for the server.
    tokio::select! {
        biased;
        _ = peer.handshake.done() => panic!("nothing of the client came that is new"),
        () = tokio::task::yield_now() => {}
    }
    let early = dialed.early.expect("a handshake that is under way");
    assert_eq!(early.settle().await.expect("a server"), EarlyWords::Taken);
    way.hold(false);
    assert!(peer.handshake.done().await);
}

#[tokio::test]
async fn a_first_packet_that_is_sent_again_is_not_heard_again() {
    let (server, client) = ends();
    let mut listener = server.listen();
    let address = server.local_address().expect("an address");
    let way = HeldWay::to(address).await;
    acquainted(&client, way.address(), &mut listener).await;
    way.hold(true);
    let dialed = dial(&client, way.address()).await;
    say(&dialed.connection).await;
    let first = listener.accept().await.expect("a peer");
    assert_eq!(hear(&first).await, WORDS);
    // While the connection stands, its packets are known by their numbers.
    first.connection.close(0_u32.into(), b"");
    while server.open_connections() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Somebody else who kept the packets sends them from elsewhere.
    let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    for packet in way.passed() {
        stranger
            .send_to(&packet, address)
            .await
            .expect("it is sent");
    }
    // The server has answered them, so that it has read them.
    let mut answer = [0; 65_536];
    stranger.recv(&mut answer).await.expect("an answer");
    let another = client.stranger().connect(address).await.expect("connects");
    let next = listener.accept().await.expect("a peer");
    say(&another).await;
    assert_eq!(hear(&next).await, WORDS);
    assert_eq!(
        next.connection.remote_address(),
        client.local_address().expect("an address")
    );
}

#[tokio::test]
async fn a_server_that_forgot_its_clients_is_told_again() {
    let authority = authority();
    let (of_server, of_client) = (
        identity(&authority, Role::Server, "global"),
        identity(&authority, Role::Node, "global"),
    );
    let (server, client) = (endpoint(of_server.clone()), endpoint(of_client));
    let address = server.local_address().expect("an address");
    let mut listener = server.listen();
    acquainted(&client, address, &mut listener).await;
    // Another process at the same address.
    server.close();
    server.wait_idle().await;
    drop((listener, server));
    let config = EndpointConfig {
        listen: address,
        ..EndpointConfig::loopback(of_server)
    };
    let server = loop {
        match Endpoint::bind(&config) {
            Ok(server) => break server,
            // The one before lets its socket go when its tasks have ended.
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let mut listener = server.listen();
    let dialed = dial(&client, address).await;
    say(&dialed.connection).await;
    let early = dialed.early.expect("a handshake that is under way");
    assert_eq!(
        early.settle().await.expect("a server"),
        EarlyWords::NotTaken
    );
    say(&dialed.connection).await;
    let mut peer = listener.accept().await.expect("a peer");
    assert!(peer.handshake.done().await);
    assert_eq!(hear(&peer).await, WORDS);
}

#[tokio::test]
async fn a_stranger_on_the_same_socket_has_nothing_to_show() {
    let (server, client) = ends();
    let address = server.local_address().expect("an address");
    let mut listener = server.listen();
    acquainted(&client, address, &mut listener).await;
    let dialed = client
        .stranger()
        .connect_early(address, Wish::new(WishKind::Session))
        .await;
    assert!(dialed.expect("connects").early.is_none());
}
