//! `--dev`: an authority of its own, and `--node`: the node's daemon as a child.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use protocol_model::NodeId;
use protocol_transport::ca::{CertificateAuthority, CertificateRequest, CertifiedPem};
use protocol_transport::{Identity, Region, Role, files};

/// How long development certificates are valid: longer than any development server runs. They never
/// leave their directory.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

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

/// The development certificates below `data_dir`; made the first time, and anew when less than half
/// of their time is left. All of them appear at once, under their own name only when they are
/// whole: what was cut off is made anew.
pub fn certificates(data_dir: &Path, region: &Region) -> anyhow::Result<DevCertificates> {
    certificates_at(data_dir, region, SystemTime::now())
}

fn certificates_at(
    data_dir: &Path,
    region: &Region,
    now: SystemTime,
) -> anyhow::Result<DevCertificates> {
    let directory = data_dir.join("dev-tls");
    let pairs = ["ca", "server", "node"].map(|name| pair(&directory, name));
    let whole = pairs
        .iter()
        .all(|files| files.certificate.exists() && files.key.exists());
    let [ca, server, node] = pairs;
    let made = DevCertificates {
        ca: ca.certificate,
        server,
        node,
    };
    if whole && last(&made, now) {
        return Ok(made);
    }
    let aside = data_dir.join("dev-tls.new");
    for unfinished in [&aside, &directory] {
        match std::fs::remove_dir_all(unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("cannot remove {}", unfinished.display()));
            }
            _ => {}
        }
    }
    tracing::info!(directory = %directory.display(), "making development certificates");
    files::make_private_directory(&aside)
        .with_context(|| format!("cannot make {}", aside.display()))?;
    issue(&aside, region)?;
    std::fs::rename(&aside, &directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(made)
}

/// Whether the certificates can be read, are valid, and have half of their time left at least. They
/// are not looked at again before the next start.
fn last(made: &DevCertificates, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    [&made.server, &made.node].iter().all(|files| {
        let identity = Identity::load(&made.ca, &files.certificate, &files.key);
        let validity = identity.ok().and_then(|it| it.validity().ok());
        validity.is_some_and(|(from, until)| {
            let half = until.saturating_sub(from) / 2;
            from <= now && now + half <= until
        })
    })
}

fn pair(directory: &Path, name: &str) -> CertificateFiles {
    CertificateFiles {
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}-key.pem")),
    }
}

/// Makes an authority and its two certificates in `directory`.
fn issue(directory: &Path, region: &Region) -> anyhow::Result<()> {
    let authority = CertificateAuthority::create("drover development", VALIDITY)
        .context("cannot make the development authority")?;
    for (role, name) in [(Role::Server, "server"), (Role::Node, "node")] {
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
        write(&pair(directory, name), &pem)?;
    }
    write(&pair(directory, "ca"), authority.pem())
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

/// Where the node of `--dev --node` keeps its identity: noded has it in `node` below its own data
/// directory.
pub fn node_identity(data_dir: &Path) -> PathBuf {
    data_dir.join("node").join("node").join("identity")
}

/// The node whose identity is kept in `file`; `None` while it is not written yet.
///
/// # Errors
/// Where the file cannot be read, or holds no identity.
pub fn read_node_identity(file: &Path) -> std::io::Result<Option<NodeId>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    // A header with the version, the id, the secret: a line each.
    let id = match text.lines().collect::<Vec<_>>()[..] {
        ["drover-node-identity 1", id, _secret] => id.parse().ok(),
        _ => None,
    };
    let damaged = || std::io::Error::new(std::io::ErrorKind::InvalidData, "not a node's identity");
    id.map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_the_own_node_is_read_once_it_is_written() {
        let root = tempfile::tempdir().expect("a directory");
        let file = node_identity(root.path());
        assert_eq!(read_node_identity(&file).expect("is not there yet"), None);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("is made");
        let id = NodeId::from_u128(7);
        std::fs::write(&file, format!("drover-node-identity 1\n{id}\n00ff\n")).expect("writes");
        assert_eq!(read_node_identity(&file).expect("is whole"), Some(id));
        for damaged in ["", "drover-node-identity 2\nx\ny\n"] {
            std::fs::write(&file, damaged).expect("writes");
            read_node_identity(&file).expect_err("is no identity");
        }
    }

    fn loads(made: &DevCertificates) -> bool {
        [&made.server, &made.node]
            .iter()
            .all(|files| Identity::load(&made.ca, &files.certificate, &files.key).is_ok())
    }

    #[test]
    fn certificates_are_made_once() {
        let root = tempfile::tempdir().expect("a directory");
        let region = Region::global();
        let made = certificates(root.path(), &region).expect("are made");
        assert!(loads(&made));
        let first = std::fs::read(&made.ca).expect("reads");
        certificates(root.path(), &region).expect("are there");
        assert_eq!(std::fs::read(&made.ca).expect("reads"), first);
    }

    #[test]
    fn certificates_are_made_anew_when_half_of_their_time_is_over() {
        let root = tempfile::tempdir().expect("a directory");
        let region = Region::global();
        let made = certificates(root.path(), &region).expect("are made");
        let first = std::fs::read(&made.ca).expect("reads");
        let day = Duration::from_secs(24 * 3600);
        let still_good = SystemTime::now() + VALIDITY / 2 - day;
        certificates_at(root.path(), &region, still_good).expect("are there");
        assert_eq!(std::fs::read(&made.ca).expect("reads"), first);
        let too_old = still_good + 2 * day;
        certificates_at(root.path(), &region, too_old).expect("are made anew");
        assert_ne!(std::fs::read(&made.ca).expect("reads"), first);
        assert!(loads(&made));
    }

    #[test]
    fn what_was_cut_off_while_it_was_made_is_made_anew() {
        let root = tempfile::tempdir().expect("a directory");
        let region = Region::global();
        let made = certificates(root.path(), &region).expect("are made");
        std::fs::remove_file(&made.ca).expect("removes");
        std::fs::create_dir(root.path().join("dev-tls.new")).expect("is made");
        let again = certificates(root.path(), &region).expect("are made anew");
        assert!(loads(&again));
    }
}
