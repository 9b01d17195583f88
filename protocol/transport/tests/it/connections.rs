//! Who may connect to whom.

use std::time::{Duration, Instant};

use protocol_transport::{ConnectError, Limits, Pool, RenewError, Role};

use super::{authority, endpoint, identity};

#[tokio::test]
async fn a_node_reaches_a_server_and_each_knows_the_other() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "EU-West"));
    let node = endpoint(identity(&authority, Role::Node, "EU-West"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address");
    node.connect(address).await.expect("connects");
    let peer = listener.accept().await.expect("a peer");
    assert_eq!(&peer.identity, node.own());
    assert_eq!(peer.identity.role, Role::Node);
    assert_eq!(peer.identity.common_name, "node-1");
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_the_next_connection_on() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let node = endpoint(identity(&authority, Role::Node, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address");
    let first = node.connect(address).await.expect("connects");
    // A connection that nobody holds is closed.
    let standing = listener.accept().await.expect("a peer");
    let before = &standing.identity;
    let renewed = identity(&authority, Role::Node, "global");
    node.use_identity(&renewed).expect("the same role");
    node.connect(address).await.expect("connects");
    let after = listener.accept().await.expect("a peer").identity;
    assert_eq!(&after, renewed.own());
    assert_ne!(after.fingerprint, before.fingerprint);
    assert!(first.close_reason().is_none(), "what stands goes on");
    for (role, region) in [(Role::Server, "global"), (Role::Node, "eu")] {
        let other = identity(&authority, role, region);
        let error = node.use_identity(&other).expect_err("must refuse");
        assert!(
            matches!(error, RenewError::SomebodyElse { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_node_that_poses_as_a_server_is_not_connected_to() {
    let authority = authority();
    let impostor = endpoint(identity(&authority, Role::Node, "global"));
    let node = endpoint(identity(&authority, Role::Node, "global"));
    let _listener = impostor.listen();
    let address = impostor.local_address().expect("an address");
    let error = node.connect(address).await.expect_err("must refuse");
    assert!(matches!(error, ConnectError::Handshake { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_of_another_region_is_not_connected_to() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "eu"));
    let node = endpoint(identity(&authority, Role::Node, "global"));
    let _listener = server.listen();
    let address = server.local_address().expect("an address");
    let error = node.connect(address).await.expect_err("must refuse");
    assert!(matches!(error, ConnectError::Handshake { .. }), "{error:?}");
}

#[tokio::test]
async fn a_peer_of_another_authority_is_turned_away() {
    let ours = authority();
    let theirs = authority();
    let server = endpoint(identity(&ours, Role::Server, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address");
    let stranger = endpoint(identity(&theirs, Role::Node, "global"));
    stranger.connect(address).await.expect_err("must refuse");
    // The next peer that gets through is the one that belongs here.
    let node = endpoint(identity(&ours, Role::Node, "global"));
    let _connection = node.connect(address).await.expect("connects");
    assert_eq!(
        &listener.accept().await.expect("a peer").identity,
        node.own()
    );
}

#[tokio::test]
async fn an_address_where_nobody_answers_fails_in_time() {
    let authority = authority();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("binds");
    let mut config =
        protocol_transport::EndpointConfig::loopback(identity(&authority, Role::Server, "global"));
    config.limits = Limits {
        handshake_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let endpoint = protocol_transport::Endpoint::bind(&config).expect("binds");
    let address = silent.local_addr().expect("an address");
    let error = endpoint.connect(address).await.expect_err("must time out");
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn the_pool_shares_one_connection_and_replaces_a_closed_one() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address").to_string();
    let pool = Pool::new(endpoint(identity(&authority, Role::Server, "global")));
    let (first, second) = tokio::join!(pool.connection(&address), pool.connection(&address));
    let (first, second) = (first.expect("connects"), second.expect("connects"));
    assert_eq!(first.stable_id(), second.stable_id());
    let accepted = listener.accept().await.expect("a peer");
    accepted.connection.close(0u32.into(), b"restart");
    first.closed().await;
    let third = pool.connection(&address).await.expect("connects anew");
    assert_ne!(first.stable_id(), third.stable_id());
}

#[tokio::test]
async fn the_pool_drops_a_connection_on_which_nothing_succeeds() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address").to_string();
    let pool = Pool::new(endpoint(identity(&authority, Role::Server, "global")));
    let connection = pool.connection(&address).await.expect("connects");
    let _peer = listener.accept().await.expect("a peer");
    let answered = Instant::now();
    pool.report_success(&address);
    pool.report_timeout(&address);
    let kept = connection.close_reason().is_none();
    // A machine that stood still in between has been patient for long enough.
    assert!(
        kept || answered.elapsed() > Duration::from_millis(400),
        "one late answer is no reason"
    );
    while connection.close_reason().is_none() {
        pool.report_timeout(&address);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let next = pool.connection(&address).await.expect("connects anew");
    assert_ne!(connection.stable_id(), next.stable_id());
}

#[tokio::test]
async fn the_listener_ends_with_its_endpoint() {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let mut listener = server.listen();
    server.close();
    assert!(listener.accept().await.is_none());
}
