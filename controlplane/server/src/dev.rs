//! `--dev`: an authority of its own, and `--node`: the node's daemon as a child.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use protocol_transport::ca::{CertificateAuthority, CertificateRequest, CertifiedPem};
use protocol_transport::{Region, Role, files};

/// How long development certificates are valid.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// A certificate and its key, on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Everything that `--dev` needs to be made only once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevCertificates {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The server's.
    pub server: CertificateFiles,
    /// The node's.
    pub node: CertificateFiles,
}

/// The development certificates below `data_dir`; made the first time.
pub fn certificates(data_dir: &Path, region: &Region) -> anyhow::Result<DevCertificates> {
    let directory = data_dir.join("dev-tls");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let pair = |name: &str| CertificateFiles {
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}-key.pem")),
    };
    let (ca, server, node) = (pair("ca"), pair("server"), pair("node"));
    let made = DevCertificates {
        ca: ca.certificate.clone(),
        server,
        node,
    };
    if made.node.certificate.exists() {
        return Ok(made);
    }
    let authority = CertificateAuthority::create("drover development", VALIDITY)
        .context("cannot make the development authority")?;
    for (role, files, name) in [
        (Role::Server, &made.server, "server"),
        (Role::Node, &made.node, "node"),
    ] {
        let request = CertificateRequest {
            role,
            region: region.clone(),
            common_name: name.to_owned(),
            names: vec!["localhost".to_owned()],
            addresses: vec![[127, 0, 0, 1].into()],
            validity: VALIDITY,
        };
        let pem = authority
            .issue(&request)
            .context("cannot make a development certificate")?;
        write(files, &pem)?;
    }
    write(&ca, authority.pem())?;
    Ok(made)
}

fn write(files: &CertificateFiles, pem: &CertifiedPem) -> anyhow::Result<()> {
    files::write_key(&files.key, &pem.key).context("cannot write a development key")?;
    files::write_certificate(&files.certificate, &pem.certificate)
        .context("cannot write a development certificate")
}

/// The node's configuration for `--dev --node`.
pub fn node_config(data_dir: &Path, quic: std::net::SocketAddr, made: &DevCertificates) -> String {
    format!(
        r#"# Written by `controlplane --dev --node`.
data_dir    = {data:?}
runtime_dir = {runtime:?}
servers     = [{quic:?}]
join_token  = "dev"

tls {{
  ca_file   = {ca:?}
  cert_file = {cert:?}
  key_file  = {key:?}
}}

driver "raw_exec" {{
  enabled = true
}}
"#,
        data = data_dir.join("node").display().to_string(),
        runtime = data_dir.join("run").display().to_string(),
        quic = quic.to_string(),
        ca = made.ca.display().to_string(),
        cert = made.node.certificate.display().to_string(),
        key = made.node.key.display().to_string(),
    )
}
