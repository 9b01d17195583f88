//! The cluster's certificate authority: made once by `drover tls` or by a server in `--dev`,
//! then used to issue one certificate per server, node and operator.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

use crate::role::{Region, Role};

/// Certificates are valid from a little before they are made, because hosts' clocks differ.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// The longest accepted validity. It keeps `notAfter` far from the year 9999, the last that
/// X.509 can spell (RFC 5280 section 4.1.2.5).
pub const VALIDITY_MAX: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// How many names and addresses one certificate may list besides its role name.
const ALTERNATIVE_NAMES_MAX: usize = 64;

/// A certificate and its private key, both PEM. The key must be written with
/// [`crate::files::write_key`].
#[derive(Clone)]
pub struct CertifiedPem {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for CertifiedPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertifiedPem")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// What a certificate shall say.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    pub role: Role,
    pub region: Region,
    /// The subject's common name, for people: a host name, or an operator's name.
    pub common_name: String,
    /// DNS names under which HTTPS clients reach the holder; none in the zone `drover`.
    pub names: Vec<String>,
    /// Addresses under which HTTPS clients reach the holder.
    pub addresses: Vec<IpAddr>,
    /// How long the certificate is valid from now, at most [`VALIDITY_MAX`].
    pub validity: Duration,
}

/// Why a certificate was not made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("validity of {0:?} is not between one second and thirty years")]
    Validity(Duration),
    #[error("alternative name {0:?} lies in the zone reserved for roles")]
    ReservedName(String),
    #[error("alternative name {name:?} is not a DNS name")]
    Name {
        name: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("{0} alternative names are more than 64")]
    TooManyNames(usize),
    #[error("the system clock is before 1970")]
    Clock,
    #[error("generating a key")]
    Key(#[source] rcgen::Error),
    #[error("signing the certificate of {subject:?}")]
    Sign {
        subject: String,
        #[source]
        source: rcgen::Error,
    },
}

/// Why a stored authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("reading the authority's private key")]
    Key(#[source] rcgen::Error),
    #[error("reading the authority's certificate")]
    Certificate(#[source] rcgen::Error),
}

/// The holder of the cluster's root key.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: CertifiedPem,
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAuthority")
            .finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    /// Makes a new root key and its self-signed certificate (ECDSA P-256, path length 0).
    ///
    /// # Errors
    /// When `validity` is out of range, or the crypto library fails.
    pub fn create(common_name: &str, validity: Duration) -> Result<Self, IssueError> {
        let mut params = base_params(common_name, validity)?;
        // Path length 0: what it signs may not sign further.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(IssueError::Key)?;
        let certificate = params
            .self_signed(&key)
            .map_err(|source| IssueError::Sign {
                subject: common_name.to_owned(),
                source,
            })?;
        let pem = CertifiedPem {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
        })
    }

    /// Reads an authority back from the two PEM texts that [`Self::pem`] gave.
    ///
    /// # Errors
    /// When either text is not what it should be.
    pub fn load(pem: CertifiedPem) -> Result<Self, LoadError> {
        let key = KeyPair::from_pem(&pem.key).map_err(LoadError::Key)?;
        let issuer =
            Issuer::from_ca_cert_pem(&pem.certificate, key).map_err(LoadError::Certificate)?;
        Ok(Self { issuer, pem })
    }

    /// Issues a certificate with a fresh key.
    ///
    /// Servers may present it to clients and to servers; nodes and operators only as clients,
    /// so a stolen node key cannot impersonate a server.
    ///
    /// # Errors
    /// When the request is out of bounds or names something reserved.
    pub fn issue(&self, request: &CertificateRequest) -> Result<CertifiedPem, IssueError> {
        let mut params = base_params(&request.common_name, request.validity)?;
        params.subject_alt_names = alternative_names(request)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match request.role {
            Role::Server => {
                vec![
                    ExtendedKeyUsagePurpose::ServerAuth,
                    ExtendedKeyUsagePurpose::ClientAuth,
                ]
            }
            Role::Node | Role::Cli => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(IssueError::Key)?;
        let certificate =
            params
                .signed_by(&key, &self.issuer)
                .map_err(|source| IssueError::Sign {
                    subject: request.common_name.clone(),
                    source,
                })?;
        Ok(CertifiedPem {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The authority's own certificate and key.
    pub fn pem(&self) -> &CertifiedPem {
        &self.pem
    }
}

fn base_params(common_name: &str, validity: Duration) -> Result<CertificateParams, IssueError> {
    if validity < Duration::from_secs(1) || validity > VALIDITY_MAX {
        return Err(IssueError::Validity(validity));
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| IssueError::Clock)?;
    let mut params = CertificateParams::default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + (now + validity);
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
        .distinguished_name
        .push(DnType::OrganizationName, "drover");
    Ok(params)
}

fn alternative_names(request: &CertificateRequest) -> Result<Vec<SanType>, IssueError> {
    let count = request.names.len() + request.addresses.len();
    if count > ALTERNATIVE_NAMES_MAX {
        return Err(IssueError::TooManyNames(count));
    }
    let role_name = request.role.dns_name(&request.region);
    let mut names = Vec::with_capacity(count + 1);
    for name in std::iter::once(&role_name).chain(&request.names) {
        if *name != role_name && Role::is_reserved_name(name) {
            return Err(IssueError::ReservedName(name.clone()));
        }
        let dns = name
            .as_str()
            .try_into()
            .map_err(|source| IssueError::Name {
                name: name.clone(),
                source,
            })?;
        names.push(SanType::DnsName(dns));
    }
    names.extend(request.addresses.iter().copied().map(SanType::IpAddress));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn request(role: Role) -> CertificateRequest {
        CertificateRequest {
            role,
            region: Region::global(),
            common_name: "host-1".into(),
            names: vec!["localhost".into()],
            addresses: vec![[127, 0, 0, 1].into()],
            validity: DAY,
        }
    }

    #[test]
    fn a_name_in_the_role_zone_is_refused() {
        let authority = CertificateAuthority::create("test", DAY).expect("an authority");
        let mut wanted = request(Role::Node);
        wanted.names.push("server.global.drover".into());
        let error = authority.issue(&wanted).expect_err("must refuse");
        assert!(matches!(error, IssueError::ReservedName(_)), "{error:?}");
    }

    #[test]
    fn a_validity_out_of_range_is_refused() {
        for validity in [Duration::ZERO, VALIDITY_MAX + DAY] {
            let error = CertificateAuthority::create("test", validity).expect_err("must refuse");
            assert!(matches!(error, IssueError::Validity(_)), "{error:?}");
        }
    }

    #[test]
    fn an_authority_read_back_issues_certificates_that_chain_to_it() {
        let created = CertificateAuthority::create("test", DAY).expect("an authority");
        let loaded = CertificateAuthority::load(created.pem().clone()).expect("loads");
        let issued = loaded.issue(&request(Role::Server)).expect("issues");
        let identity =
            crate::Identity::from_pem(&created.pem().certificate, &issued).expect("an identity");
        crate::tls::quic_server(&identity).expect("a usable configuration");
    }
}
