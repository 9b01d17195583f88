//! The certificates of a simulated cluster: made once for a process, and valid by the host's clock,
//! which TLS goes by.

use std::sync::OnceLock;
use std::time::Duration;

use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{Identity, Region, Role};

const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// What servers and nodes show.
#[derive(Debug, Clone)]
pub struct Pki {
    pub server: Identity,
    pub node: Identity,
}

/// The certificates of this process.
///
/// # Errors
/// Where none can be made.
pub fn shared() -> anyhow::Result<Pki> {
    static MADE: OnceLock<Pki> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let authority = CertificateAuthority::create("hack-sim-cluster", VALIDITY)?;
    let pki = Pki {
        server: issue(&authority, Role::Server)?,
        node: issue(&authority, Role::Node)?,
    };
    Ok(MADE.get_or_init(|| pki).clone())
}

fn issue(authority: &CertificateAuthority, role: Role) -> anyhow::Result<Identity> {
    let issued = authority.issue(&CertificateRequest {
        role,
        region: Region::global(),
        common_name: role.to_string(),
        names: Vec::new(),
        addresses: Vec::new(),
        validity: VALIDITY,
    })?;
    Ok(Identity::from_pem(&authority.pem().certificate, &issued)?)
}
