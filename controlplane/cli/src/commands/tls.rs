//! `drover tls`: a certificate authority, and certificates that say what their holder is.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use protocol_transport::ca::{CertificateAuthority, CertificateRequest, CertifiedPem};
use protocol_transport::{Region, Role, files};

use crate::failure::{Exit, Failure};
use crate::session::Session;

const AUTHORITY: &str = "drover-agent-ca.pem";
const AUTHORITY_KEY: &str = "drover-agent-ca-key.pem";
const DAY_SECONDS: u64 = 24 * 3600;

#[derive(Subcommand, Debug)]
pub(crate) enum TlsCommand {
    /// The authority that all members of a cluster trust
    #[command(subcommand)]
    Ca(CaCommand),
    /// Certificates signed by the authority
    #[command(subcommand)]
    Cert(CertCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum CaCommand {
    /// Make an authority: drover-agent-ca.pem and drover-agent-ca-key.pem in this folder
    Create(CaCreate),
}

#[derive(Args, Debug)]
pub(crate) struct CaCreate {
    /// Days until it ends
    #[arg(long, default_value_t = 1825)]
    days: u64,
    /// The name it is given
    #[arg(long, default_value = "Drover Agent CA")]
    common_name: String,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CertCommand {
    /// Make a certificate: REGION-ROLE-drover.pem and REGION-ROLE-drover-key.pem in this folder
    Create(CertCreate),
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("role").required(true).args(["server", "client", "cli"]))]
pub(crate) struct CertCreate {
    /// For a server
    #[arg(long)]
    server: bool,
    /// For a node
    #[arg(long)]
    client: bool,
    /// For a person or a tool that uses the HTTPS API
    #[arg(long)]
    cli: bool,
    /// Another name that clients reach it by; may be repeated
    #[arg(long, value_name = "NAME")]
    additional_dnsname: Vec<String>,
    /// Another address that clients reach it by; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    additional_ipaddress: Vec<IpAddr>,
    /// Days until it ends
    #[arg(long, default_value_t = 365)]
    days: u64,
    /// The authority's certificate
    #[arg(long, value_name = "FILE", default_value = AUTHORITY)]
    ca: PathBuf,
    /// The authority's key
    #[arg(long, value_name = "FILE", default_value = AUTHORITY_KEY)]
    key: PathBuf,
}

impl TlsCommand {
    pub(crate) fn run(self, session: &Session) -> Result<Exit, Failure> {
        let folder = Path::new("");
        match self {
            Self::Ca(CaCommand::Create(command)) => command.run(session, folder),
            Self::Cert(CertCommand::Create(command)) => {
                let region = match session.region() {
                    Some(name) => Region::parse(&name)?,
                    None => Region::global(),
                };
                command.run(session, folder, &region)
            }
        }
    }
}

impl CaCreate {
    fn run(self, session: &Session, folder: &Path) -> Result<Exit, Failure> {
        let authority = CertificateAuthority::create(&self.common_name, days(self.days))?;
        write_pair(session, folder, AUTHORITY, AUTHORITY_KEY, authority.pem())?;
        Ok(Exit::SUCCESS)
    }
}

impl CertCreate {
    fn run(self, session: &Session, folder: &Path, region: &Region) -> Result<Exit, Failure> {
        let certificate = std::fs::read_to_string(&self.ca).map_err(|source| {
            let path = self.ca.clone();
            Failure::ReadFile { path, source }
        })?;
        let key = files::read_key(&self.key)?;
        let authority = CertificateAuthority::load(CertifiedPem { certificate, key })?;
        // The files are named as Nomad's tool names them; a node is what it calls a client.
        let (role, word) = if self.server {
            (Role::Server, "server")
        } else if self.client {
            (Role::Node, "client")
        } else {
            (Role::Cli, "cli")
        };
        let (mut names, mut addresses) = (self.additional_dnsname, self.additional_ipaddress);
        if role == Role::Server {
            // Whoever logs into a server's host asks it at the loopback address.
            names.push("localhost".to_owned());
            addresses.push(IpAddr::from([127, 0, 0, 1]));
        }
        let request = CertificateRequest {
            common_name: role.dns_name(region),
            validity: days(self.days),
            role,
            names,
            addresses,
            region: region.clone(),
        };
        let pem = authority.issue(&request)?;
        let stem = format!("{region}-{word}-drover");
        let (certificate, key) = (format!("{stem}.pem"), format!("{stem}-key.pem"));
        write_pair(session, folder, &certificate, &key, &pem)?;
        Ok(Exit::SUCCESS)
    }
}

fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(DAY_SECONDS))
}

/// Writes a certificate and its key, and says so. The key goes first: a certificate without its key
/// would be in the way of a second attempt and of no use.
fn write_pair(
    session: &Session,
    folder: &Path,
    certificate: &str,
    key: &str,
    pem: &CertifiedPem,
) -> Result<(), Failure> {
    let certificate_path = folder.join(certificate);
    if certificate_path.exists() {
        let path = certificate_path;
        return Err(files::WriteFileError::Exists { path }.into());
    }
    files::write_key(&folder.join(key), &pem.key)?;
    files::write_certificate(&certificate_path, &pem.certificate)?;
    session.out.data(&format!("{certificate}\n{key}"))
}
