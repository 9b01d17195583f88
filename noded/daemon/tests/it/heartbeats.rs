//! What a node says to a server that reads nothing for a while.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use noded_core::effect::{SessionMessage, SyncPart};
use noded_core::key::Attempt;
use noded_core::{Moment, SessionEpoch};
use noded_daemon::identity::NodeIdentity;
use noded_daemon::queries::Queries;
use noded_daemon::session::{Link, Outbound, Outside, Purpose, SessionContext, Target};
use protocol_model::{AllocId, ClientStatus, Node, NodeId};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{
    ConnectError, Dialed, Endpoint, EndpointConfig, Identity, Region, Role, Secret, StreamKind,
};
use protocol_wire::kind::from_datagram;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fake_server::PATIENCE;

const DAY: Duration = Duration::from_secs(24 * 3600);
const EPOCH: SessionEpoch = SessionEpoch(1);
/// Together more than a connection takes that nobody reads, and than may be on its way.
const PARTS: u32 = 64;
const PART_BYTES: usize = 256 * 1024;
const TICKS: u64 = 5;

/// Servers through a socket of its own.
#[derive(Debug)]
struct Socket(Endpoint);

impl Outside for Socket {
    fn connect(
        &self,
        address: SocketAddr,
        _: Purpose,
        _: Wish,
    ) -> BoxFuture<'_, Result<Dialed, ConnectError>> {
        Box::pin(async move { Ok(self.0.connect(address).await?.into()) })
    }

    fn join_token(&self) -> Option<Secret> {
        None
    }

    fn accept_call(&self, _: quinn::SendStream, _: quinn::RecvStream) {}
}

fn endpoint(authority: &CertificateAuthority, role: Role) -> Endpoint {
    let request = CertificateRequest {
        role,
        region: Region::global(),
        common_name: role.to_string(),
        names: vec!["localhost".to_owned()],
        addresses: Vec::new(),
        validity: DAY,
    };
    let issued = authority.issue(&request).unwrap();
    let identity = Identity::from_pem(&authority.pem().certificate, &issued).unwrap();
    Endpoint::bind(&EndpointConfig::loopback(identity)).unwrap()
}

fn part(number: u32) -> SessionMessage {
    let id = AllocId::from_u128(u128::from(number));
    let mut report = AllocReport::new(id, 1, ClientStatus::Running);
    report.client_description = "x".repeat(PART_BYTES);
    SessionMessage::SyncPart(SyncPart {
        epoch: EPOCH,
        part: number,
        last: false,
        watch_index: 0,
        reports: vec![report],
        total: 0,
        with_facts: false,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_arrive_though_a_report_before_them_is_not_read() {
    let authority = CertificateAuthority::create("test", DAY).unwrap();
    let server = endpoint(&authority, Role::Server);
    let mut listener = server.listen();
    let address = server.local_address().unwrap();
    let node = Node::new(NodeId::from_u128(1), "node-1", "dc1");
    let (inputs, _received) = mpsc::channel(64);
    let context = Arc::new(SessionContext {
        outside: Arc::new(Socket(endpoint(&authority, Role::Node))),
        identity: NodeIdentity {
            id: node.id,
            secret: [1; 32],
        },
        boot_id: [2; 16],
        queries: Arc::new(Queries::new(node.id)),
        facts: parking_lot::Mutex::new(Arc::new(node)),
        inputs,
    });
    let target = Target {
        purpose: Purpose::Session,
        wish: Wish::new(WishKind::Session),
    };
    let link = Link::start(&context, Attempt(1), address.to_string(), target);
    for number in 0..PARTS {
        link.send(Outbound::Message(part(number))).unwrap();
    }
    for tick in 1..=TICKS {
        let heartbeat = SessionMessage::Heartbeat {
            epoch: EPOCH,
            tick,
            sent: Moment::default(),
        };
        link.send(Outbound::Message(heartbeat)).unwrap();
    }
    let peer = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let (_send, mut recv) = timeout(PATIENCE, peer.connection.accept_bi())
        .await
        .unwrap()
        .unwrap();
    let kind = StreamKind::read(&mut recv, Role::Node).await.unwrap();
    assert_eq!(kind, StreamKind::NodeSession);
    // Only the newest need to arrive.
    loop {
        let datagram = timeout(PATIENCE, peer.connection.read_datagram()).await;
        let heartbeat: v1::Heartbeat = from_datagram(datagram.unwrap().unwrap()).unwrap();
        if heartbeat.tick == TICKS {
            return;
        }
    }
}
