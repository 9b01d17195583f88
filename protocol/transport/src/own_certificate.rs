//! Whether what we present is of any use: found out at start and in words of our own, instead of by
//! every peer in turn, which would only hang up.

use std::time::SystemTime;

use rustls::CertificateError;
use rustls_pki_types::UnixTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Identity;
use crate::role::{Region, Role};
use crate::tls::{self, TlsError};

/// Why no peer would accept our certificate.
#[derive(Debug, thiserror::Error)]
pub enum UnfitError {
    #[error("it is the certificate of a {found}, not of a {wanted}")]
    Role { found: Role, wanted: Role },
    #[error("it is for region {found}, not for region {wanted}")]
    Region { found: Region, wanted: Region },
    #[error("it ended on {until}: make another one with `drover tls cert create`")]
    Ended { until: String },
    #[error("it is valid from {from} on only: is this host's clock right?")]
    NotYet { from: String },
    #[error("the authority that is to be trusted did not sign it")]
    Authority,
    #[error("the authority's certificate cannot be used")]
    Trust(#[source] TlsError),
    #[error("no peer would accept it")]
    Other(#[source] rustls::Error),
}

impl Identity {
    /// Checks our certificate as peers do: whose it is, who signed it, and whether it is valid at
    /// `now`.
    ///
    /// # Errors
    /// When peers would refuse it.
    pub fn check(&self, role: Role, region: &Region, now: SystemTime) -> Result<(), UnfitError> {
        let own = self.own();
        if own.role != role {
            return Err(UnfitError::Role {
                found: own.role,
                wanted: role,
            });
        }
        if own.region != *region {
            return Err(UnfitError::Region {
                found: own.region.clone(),
                wanted: region.clone(),
            });
        }
        let since = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let verifier = tls::client_verifier(&self.roots).map_err(UnfitError::Trust)?;
        let (own, above) = (&self.chain[0], &self.chain[1..]);
        // Certificates of every role may be shown as a client's.
        match verifier.verify_client_cert(own, above, UnixTime::since_unix_epoch(since)) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.unfit(error)),
        }
    }

    fn unfit(&self, error: rustls::Error) -> UnfitError {
        let rustls::Error::InvalidCertificate(reason) = &error else {
            return UnfitError::Other(error);
        };
        let times = X509Certificate::from_der(&self.chain[0])
            .map(|(_, certificate)| certificate.validity().clone());
        match (reason, times) {
            (CertificateError::Expired | CertificateError::ExpiredContext { .. }, Ok(times)) => {
                UnfitError::Ended {
                    until: times.not_after.to_string(),
                }
            }
            (
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
                Ok(times),
            ) => UnfitError::NotYet {
                from: times.not_before.to_string(),
            },
            // One authority that is made twice has the same name and another key.
            (CertificateError::UnknownIssuer | CertificateError::BadSignature, _) => {
                UnfitError::Authority
            }
            _ => UnfitError::Other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ca::{CertificateAuthority, CertificateRequest};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn authority() -> CertificateAuthority {
        CertificateAuthority::create("test", 9 * DAY).expect("an authority")
    }

    fn identity(signer: &CertificateAuthority, trusted: &CertificateAuthority) -> Identity {
        let request = CertificateRequest {
            role: Role::Server,
            region: Region::global(),
            common_name: "server".to_owned(),
            names: Vec::new(),
            addresses: Vec::new(),
            validity: DAY,
        };
        let issued = signer.issue(&request).expect("issues");
        Identity::from_pem(&trusted.pem().certificate, &issued).expect("an identity")
    }

    fn refusal(identity: &Identity, role: Role, region: &str, now: SystemTime) -> String {
        let region = Region::parse(region).expect("a region");
        let refused = identity.check(role, &region, now);
        refused.expect_err("no peer accepts it").to_string()
    }

    #[test]
    fn a_certificate_that_no_peer_would_accept_is_refused_with_the_reason() {
        let (ours, another) = (authority(), authority());
        let good = identity(&ours, &ours);
        let now = SystemTime::now();
        let region = Region::global();
        good.check(Role::Server, &region, now)
            .expect("peers accept it");
        assert!(refusal(&good, Role::Node, "global", now).contains("of a server, not of a node"));
        assert!(refusal(&good, Role::Server, "mars", now).contains("global, not for region mars"));
        let late = refusal(&good, Role::Server, "global", now + 2 * DAY);
        assert!(late.contains("it ended on"), "{late}");
        let early = refusal(&good, Role::Server, "global", now - DAY);
        assert!(early.contains("this host's clock"), "{early}");
        let foreign = identity(&another, &ours);
        let foreign = refusal(&foreign, Role::Server, "global", now);
        assert!(foreign.contains("did not sign it"), "{foreign}");
    }
}
