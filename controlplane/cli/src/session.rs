//! What every command has: the server to ask, where to write, what time it is.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol_client::{Address, Client, Query, TlsFiles, Verify};
use protocol_model::UnixNanos;

use crate::failure::Failure;
use crate::output::{Colour, Output};

const ADDRESS_DEFAULT: &str = "http://127.0.0.1:4646";
/// How long a server is waited for that goes through the whole state of its cluster.
pub(crate) const PATIENCE_WHOLE_STATE: Duration = Duration::from_secs(15 * 60);

/// The flags of every command. What is not given is looked for in the environment: `DROVER_ADDR`,
/// then `NOMAD_ADDR`, and so on.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "General options")]
pub(crate) struct GlobalFlags {
    /// The server's HTTP address; DROVER_ADDR, NOMAD_ADDR
    #[arg(long, global = true, value_name = "ADDR")]
    address: Option<String>,
    /// The region; DROVER_REGION, NOMAD_REGION
    #[arg(long, global = true)]
    region: Option<String>,
    /// The namespace; DROVER_NAMESPACE, NOMAD_NAMESPACE
    #[arg(long, global = true)]
    namespace: Option<String>,
    /// The secret of an access token; DROVER_TOKEN, NOMAD_TOKEN
    #[arg(long, global = true)]
    token: Option<String>,
    /// The authority that signed the server's certificate; DROVER_CACERT, NOMAD_CACERT
    #[arg(long, global = true, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// A folder of such authorities; DROVER_CAPATH, NOMAD_CAPATH
    #[arg(long, global = true, value_name = "FOLDER")]
    ca_path: Option<PathBuf>,
    /// The certificate to present; DROVER_CLIENT_CERT, NOMAD_CLIENT_CERT
    #[arg(long, global = true, value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The key of that certificate; DROVER_CLIENT_KEY, NOMAD_CLIENT_KEY
    #[arg(long, global = true, value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// The name that the server's certificate is for; DROVER_TLS_SERVER_NAME, NOMAD_TLS_SERVER_NAME
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Trust whatever answers, for trying things out; DROVER_SKIP_VERIFY, NOMAD_SKIP_VERIFY
    #[arg(long, global = true)]
    tls_skip_verify: bool,
    /// Colour although stdout is no terminal; DROVER_CLI_FORCE_COLOR, NOMAD_CLI_FORCE_COLOR
    #[arg(long, global = true, conflicts_with = "no_color")]
    force_color: bool,
    /// No colour; also where NO_COLOR is set or stdout is no terminal
    #[arg(long, global = true)]
    no_color: bool,
}

/// A variable of ours, or the one of the same meaning that Nomad's users have set.
fn environment(name: &str) -> Option<String> {
    ["DROVER_", "NOMAD_"]
        .iter()
        .filter_map(|prefix| std::env::var(format!("{prefix}{name}")).ok())
        // Set to nothing means not set: it hides no other.
        .find(|value| !value.is_empty())
}

impl GlobalFlags {
    fn text(flag: Option<&String>, name: &str) -> Option<String> {
        flag.cloned().or_else(|| environment(name))
    }

    fn path(flag: Option<&PathBuf>, name: &str) -> Option<PathBuf> {
        flag.cloned()
            .or_else(|| environment(name).map(PathBuf::from))
    }

    /// Whether colour is wanted.
    pub(crate) fn colour(&self) -> Colour {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || environment("CLI_NO_COLOR").is_some();
        let forced = self.force_color || environment("CLI_FORCE_COLOR").is_some();
        if forced && !self.no_color {
            return Colour::On;
        }
        Colour::choose(self.no_color || refused)
    }

    /// Whether the server has to show who it is. A variable that is no yes or no is a mistake: to
    /// guess either would be wrong for somebody.
    fn verify(&self) -> Result<Verify, Failure> {
        let skip = match environment("SKIP_VERIFY").as_deref() {
            _ if self.tls_skip_verify => true,
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some(other) => {
                return Err(Failure::usage(format!(
                    "DROVER_SKIP_VERIFY or NOMAD_SKIP_VERIFY is neither true nor false: {other:?}"
                )));
            }
        };
        Ok(if skip {
            Verify::Nothing
        } else {
            Verify::Server
        })
    }
}

/// What a command works with.
#[derive(Debug)]
pub(crate) struct Session {
    flags: GlobalFlags,
    /// Where to write.
    pub(crate) out: Output,
}

impl Session {
    /// A session with these flags; nothing is connected yet.
    pub(crate) fn new(flags: GlobalFlags) -> Self {
        let out = Output::new(flags.colour());
        Self { flags, out }
    }

    /// The region that was asked for.
    pub(crate) fn region(&self) -> Option<String> {
        GlobalFlags::text(self.flags.region.as_ref(), "REGION")
    }

    /// The namespace that was asked for.
    pub(crate) fn namespace(&self) -> Option<String> {
        GlobalFlags::text(self.flags.namespace.as_ref(), "NAMESPACE")
    }

    /// The namespace of the flag alone, without the environment's.
    pub(crate) fn namespace_flag(&self) -> Option<&str> {
        self.flags.namespace.as_deref()
    }

    /// A client of the server.
    ///
    /// # Errors
    /// If the address or a certificate file makes no sense.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let flags = &self.flags;
        let address = GlobalFlags::text(flags.address.as_ref(), "ADDR");
        let address: Address = address.as_deref().unwrap_or(ADDRESS_DEFAULT).parse()?;
        let tls = TlsFiles {
            ca: GlobalFlags::path(flags.ca_cert.as_ref(), "CACERT"),
            ca_folder: GlobalFlags::path(flags.ca_path.as_ref(), "CAPATH"),
            cert: GlobalFlags::path(flags.client_cert.as_ref(), "CLIENT_CERT"),
            key: GlobalFlags::path(flags.client_key.as_ref(), "CLIENT_KEY"),
            server_name: GlobalFlags::text(flags.tls_server_name.as_ref(), "TLS_SERVER_NAME"),
            verify: flags.verify()?,
        };
        Ok(Client::new(address, &tls)?
            .with_token(GlobalFlags::text(flags.token.as_ref(), "TOKEN"))
            .with_namespace(self.namespace())
            .with_region(self.region()))
    }

    /// The time and the zone that times are shown in.
    pub(crate) fn clock(&self) -> Clock {
        let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        Clock {
            now: UnixNanos(now),
            zone: TimeZone::system(),
        }
    }
}

/// The time when a command shows something.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Now.
    pub(crate) now: UnixNanos,
    /// The user's time zone.
    pub(crate) zone: TimeZone,
}

/// A query that asks in `namespace`, where there is one.
pub(crate) fn in_namespace(namespace: &str) -> Query {
    Query::new().with_some("namespace", Some(namespace).filter(|name| !name.is_empty()))
}
