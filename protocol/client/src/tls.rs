//! Certificates for `https://` addresses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ClientError;

/// The files that an `https://` client uses, as `NOMAD_CACERT` and its siblings name them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsFiles {
    /// The authority that signed the server's certificate. Needed: there are no built-in ones.
    pub ca: Option<PathBuf>,
    /// The client's certificate, where the server asks for one.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must be for, where it is not the host.
    pub server_name: Option<String>,
}

impl TlsFiles {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<rustls::ClientConfig, ClientError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca {
            for certificate in certificates("the CA certificate", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| ClientError::TlsFile {
                        what: "the CA certificate",
                        path: path.clone(),
                        reason: error.to_string(),
                    })?;
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Build {
                path: "tls".to_owned(),
                source: Box::new(error),
            })?
            .with_root_certificates(roots);
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates("the client certificate", cert)?;
        let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| ClientError::TlsFile {
            what: "the client key",
            path: key.clone(),
            reason: error.to_string(),
        })?;
        builder
            .with_client_auth_cert(chain, key_der)
            .map_err(|error| ClientError::TlsFile {
                what: "the client certificate",
                path: cert.clone(),
                reason: error.to_string(),
            })
    }
}

fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let wrong = |reason: String| ClientError::TlsFile {
        what,
        path: path.to_owned(),
        reason,
    };
    let all = CertificateDer::pem_file_iter(path)
        .map_err(|error| wrong(error.to_string()))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    Ok(all)
}
