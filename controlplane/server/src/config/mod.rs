//! Configuration: a file as written ([`file::ConfigFile`]), checked and completed into what the
//! server is built from ([`Config`], made in `build`). The running server never sees the raw file.

mod addresses;
pub mod budgets;
mod build;
pub mod file;
mod keks;
mod read;
mod root_keys;
#[cfg(test)]
mod tests;
mod times;

use controlplane_keyring::{KekSource, WrappingKek};
use controlplane_leader::false_positives::expected_false_positives;
use std::borrow::Cow;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol_access::budget;
use protocol_access::method::TokenLifetimes;
use protocol_transport::{Region, Secret};
use tracing::Level;

use self::build::TlsNeed;
use self::file::ConfigFile;
use self::read::{FILE_BYTES_MAX, Mistake, Read};
pub use crate::access::Labels;
pub use controlplane_leader::keys::RootKeyConfig;

/// What a server is built from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's name.
    pub name: String,
    /// The region.
    pub region: Region,
    /// The datacenter that it says it is in.
    pub datacenter: String,
    /// Where the log and the snapshots are.
    pub data_dir: PathBuf,
    /// Where the files of the KEKs are.
    pub kek_dir: PathBuf,
    /// Where further KEKs are.
    pub kek_sources: Vec<KekSource>,
    /// The KEK that wraps root keys.
    pub wrapping_kek: WrappingKek,
    /// The identity file of the node that runs as a child of this server (`--dev --node`); `None`
    /// where there is none. The node writes it when it starts for the first time.
    pub own_node: Option<PathBuf>,
    /// Where QUIC listens.
    pub quic_listen: SocketAddr,
    /// What others reach it at, `host:port`; the listening address unless given.
    pub quic_advertise: Option<String>,
    /// The HTTP API.
    pub http: HttpConfig,
    /// Certificates.
    pub tls: TlsConfig,
    /// The other servers.
    pub retry_join: Vec<String>,
    /// How many servers form the cluster the first time; 0 = join one that exists.
    pub bootstrap_expect: u32,
    /// What a node must show the first time; `None` lets no new node in.
    pub node_join_token: Option<Secret>,
    /// Whether every HTTP call needs a token.
    pub acl_enabled: bool,
    /// How long tokens that expire may be valid.
    pub token_lifetimes: TokenLifetimes,
    /// How long a server without a leader serves client tokens.
    pub acl_stale_max: Duration,
    /// Scheduler threads.
    pub schedulers: usize,
    /// Whether what nodes report shares entries of the log.
    pub merging: Merging,
    /// Liveness of nodes.
    pub liveness: LivenessConfig,
    /// The replicated log's timing.
    pub raft: RaftTiming,
    /// What is kept how long.
    pub gc: GcConfig,
    /// The life of root keys.
    pub root_keys: RootKeyConfig,
    /// The issuer of identities: an URL without a slash at its end; `None` where none is named.
    pub oidc_issuer: Option<String>,
    /// Limits that protect the server.
    pub limits: Limits,
    /// Metrics.
    pub telemetry: TelemetryConfig,
    /// Log lines.
    pub log: LogConfig,
}

/// Whether batches of nodes share entries of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merging {
    /// What waits while an entry is on its way becomes the next one.
    On,
    /// Each batch is an entry of its own: to measure what merging saves.
    Off,
}

/// What `log_level` may be.
pub const LOG_LEVELS: [Level; 5] = [
    Level::TRACE,
    Level::DEBUG,
    Level::INFO,
    Level::WARN,
    Level::ERROR,
];

/// What is written to standard error, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// The least important lines that are written.
    pub level: Level,
    /// Whether each is a JSON object.
    pub json: bool,
}

/// The HTTP API.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What the API reports as its address.
    pub advertise: Option<String>,
    /// Whether it is served over TLS.
    pub tls: HttpTls,
    /// Headers added to every answer.
    pub response_headers: Vec<(String, String)>,
    /// Names under which clients reach the API, besides loopback and the advertised one.
    pub allowed_hosts: Vec<String>,
}

/// Whether and how the HTTP API is served over TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpTls {
    /// Plain HTTP: loopback only.
    Off,
    /// HTTPS.
    On,
    /// HTTPS, and clients must show a certificate of the same authority.
    Mutual,
}

/// Where the certificates come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsConfig {
    /// From files.
    Files {
        /// The authority.
        ca: PathBuf,
        /// This server's certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// `--dev`: an authority of its own, made in the data directory.
    Dev,
}

/// How the silence of nodes is noticed. The time does not depend on how many nodes there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LivenessConfig {
    /// How often a node shows that it is alive, where anything is in doubt.
    pub heartbeat_interval: Duration,
    /// And how often where every answer came in time for a while.
    pub calm_interval: Duration,
    /// How long it may be silent.
    pub silence: Duration,
    /// What a new leader adds once: the time that sessions need to find another server.
    pub takeover_extra: Duration,
}

impl LivenessConfig {
    /// What a person should know of these times, where heartbeats are too rare for bad weather.
    pub fn doubt(self) -> Option<String> {
        let Self {
            heartbeat_interval: interval,
            calm_interval: calm,
            silence,
            takeover_extra: _,
        } = self;
        let expected = expected_false_positives(interval, calm, silence);
        (expected >= 0.01).then(|| {
            format!(
                "server.heartbeat_interval {interval:?} ({calm:?} where nothing is in doubt) is \
                 rare for server.heartbeat_silence {silence:?}: where three of ten packets are \
                 lost and the others late by up to 300 ms, {expected:.2} of 5,000 nodes that live \
                 are taken for silent in ten minutes; a shorter interval or a longer silence makes \
                 it less than 0.01"
            )
        })
    }
}

/// The replicated log's timing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaftTiming {
    /// How often the leader shows that it is alive.
    pub heartbeat: Duration,
    /// The shortest silence after which a follower stands for election; the longest is twice that.
    pub election: Duration,
    /// How many entries make a snapshot.
    pub snapshot_entries: u64,
}

/// What is kept how long after it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcConfig {
    /// Evaluations and their allocations.
    pub evals: Duration,
    /// Jobs.
    pub jobs: Duration,
    /// Nodes.
    pub nodes: Duration,
    /// Deployments.
    pub deployments: Duration,
}

/// Limits that protect the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// HTTP connections at the same time; more wait to be accepted.
    pub http_connections: usize,
    /// Of those, of one client address; further ones are answered 429.
    pub http_connections_per_client: usize,
    /// The largest request body, bytes; a larger one is answered 413.
    pub body_bytes: usize,
    /// Node sessions at the same time; more are told to try elsewhere.
    pub sessions: usize,
    /// How much callers may ask where access control is on.
    pub budgets: budget::Limits,
}

/// Metrics of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TelemetryConfig {
    /// Whether requests are counted by caller.
    pub labels: Labels,
    /// Whether metrics are shown only to callers with `agent` read.
    pub metrics_require_token: bool,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is longer than any configuration.
    #[error("{}: longer than {FILE_BYTES_MAX} bytes: this is no configuration", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what is expected.
    #[error("{place}: {message}")]
    Parse {
        /// The file, and the line where that is known.
        place: String,
        /// What, with the key.
        message: String,
    },
    /// A value makes no sense.
    #[error("{key}: {message}")]
    Value {
        /// The key, as written in the file.
        key: Cow<'static, str>,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When the file cannot be read, is longer than 1 MiB, holds an unknown key, or a value that
    /// makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong {
                path: path.to_owned(),
            });
        }
        let place = |line: Option<usize>| match line {
            Some(line) => format!("{}:{line}", path.display()),
            None => path.display().to_string(),
        };
        let read = Read::parse(&text).map_err(|Mistake { line, message }| ConfigError::Parse {
            place: place(line),
            message,
        })?;
        Self::build(&read.file).map_err(|error| match error {
            ConfigError::Value { key, message } => ConfigError::Parse {
                place: place(read.line(&key)),
                message: format!("{key}: {message}"),
            },
            other => other,
        })
    }

    /// `--dev`: everything embedded, loopback only, state under `data_dir`. A relative `data_dir`
    /// is below the working directory: the node of `--node` gets absolute paths.
    pub fn dev(data_dir: PathBuf) -> Result<Self, ConfigError> {
        let data_dir = std::path::absolute(data_dir).map_err(|error| ConfigError::Value {
            key: "--data-dir".into(),
            message: error.to_string(),
        })?;
        let mut file = ConfigFile {
            data_dir: Some(data_dir),
            ..ConfigFile::default()
        };
        file.server.node_join_token = Some(Secret::new("dev"));
        let mut config = Self::build_with(&file, TlsNeed::Optional)?;
        config.tls = TlsConfig::Dev;
        Ok(config)
    }
}
