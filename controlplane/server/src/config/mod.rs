//! Configuration: a file as written ([`file::ConfigFile`]), checked and completed into what the
//! server is built from ([`Config`]). The running server never sees the raw file.

pub mod file;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol_model::duration;
use protocol_transport::{Region, Secret};

use self::file::ConfigFile;

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
    /// Scheduler threads.
    pub schedulers: usize,
    /// Liveness of nodes.
    pub liveness: LivenessConfig,
    /// The replicated log's timing.
    pub raft: RaftTiming,
    /// What is kept how long.
    pub gc: GcConfig,
    /// Limits that protect the server.
    pub limits: Limits,
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
    /// How often a node shows that it is alive.
    pub heartbeat_interval: Duration,
    /// How long it may be silent.
    pub silence: Duration,
    /// What a new leader adds once: the time that sessions need to find another server.
    pub takeover_extra: Duration,
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
    /// The file is not what is expected.
    #[error("{}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// A value makes no sense.
    #[error("{key}: {message}")]
    Value {
        /// The key, as written in the file.
        key: &'static str,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When the file cannot be read, holds an unknown key, or a value that makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let file: ConfigFile = hcl::from_str(&text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        Self::build(&file)
    }

    /// `--dev`: everything embedded, loopback only, state under `data_dir`.
    pub fn dev(data_dir: PathBuf) -> Result<Self, ConfigError> {
        let mut file = ConfigFile {
            data_dir: Some(data_dir),
            ..ConfigFile::default()
        };
        file.server.node_join_token = Some(Secret::new("dev"));
        let mut config = Self::build_with(&file, TlsNeed::Optional)?;
        config.tls = TlsConfig::Dev;
        Ok(config)
    }

    /// Checks and completes a file.
    ///
    /// # Errors
    /// When a value is missing or makes no sense.
    pub fn build(file: &ConfigFile) -> Result<Self, ConfigError> {
        Self::build_with(file, TlsNeed::Required)
    }

    fn build_with(file: &ConfigFile, need: TlsNeed) -> Result<Self, ConfigError> {
        let region = Region::parse(file.region.as_deref().unwrap_or("global"))
            .map_err(|error| value("region", error.to_string()))?;
        let data_dir = file.data_dir.clone().ok_or_else(|| {
            value(
                "data_dir",
                "missing: name the directory that holds this server's state",
            )
        })?;
        let quic_ip = ip("bind_addr", file.bind_addr.as_deref())?;
        let tls = match (&file.tls, need) {
            (Some(tls), _) => TlsConfig::Files {
                ca: tls.ca_file.clone(),
                cert: tls.cert_file.clone(),
                key: tls.key_file.clone(),
            },
            (None, TlsNeed::Optional) => TlsConfig::Dev,
            (None, TlsNeed::Required) => {
                let hint = "missing: make certificates with `drover tls ca create` and \
                            `drover tls cert create -server`, and name them here";
                return Err(value("tls", hint));
            }
        };
        // A server that names others and no number joins them: their cluster exists.
        let joins = file.server.bootstrap_expect.is_none() && !file.server.retry_join.is_empty();
        let expect = file
            .server
            .bootstrap_expect
            .unwrap_or(if joins { 0 } else { 1 });
        if !joins && !matches!(expect, 1 | 3 | 5) {
            return Err(value("server.bootstrap_expect", "expected 1, 3 or 5"));
        }
        if expect == 1 && !file.server.retry_join.is_empty() {
            let message = "1 forms a cluster alone, but others are named in retry_join: leave \
                           bootstrap_expect out to join them";
            return Err(value("server.bootstrap_expect", message));
        }
        if expect > 1 && file.server.retry_join.is_empty() {
            let message = "missing: name the other servers, or bootstrap_expect is never reached";
            return Err(value("server.retry_join", message));
        }
        let liveness = liveness(file)?;
        Ok(Self {
            name: file.name.clone().unwrap_or_else(host_name),
            region,
            datacenter: file.datacenter.clone().unwrap_or_else(|| "dc1".to_owned()),
            data_dir,
            quic_listen: SocketAddr::new(quic_ip, file.ports.quic.unwrap_or(4647)),
            quic_advertise: file.advertise.quic.clone(),
            http: http(file)?,
            tls,
            retry_join: file.server.retry_join.clone(),
            bootstrap_expect: expect,
            node_join_token: join_token(file)?,
            acl_enabled: file.acl.enabled,
            schedulers: file
                .server
                .num_schedulers
                .unwrap_or_else(cores)
                .clamp(1, 64),
            liveness,
            raft: raft(file)?,
            gc: gc(file)?,
            limits: limits(file),
        })
    }
}

fn limits(file: &ConfigFile) -> Limits {
    let given = &file.limits;
    Limits {
        http_connections: given.http_max_conns.unwrap_or(4096).max(1),
        http_connections_per_client: given.http_max_conns_per_client.unwrap_or(256).max(1),
        body_bytes: given.job_max_bytes.unwrap_or(8 << 20).max(1024),
        sessions: given.sessions_max.unwrap_or(20_000).max(1),
    }
}

#[derive(Clone, Copy)]
enum TlsNeed {
    Required,
    Optional,
}

fn http(file: &ConfigFile) -> Result<HttpConfig, ConfigError> {
    let address = ip("http.bind_addr", file.http.bind_addr.as_deref())?;
    let tls = match &file.tls {
        Some(tls) if tls.http && tls.verify_https_client => HttpTls::Mutual,
        Some(tls) if tls.http => HttpTls::On,
        _ => HttpTls::Off,
    };
    // Whoever reaches the API may run anything as root on every node: another address than loopback
    // is served only encrypted and to those who hold a token.
    if !address.is_loopback() && (tls == HttpTls::Off || !file.acl.enabled) {
        let message = format!(
            "{address} is not a loopback address: set `tls {{ http = true }}` and \
             `acl {{ enabled = true }}`, then make the first token with `drover acl bootstrap`"
        );
        return Err(value("http.bind_addr", message));
    }
    Ok(HttpConfig {
        listen: SocketAddr::new(address, file.ports.http.unwrap_or(4646)),
        advertise: file.advertise.http.clone(),
        tls,
        response_headers: file.http.response_headers.clone().into_iter().collect(),
        allowed_hosts: file.http.allowed_hosts.clone(),
    })
}

fn liveness(file: &ConfigFile) -> Result<LivenessConfig, ConfigError> {
    let interval = time(
        "server.heartbeat_interval",
        file.server.heartbeat_interval.as_deref(),
        Duration::from_millis(125),
    )?;
    let silence = time(
        "server.heartbeat_silence",
        file.server.heartbeat_silence.as_deref(),
        Duration::from_millis(2600),
    )?;
    if silence < interval * 4 {
        let message = format!("{silence:?} is less than four heartbeat intervals of {interval:?}");
        return Err(value("server.heartbeat_silence", message));
    }
    Ok(LivenessConfig {
        heartbeat_interval: interval,
        silence,
        takeover_extra: Duration::from_millis(1500),
    })
}

fn raft(file: &ConfigFile) -> Result<RaftTiming, ConfigError> {
    let heartbeat = time(
        "server.raft_heartbeat",
        file.server.raft_heartbeat.as_deref(),
        Duration::from_millis(100),
    )?;
    let election = time(
        "server.raft_election",
        file.server.raft_election.as_deref(),
        Duration::from_millis(400),
    )?;
    if election < heartbeat * 3 {
        let message = format!("{election:?} is less than three heartbeats of {heartbeat:?}");
        return Err(value("server.raft_election", message));
    }
    let snapshot_entries = file.server.raft_snapshot_entries.unwrap_or(8192).max(64);
    Ok(RaftTiming {
        heartbeat,
        election,
        snapshot_entries,
    })
}

fn gc(file: &ConfigFile) -> Result<GcConfig, ConfigError> {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = &file.server;
    Ok(GcConfig {
        evals: time(
            "server.eval_gc_threshold",
            server.eval_gc_threshold.as_deref(),
            HOUR,
        )?,
        jobs: time(
            "server.job_gc_threshold",
            server.job_gc_threshold.as_deref(),
            4 * HOUR,
        )?,
        nodes: time(
            "server.node_gc_threshold",
            server.node_gc_threshold.as_deref(),
            24 * HOUR,
        )?,
        deployments: time(
            "server.deployment_gc_threshold",
            server.deployment_gc_threshold.as_deref(),
            HOUR,
        )?,
    })
}

fn join_token(file: &ConfigFile) -> Result<Option<Secret>, ConfigError> {
    let key = "server.node_join_token_file";
    match (
        &file.server.node_join_token,
        &file.server.node_join_token_file,
    ) {
        (Some(_), Some(_)) => Err(value(key, "the token is given twice; keep the file")),
        // Every node that shows no token shows this one.
        (Some(token), None) if token.reveal().trim().is_empty() => Err(value(
            "server.node_join_token",
            "empty: it would let every node in; leave it out to let no new node in",
        )),
        (Some(token), None) => Ok(Some(token.clone())),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| value(key, format!("{}: {error}", path.display())))?;
            let token = text.trim().to_owned();
            if token.is_empty() {
                return Err(value(key, format!("{} is empty", path.display())));
            }
            Ok(Some(Secret::new(token)))
        }
    }
}

fn ip(key: &'static str, text: Option<&str>) -> Result<IpAddr, ConfigError> {
    match text {
        None => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(text) => text
            .parse()
            .map_err(|_| value(key, format!("{text:?} is no IP address"))),
    }
}

fn time(key: &'static str, text: Option<&str>, default: Duration) -> Result<Duration, ConfigError> {
    match text {
        None => Ok(default),
        Some(text) => duration::parse_go(text).map_err(|error| value(key, error.to_string())),
    }
}

fn value(key: &'static str, message: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key,
        message: message.into(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "server".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(text: &str) -> Result<Config, String> {
        let file: ConfigFile = hcl::from_str(text).map_err(|error| error.to_string())?;
        Config::build(&file).map_err(|error| error.to_string())
    }

    const TLS: &str = r#"
        tls {
          ca_file   = "/ca.pem"
          cert_file = "/cert.pem"
          key_file  = "/key.pem"
          http      = true
        }
    "#;

    #[test]
    fn a_small_file_is_completed_with_defaults() -> Result<(), String> {
        let config = build(&format!("data_dir = \"/d\"\n{TLS}"))?;
        assert_eq!(config.quic_listen.to_string(), "127.0.0.1:4647");
        assert_eq!(config.http.listen.to_string(), "127.0.0.1:4646");
        assert_eq!(config.bootstrap_expect, 1);
        assert_eq!(config.liveness.silence, Duration::from_millis(2600));
        Ok(())
    }

    #[test]
    fn the_file_that_the_documentation_shows_is_one() {
        let page = include_str!("../../../../docs/configuration.md");
        let shown = page
            .split("```hcl")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let file: ConfigFile = hcl::from_str(shown.expect("a file")).expect("it reads");
        assert_eq!((file.ports.http, file.ports.quic), (Some(4646), Some(4647)));
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = build("data_dirr = \"/d\"").expect_err("refused");
        assert!(error.contains("data_dirr"), "{error}");
    }

    #[test]
    fn an_open_http_address_needs_tls_and_tokens() {
        let open = "data_dir = \"/d\"\nhttp { bind_addr = \"0.0.0.0\" }\n";
        let error = build(&format!("{open}{TLS}")).expect_err("refused without acl");
        assert!(error.contains("http.bind_addr"), "{error}");
        build(&format!("{open}{TLS}\nacl {{ enabled = true }}")).expect("with both it is served");
    }

    #[test]
    fn an_empty_join_token_is_refused() {
        for token in ["", "  "] {
            let with =
                format!("data_dir = \"/d\"\nserver {{ node_join_token = {token:?} }}\n{TLS}");
            let error = build(&with).expect_err("refused");
            assert!(error.contains("server.node_join_token"), "{error}");
        }
    }

    #[test]
    fn a_configuration_that_is_printed_shows_no_token() {
        let text = format!("data_dir = \"/d\"\nserver {{ node_join_token = \"hush\" }}\n{TLS}");
        let file: ConfigFile = hcl::from_str(&text).expect("reads");
        assert!(!format!("{file:?}").contains("hush"));
        let config = Config::build(&file).expect("is valid");
        assert!(!format!("{config:?}").contains("hush"));
        let token = config.node_join_token.expect("a token");
        assert_eq!(token.reveal(), "hush");
    }

    #[test]
    fn a_cluster_of_three_names_its_peers() {
        let three = format!("data_dir = \"/d\"\nserver {{ bootstrap_expect = 3 }}\n{TLS}");
        assert!(build(&three).expect_err("refused").contains("retry_join"));
    }
}
