//! Connections, streams and the pool over real sockets on the loopback address.

mod connections;
mod door;
mod early;
mod https;
mod streams;

use std::time::Duration;

use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Region, Role};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn authority() -> CertificateAuthority {
    CertificateAuthority::create("test", DAY).expect("an authority")
}

fn identity(authority: &CertificateAuthority, role: Role, region: &str) -> Identity {
    let request = CertificateRequest {
        role,
        region: Region::parse(region).expect("a region"),
        common_name: format!("{role}-1"),
        names: vec!["localhost".to_owned()],
        addresses: Vec::new(),
        validity: DAY,
    };
    let issued = authority.issue(&request).expect("issues");
    Identity::from_pem(&authority.pem().certificate, &issued).expect("an identity")
}

fn endpoint(identity: Identity) -> Endpoint {
    Endpoint::bind(&EndpointConfig::loopback(identity)).expect("binds")
}
