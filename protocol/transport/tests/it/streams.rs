//! Kinds and frames on streams.

use bytes::Bytes;
use protocol_transport::frame::Frame;
use protocol_transport::{
    FrameReader, FrameWriter, Listener, Peer, Pool, ReadError, Role, StreamKind, StreamKindError,
    WriteError,
};

use super::{authority, endpoint, identity};

const CAP: usize = 3 * 1024 * 1024;

struct Pair {
    pool: Pool,
    address: String,
    peer: Peer,
    _listener: Listener,
}

async fn pair(role: Role) -> Pair {
    let authority = authority();
    let server = endpoint(identity(&authority, Role::Server, "global"));
    let mut listener = server.listen();
    let address = server.local_address().expect("an address").to_string();
    let pool = Pool::new(endpoint(identity(&authority, role, "global")));
    pool.connection(&address).await.expect("connects");
    let peer = listener.accept().await.expect("a peer");
    Pair {
        pool,
        address,
        peer,
        _listener: listener,
    }
}

#[tokio::test]
async fn frames_arrive_whole_and_in_order() {
    let pair = pair(Role::Node).await;
    let bodies = [
        Bytes::new(),
        Bytes::from_static(b"one"),
        Bytes::from(vec![7; CAP]),
        Bytes::new(),
    ];
    let opened = pair.pool.open(&pair.address, StreamKind::NodeUpdates);
    let (send, _recv) = opened.await.expect("opens");
    let sent = bodies.clone();
    let sending = tokio::spawn(async move {
        let mut writer = FrameWriter::new(send, CAP);
        for (kind, body) in (0u8..).zip(sent) {
            writer.write(kind, body).await.expect("writes");
        }
        writer.finish().expect("finishes");
        writer
    });
    let (_send, mut recv) = pair.peer.connection.accept_bi().await.expect("a stream");
    let kind = StreamKind::read(&mut recv, pair.peer.identity.role)
        .await
        .expect("a kind");
    assert_eq!(kind, StreamKind::NodeUpdates);
    let mut reader = FrameReader::new(recv, CAP);
    for (kind, body) in (0u8..).zip(bodies) {
        assert_eq!(
            reader.expect().await.expect("a frame"),
            Frame { kind, body }
        );
    }
    assert!(reader.read().await.expect("a clean end").is_none());
    sending.await.expect("sends");
}

#[tokio::test]
async fn a_node_may_not_open_a_raft_stream() {
    let pair = pair(Role::Node).await;
    let _stream = pair
        .pool
        .open(&pair.address, StreamKind::Raft)
        .await
        .expect("opens");
    let (_send, mut recv) = pair.peer.connection.accept_bi().await.expect("a stream");
    let error = StreamKind::read(&mut recv, Role::Node)
        .await
        .expect_err("must refuse");
    let expected = StreamKindError::NotAllowed {
        role: Role::Node,
        kind: StreamKind::Raft,
    };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_frame_is_truncated() {
    let pair = pair(Role::Server).await;
    let (mut send, _recv) = pair
        .pool
        .open(&pair.address, StreamKind::Raft)
        .await
        .expect("opens");
    send.write_all(&[0, 0, 0, 9, 1, 2]).await.expect("writes");
    send.finish().expect("finishes");
    let (_send, mut recv) = pair.peer.connection.accept_bi().await.expect("a stream");
    StreamKind::read(&mut recv, Role::Server)
        .await
        .expect("a kind");
    let error = FrameReader::new(recv, CAP)
        .read()
        .await
        .expect_err("must fail");
    assert!(matches!(error, ReadError::Truncated), "{error:?}");
}

#[tokio::test]
async fn a_body_above_the_cap_is_neither_sent_nor_received() {
    let pair = pair(Role::Server).await;
    let (send, _recv) = pair
        .pool
        .open(&pair.address, StreamKind::Raft)
        .await
        .expect("opens");
    let mut writer = FrameWriter::new(send, 4);
    let error = writer
        .write(1, Bytes::from_static(b"12345"))
        .await
        .expect_err("must refuse");
    assert!(matches!(error, WriteError::TooLarge(_)), "{error:?}");
    writer
        .write(1, Bytes::from_static(b"1234"))
        .await
        .expect("fits");
    let (_send, mut recv) = pair.peer.connection.accept_bi().await.expect("a stream");
    StreamKind::read(&mut recv, Role::Server)
        .await
        .expect("a kind");
    let error = FrameReader::new(recv, 3)
        .read()
        .await
        .expect_err("must refuse");
    assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
}
