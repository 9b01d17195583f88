//! Another region's certificates are good for its own cluster, and for nothing here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol_transport::ca::{CertificateAuthority, CertificateRequest, CertifiedPem};
use protocol_transport::{Identity, Region, Role, tls};
use quinn::crypto::rustls::QuicClientConfig;

use crate::world::{PATIENCE, World};

/// A certificate of `role` in `region`, of the authority that the world's server trusts.
pub(crate) fn issued(world: &World, role: Role, region: &str) -> CertifiedPem {
    issued_below(&world.data_dir(), role, region)
}

/// The same, of the authority below `root`.
pub(crate) fn issued_below(root: &Path, role: Role, region: &str) -> CertifiedPem {
    let read = |name: &str| {
        let path = root.join("dev-tls").join(name);
        std::fs::read_to_string(path).expect("is there")
    };
    let authority = CertificateAuthority::load(CertifiedPem {
        certificate: read("ca.pem"),
        key: read("ca-key.pem"),
    });
    authority
        .expect("an authority")
        .issue(&CertificateRequest {
            role,
            region: Region::parse(region).expect("a region"),
            common_name: "stranger".to_owned(),
            names: Vec::new(),
            addresses: Vec::new(),
            validity: Duration::from_secs(3600),
        })
        .expect("a certificate")
}

/// The same, to connect with.
pub(crate) fn identity(world: &World, role: Role, region: &str) -> Identity {
    let ca = world.data_dir().join("dev-tls/ca.pem");
    let ca = std::fs::read_to_string(ca).expect("is there");
    Identity::from_pem(&ca, &issued(world, role, region)).expect("an identity")
}

/// Connects as whoever holds the certificate; our own endpoint would not leave its region.
pub(crate) async fn connect(world: &World, identity: &Identity) -> quinn::Connection {
    let mut endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("an endpoint");
    let client = tls::quic_client(identity).expect("a configuration");
    let client = QuicClientConfig::try_from(client).expect("a configuration of QUIC");
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(client)));
    let address = world.server.quic_address().expect("an address");
    let name = Role::Server.dns_name(&Region::global());
    endpoint
        .connect(address, &name)
        .expect("starts")
        .await
        .expect("the authority is trusted")
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_nodes_of_another_region_are_turned_away_with_the_reason() {
    let world = World::start().await;
    for role in [Role::Server, Role::Node] {
        let connection = connect(&world, &identity(&world, role, "elsewhere")).await;
        let closed = tokio::time::timeout(PATIENCE, connection.closed()).await;
        let closed = closed.expect("it is closed").to_string();
        assert!(
            closed.contains("the certificate is of region elsewhere"),
            "{role}: {closed}"
        );
    }
}
