//! Certificates for `https://` addresses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ClientError;
use crate::unverified::Unverified;

/// The files that an `https://` client uses, as `NOMAD_CACERT` and its siblings name them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsFiles {
    /// The authority that signed the server's certificate. Needed, unless `ca_folder` is given or
    /// nothing is verified: there are no built-in ones.
    pub ca: Option<PathBuf>,
    /// A folder of authorities, one file each (`.pem`, `.crt`, `.cer`).
    pub ca_folder: Option<PathBuf>,
    /// The client's certificate, where the server asks for one.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must be for, where it is not the host.
    pub server_name: Option<String>,
    /// Whether the server's certificate is checked.
    pub verify: Verify,
}

/// Whether a server has to show who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// Its certificate must be for its name and chain to a known authority.
    #[default]
    Server,
    /// It may be anybody. For trying things out.
    Nothing,
}

/// Files of a folder of authorities.
const CA_FILES_MAX: usize = 1000;

impl TlsFiles {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<rustls::ClientConfig, ClientError> {
        let mut roots = RootCertStore::empty();
        let mut files: Vec<PathBuf> = self.ca.iter().cloned().collect();
        if let Some(folder) = &self.ca_folder {
            files.extend(authorities(folder)?);
        }
        for path in &files {
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
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Build {
                path: "tls".to_owned(),
                source: Box::new(error),
            })?;
        let builder = match self.verify {
            Verify::Server => builder.with_root_certificates(roots),
            Verify::Nothing => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        };
        let (cert, key) = match (&self.cert, &self.key) {
            (None, None) => return Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => (cert, key),
            (Some(path), None) | (None, Some(path)) => {
                return Err(ClientError::TlsFile {
                    what: "only one of the client's certificate and key:",
                    path: path.clone(),
                    reason: "they belong together, the other one is missing".to_owned(),
                });
            }
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

/// The files of a folder of authorities.
fn authorities(folder: &Path) -> Result<Vec<PathBuf>, ClientError> {
    let wrong = |reason: String| ClientError::TlsFile {
        what: "the folder of CA certificates",
        path: folder.to_owned(),
        reason,
    };
    let is_certificate = |path: &PathBuf| {
        let extension = path.extension().and_then(std::ffi::OsStr::to_str);
        matches!(extension, Some("pem" | "crt" | "cer"))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| wrong(error.to_string()))? {
        files.push(entry.map_err(|error| wrong(error.to_string()))?.path());
        if files.len() > CA_FILES_MAX {
            return Err(wrong(format!("it has more than {CA_FILES_MAX} files")));
        }
    }
    files.retain(is_certificate);
    files.sort();
    if files.is_empty() {
        return Err(wrong(
            "it has no file that ends in .pem, .crt or .cer".to_owned(),
        ));
    }
    Ok(files)
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
