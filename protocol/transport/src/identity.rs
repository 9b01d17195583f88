//! Who we are and who a peer is, as certificates say it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::ca::CertifiedPem;
use crate::files;
use crate::role::{Region, Role};

/// What one process presents to others, and the authority it trusts.
pub struct Identity {
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    own: PeerIdentity,
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("reading {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("reading the private key")]
    ReadKey(#[from] files::ReadKeyError),
    #[error("the {what} is not PEM")]
    Pem {
        what: &'static str,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("the {what} holds no certificate")]
    NoCertificate { what: &'static str },
    #[error("our own certificate names no role")]
    Role(#[source] PeerIdentityError),
    #[error("using {certificate} with {key}, and {authority} as authority")]
    Files {
        certificate: PathBuf,
        key: PathBuf,
        authority: PathBuf,
        #[source]
        source: Box<Self>,
    },
}

impl Identity {
    /// Builds an identity from the authority's certificate and our own pair, all PEM.
    ///
    /// # Errors
    /// When a text is not PEM of the right sort, or our certificate carries no role.
    pub fn from_pem(authority: &str, own: &CertifiedPem) -> Result<Self, IdentityError> {
        let roots = certificates("authority's certificate", authority)?;
        let chain = certificates("certificate", &own.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).map_err(|source| {
            IdentityError::Pem {
                what: "private key",
                source,
            }
        })?;
        let own = PeerIdentity::of_certificate(&chain[0]).map_err(IdentityError::Role)?;
        Ok(Self {
            roots,
            chain,
            key,
            own,
        })
    }

    /// Reads the three PEM files; the key must be readable by its owner only.
    ///
    /// # Errors
    /// As [`Self::from_pem`], and when a file cannot be read.
    pub fn load(authority: &Path, certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|source| IdentityError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let own = CertifiedPem {
            certificate: read(certificate)?,
            key: files::read_key(key)?,
        };
        Self::from_pem(&read(authority)?, &own).map_err(|source| IdentityError::Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            authority: authority.to_owned(),
            source: Box::new(source),
        })
    }

    /// When all of our certificate and its authority's are valid: from and until, since 1970.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn validity(&self) -> Result<(Duration, Duration), PeerIdentityError> {
        let (mut from, mut until) = (0, i64::MAX);
        for der in self.chain.iter().chain(&self.roots) {
            let (_, certificate) = X509Certificate::from_der(der)
                .map_err(|error| PeerIdentityError::Malformed(error.into()))?;
            let validity = certificate.validity();
            from = validity.not_before.timestamp().max(from);
            until = validity.not_after.timestamp().min(until);
        }
        let seconds = |since: i64| Duration::from_secs(u64::try_from(since).unwrap_or(0));
        Ok((seconds(from), seconds(until)))
    }

    /// What peers will read in our certificate.
    pub fn own(&self) -> &PeerIdentity {
        &self.own
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            roots: self.roots.clone(),
            chain: self.chain.clone(),
            key: self.key.clone_key(),
            own: self.own.clone(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

fn certificates(
    what: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| IdentityError::Pem { what, source })?;
    if found.is_empty() {
        Err(IdentityError::NoCertificate { what })
    } else {
        Ok(found)
    }
}

/// What a peer's verified certificate says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    pub role: Role,
    pub region: Region,
    /// The subject's common name: for people and logs, never for decisions.
    pub common_name: String,
    /// SHA-256 of the certificate: tells two holders of the same role apart.
    pub fingerprint: [u8; 32],
}

/// Why a peer cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PeerIdentityError {
    #[error("the peer presented no certificate")]
    NoCertificate,
    #[error("the certificate is malformed")]
    Malformed(#[source] x509_parser::error::X509Error),
    #[error("the certificate carries no name of the form <role>.<region>.drover")]
    NoRole,
    #[error("the certificate carries more than one role name")]
    AmbiguousRole,
}

impl PeerIdentity {
    /// Reads the identity of the peer of an established connection.
    ///
    /// # Errors
    /// When the peer's certificate names no role, or more than one.
    pub fn of_connection(connection: &quinn::Connection) -> Result<Self, PeerIdentityError> {
        let chain = connection
            .peer_identity()
            .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
            .ok_or(PeerIdentityError::NoCertificate)?;
        Self::of_certificate(chain.first().ok_or(PeerIdentityError::NoCertificate)?)
    }

    /// Reads a certificate that the TLS layer has verified already.
    ///
    /// # Errors
    /// When it names no role, or more than one.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self, PeerIdentityError> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| PeerIdentityError::Malformed(error.into()))?;
        let names = parsed
            .subject_alternative_name()
            .map_err(PeerIdentityError::Malformed)?;
        let mut roles = names
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Role::from_dns_name(name),
                _ => None,
            });
        let (role, region) = roles.next().ok_or(PeerIdentityError::NoRole)?;
        if roles.next().is_some() {
            return Err(PeerIdentityError::AmbiguousRole);
        }
        let common_name = parsed.subject().iter_common_name().next();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest.as_ref());
        Ok(Self {
            role,
            region,
            common_name: common_name
                .and_then(|name| name.as_str().ok())
                .unwrap_or_default()
                .to_owned(),
            fingerprint,
        })
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} of region {}",
            self.role, self.common_name, self.region
        )
    }
}
