//! An authority and one certificate per role, in files as an operator would have them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use protocol_transport::ca::{CertificateAuthority, CertificateRequest};
use protocol_transport::{Region, Role, files};

/// Longer than any test, shorter than anybody would use a stray key for.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// The files of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes an authority in `folder` and signs a certificate for servers and one for nodes, for
    /// this host and `others`.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(crate) fn make(folder: &Path, others: &[IpAddr]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let authority = CertificateAuthority::create("drover tests", VALIDITY)
            .context("cannot make an authority")?;
        let made = Self {
            folder: folder.to_owned(),
        };
        files::write_certificate(&folder.join("ca.pem"), &authority.pem().certificate)?;
        for (role, name) in [(Role::Server, "server"), (Role::Node, "node")] {
            let issued = authority.issue(&CertificateRequest {
                role,
                region: Region::global(),
                common_name: name.to_owned(),
                names: vec!["localhost".to_owned()],
                addresses: [&[[127, 0, 0, 1].into()], others].concat(),
                validity: VALIDITY,
            })?;
            files::write_certificate(&folder.join(format!("{name}.pem")), &issued.certificate)?;
            files::write_key(&folder.join(format!("{name}-key.pem")), &issued.key)?;
        }
        Ok(made)
    }

    /// The files of the authority, the certificate and its key, for `server` or `node`.
    pub(crate) fn files(&self, name: &str) -> [PathBuf; 3] {
        let files = [
            "ca.pem".to_owned(),
            format!("{name}.pem"),
            format!("{name}-key.pem"),
        ];
        files.map(|file| self.folder.join(file))
    }

    /// The block `tls` of a configuration file, for `server` or `node`.
    pub(crate) fn block(&self, name: &str) -> String {
        let folder = self.folder.display();
        format!(
            "tls {{\n  ca_file = \"{folder}/ca.pem\"\n  cert_file = \"{folder}/{name}.pem\"\n  \
             key_file = \"{folder}/{name}-key.pem\"\n}}\n"
        )
    }
}
