//! Two ends on one host, with a wire between them that is cut and put back.

use std::sync::Arc;
use std::time::Duration;

use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Peer, Region, Role};

use super::{Sky, Wire, WiredRuntime, Wires, runtime};

const VALIDITY: Duration = Duration::from_secs(3600);

struct Ends {
    wires: Arc<Wires>,
    sky: Arc<Sky>,
    node: Endpoint,
    server: Endpoint,
}

fn identity(authority: &CertificateAuthority, role: Role) -> Identity {
    let issued = authority
        .issue(&CertificateRequest {
            role,
            region: Region::global(),
            common_name: role.to_string(),
            names: Vec::new(),
            addresses: Vec::new(),
            validity: VALIDITY,
        })
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = ["ca", "cert", "key"].map(|name| folder.path().join(name));
    let authority = &authority.pem().certificate;
    protocol_transport::files::write_certificate(&files[0], authority).unwrap();
    protocol_transport::files::write_certificate(&files[1], &issued.certificate).unwrap();
    protocol_transport::files::write_key(&files[2], &issued.key).unwrap();
    Identity::load(&files[0], &files[1], &files[2]).unwrap()
}

fn ends() -> Ends {
    let authority = CertificateAuthority::create("nodesim tests", VALIDITY).unwrap();
    let config = |role| EndpointConfig::loopback(identity(&authority, role));
    let wires = Arc::new(Wires::default());
    let sky = Arc::new(Sky::new(7));
    let wired = WiredRuntime::new(Arc::clone(&wires), Arc::clone(&sky));
    Ends {
        wires,
        sky,
        node: Endpoint::bind_on(&config(Role::Node), Arc::new(wired)).unwrap(),
        server: Endpoint::bind(&config(Role::Server)).unwrap(),
    }
}

/// A connection over `wire`, as both ends have it.
async fn connect(
    ends: &Ends,
    listener: &mut protocol_transport::Listener,
    wire: &Arc<Wire>,
) -> (quinn::Connection, Peer) {
    let address = ends.server.local_address().unwrap();
    let connecting = runtime::connecting(Arc::clone(wire), ends.node.connect(address));
    let (connection, peer) = tokio::join!(connecting, listener.accept());
    (connection.unwrap(), peer.unwrap())
}

async fn say(connection: &quinn::Connection, word: &[u8]) {
    let (mut stream, _) = connection.open_bi().await.unwrap();
    stream.write_all(word).await.unwrap();
    stream.finish().unwrap();
}

async fn hear(connection: &quinn::Connection) -> Vec<u8> {
    let (_, mut stream) = connection.accept_bi().await.unwrap();
    stream.read_to_end(64).await.unwrap()
}

#[tokio::test]
async fn a_cut_takes_one_nodes_packets_both_ways_and_no_others() {
    let ends = ends();
    let mut listener = ends.server.listen();
    let (cut, whole) = (Arc::new(Wire::default()), Arc::new(Wire::default()));
    let (silent, from_silent) = connect(&ends, &mut listener, &cut).await;
    let (well, from_well) = connect(&ends, &mut listener, &whole).await;
    cut.set_cut(true);
    say(&silent, b"out").await;
    say(&from_silent.connection, b"in").await;
    say(&well, b"hello").await;
    say(&from_well.connection, b"you too").await;
    assert_eq!(hear(&from_well.connection).await, b"hello");
    assert_eq!(hear(&well).await, b"you too");
    // Both ways, whatever was in flight: one packet out, one in.
    while cut.dropped() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(whole.dropped(), 0);
    cut.set_cut(false);
    ends.wires.on_mended();
    // QUIC sends again what was lost.
    assert_eq!(hear(&from_silent.connection).await, b"out");
    assert_eq!(hear(&silent).await, b"in");
}

#[tokio::test]
async fn what_ends_behind_a_cut_stays_silent_and_is_forgotten_when_it_is_mended() {
    let ends = ends();
    let mut listener = ends.server.listen();
    let wire = Arc::new(Wire::default());
    let (connection, peer) = connect(&ends, &mut listener, &wire).await;
    assert_eq!(ends.wires.len(), 1);
    wire.set_cut(true);
    drop(connection);
    ends.node.wait_idle().await;
    assert_eq!(
        ends.wires.len(),
        1,
        "its packets are still nobody's to answer"
    );
    assert_eq!(peer.connection.close_reason(), None, "nobody was told");
    wire.set_cut(false);
    ends.wires.on_mended();
    assert_eq!(ends.wires.len(), 0);
}

#[tokio::test]
async fn every_round_trip_of_a_late_network_takes_that_much_longer() {
    let ends = ends();
    let mut listener = ends.server.listen();
    let wire = Arc::new(Wire::default());
    ends.sky
        .change(|weather| weather.delay = Duration::from_millis(60));
    let (far, _other) = connect(&ends, &mut listener, &wire).await;
    assert!(far.rtt() >= Duration::from_millis(60), "{:?}", far.rtt());
}

#[tokio::test]
async fn what_is_said_in_bad_weather_arrives_all_the_same_after_datagrams_were_lost() {
    let ends = ends();
    let mut listener = ends.server.listen();
    let wire = Arc::new(Wire::default());
    let (connection, peer) = connect(&ends, &mut listener, &wire).await;
    ends.sky.change(|weather| {
        weather.loss_percent = 20;
        weather.jitter = Duration::from_millis(20);
    });
    // Many datagrams that leave together, and as many that arrive together.
    let long = vec![7; 32 * 1024];
    for (from, to) in [
        (&connection, &peer.connection),
        (&peer.connection, &connection),
    ] {
        let spoken = async {
            let (mut stream, _) = from.open_bi().await.unwrap();
            stream.write_all(&long).await.unwrap();
            stream.finish().unwrap();
        };
        let heard = async {
            let (_, mut stream) = to.accept_bi().await.unwrap();
            stream.read_to_end(long.len()).await.unwrap()
        };
        let ((), heard) = tokio::join!(spoken, heard);
        assert!(heard == long);
    }
    let met = ends.sky.met();
    assert!(met.lost > 0, "{met:?}");
    assert!(met.to_server > 20 && met.to_node > 20, "{met:?}");
    assert_eq!(wire.dropped(), 0);
}

#[tokio::test]
async fn weather_that_loses_everything_is_silence_until_it_clears_up() {
    let ends = ends();
    let mut listener = ends.server.listen();
    let wire = Arc::new(Wire::default());
    let (connection, peer) = connect(&ends, &mut listener, &wire).await;
    ends.sky.change(|weather| weather.loss_percent = 100);
    say(&connection, b"out").await;
    say(&peer.connection, b"in").await;
    while ends.sky.met().to_server == 0 || ends.sky.met().to_node == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let met = ends.sky.met();
    assert_eq!(met.lost, met.to_server + met.to_node);
    ends.sky.change(|weather| weather.loss_percent = 0);
    assert_eq!(hear(&peer.connection).await, b"out");
    assert_eq!(hear(&connection).await, b"in");
}
