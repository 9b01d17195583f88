//! The KEK goes to members of the log alone. A certificate of a server names none: a request is
//! answered only where the member that it names says that it sent it.

use bytes::Bytes;
use controlplane_server::Server;
use protocol_transport::{Endpoint, EndpointConfig, Identity, Region, Role, StreamKind};
use protocol_wire::kind::FrameMessage;
use protocol_wire::v1;

use crate::fake_node::{open, read, write};
use crate::keyring::{ids, keyed};
use crate::regions::identity;
use crate::world::{PATIENCE, World};

async fn stream(server: &Server, identity: Identity, message: &impl FrameMessage) -> Reader {
    let endpoint = Endpoint::bind(&EndpointConfig::loopback(identity)).expect("an endpoint");
    let address = server.quic_address().expect("an address");
    let connection = endpoint.connect(address).await.expect("it connects");
    let (mut writer, reader) = open(&connection, StreamKind::Forward).await;
    write(&mut writer, message).await;
    Reader {
        reader,
        _open: (endpoint, connection, writer),
    }
}

/// The answer's side of a stream, with all that keeps it open.
struct Reader {
    reader: protocol_transport::FrameReader,
    _open: (Endpoint, quinn::Connection, protocol_transport::FrameWriter),
}

/// The reason of a refusal. No key comes with it.
async fn refused(server: &Server, identity: Identity, message: &impl FrameMessage) -> String {
    let mut stream = stream(server, identity, message).await;
    let reply: v1::KekReply = read(&mut stream.reader).await;
    assert!(
        reply.keks.is_empty(),
        "no key comes with {:?}",
        reply.refused
    );
    assert_ne!(reply.refused, "", "it is refused");
    reply.refused
}

fn request(server_id: u64, proof: &[u8]) -> v1::KekRequest {
    v1::KekRequest {
        server_id,
        kek_id: Bytes::new(),
        proof: proof.to_vec().into(),
    }
}

fn store(server_id: u64, term: u64) -> v1::KekStore {
    v1::KekStore {
        server_id,
        term,
        kek: vec![7; 32].into(),
        proof: vec![1; 16].into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_tools_get_no_answer_to_a_request_for_the_kek() {
    let world = World::start().await;
    let member = world.server.cluster().status().id.as_u64();
    for role in [Role::Node, Role::Cli] {
        let identity = identity(&world, role, Region::global().as_str());
        let endpoint = Endpoint::bind(&EndpointConfig::loopback(identity)).expect("an endpoint");
        let address = world.server.quic_address().expect("an address");
        let Ok(connection) = endpoint.connect(address).await else {
            continue;
        };
        let Ok((mut send, recv)) = connection.open_bi().await else {
            continue;
        };
        // The stream may be reset at once.
        let _ = StreamKind::Forward.write(&mut send).await;
        let mut writer = protocol_transport::FrameWriter::new(send, 1 << 16);
        let mut reader = protocol_transport::FrameReader::new(recv, 1 << 16);
        let (kind, body) = protocol_wire::kind::to_frame(&request(member, &[1; 16]));
        let _ = writer.write(kind, body).await;
        let answer = tokio::time::timeout(PATIENCE, reader.expect()).await;
        answer.expect("in time").expect_err("no answer");
    }
}

/// The holder of a server's certificate that is no member, or was removed, may name a member.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_certificate_gets_no_kek_and_stores_none_under_a_members_name() {
    let world = World::start().await;
    keyed(&world.server).await;
    let status = world.server.cluster().status();
    let (member, term) = (status.id.as_u64(), status.term);
    let identity = || identity(&world, Role::Server, Region::global().as_str());
    let server = &world.server;
    for (id, proof, reason) in [
        (7, [1; 16].as_slice(), "no member"),
        (member, &[1; 16], "did not send"),
        (member, &[], "did not send"),
    ] {
        let refused = refused(server, identity(), &request(id, proof)).await;
        assert!(refused.contains(reason), "{id}: {refused}");
    }
    for (id, term, reason) in [
        (7, term, "no member"),
        (member, term + 1, "does not lead"),
        (member, term, "did not send"),
    ] {
        let refused = refused(server, identity(), &store(id, term)).await;
        assert!(refused.contains(reason), "{id} in term {term}: {refused}");
    }
    assert_eq!(ids(&world.data_dir()).len(), 1);
}
