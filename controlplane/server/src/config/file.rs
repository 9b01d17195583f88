//! The configuration file as written: HCL, every key known, nothing decided yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol_transport::Secret;
use serde::Deserialize;

use super::budgets::BudgetBlocks;

/// `controlplane --config FILE`. See `docs/configuration.md`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The server's name; the host's name unless given.
    pub name: Option<String>,
    /// The region; `global` unless given. It is part of every certificate's name.
    pub region: Option<String>,
    /// The datacenter that this server says it is in.
    pub datacenter: Option<String>,
    /// Where the log and the snapshots are. Needed.
    pub data_dir: Option<PathBuf>,
    /// The address that QUIC listens on; 127.0.0.1 unless given.
    pub bind_addr: Option<String>,
    /// `trace`, `debug`, `info`, `warn`, `error`; `info` unless given.
    pub log_level: Option<String>,
    /// Write log lines as JSON.
    pub log_json: Option<bool>,
    /// Ports.
    pub ports: PortsBlock,
    /// Addresses that others are told.
    pub advertise: AdvertiseBlock,
    /// What makes it a server of a cluster.
    pub server: ServerBlock,
    /// Certificates. Needed, except with `--dev`.
    pub tls: Option<TlsBlock>,
    /// The HTTP API.
    pub http: HttpBlock,
    /// Access control.
    pub acl: AclBlock,
    /// Where the keys are that wrap the cluster's root keys.
    pub keyring: KeyringBlock,
    /// Limits that protect the server.
    pub limits: LimitsBlock,
    /// Metrics.
    pub telemetry: TelemetryBlock,
}

/// `ports { http = 4646, quic = 4647 }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortsBlock {
    /// TCP, the HTTP API; 4646 unless given.
    pub http: Option<u16>,
    /// UDP, nodes and servers; 4647 unless given.
    pub quic: Option<u16>,
}

/// `advertise { quic = "10.0.0.1:4647" }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvertiseBlock {
    /// `host:port` that nodes and other servers reach this one at.
    pub quic: Option<String>,
    /// `host:port` of the HTTP API, as the API itself reports it.
    pub http: Option<String>,
}

/// `server { ... }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerBlock {
    /// How many servers form the cluster the first time: 1, 3 or 5; 1 unless given.
    pub bootstrap_expect: Option<u32>,
    /// `host:port` of the other servers.
    pub retry_join: Vec<String>,
    /// What a node must show the first time. A node is refused without it.
    pub node_join_token: Option<Secret>,
    /// A file that holds that token.
    pub node_join_token_file: Option<PathBuf>,
    /// Scheduler threads; one per core unless given.
    pub num_schedulers: Option<usize>,
    /// Whether what nodes report shares entries of the log; `true` unless given.
    pub merge_updates: Option<bool>,
    /// How often nodes show that they are alive where anything is in doubt; `125ms` unless given.
    pub heartbeat_interval: Option<String>,
    /// How often they do where nothing is; four times the other unless given, or less where that
    /// is too seldom for `heartbeat_silence`.
    pub heartbeat_calm_interval: Option<String>,
    /// How long a node may be silent; `2600ms` unless given.
    pub heartbeat_silence: Option<String>,
    /// Raft's heartbeat; `100ms` unless given.
    pub raft_heartbeat: Option<String>,
    /// Raft's shortest election timeout; `400ms` unless given, the longest is twice that.
    pub raft_election: Option<String>,
    /// How many log entries make a snapshot; 8192 unless given.
    pub raft_snapshot_entries: Option<u64>,
    /// How long finished evaluations and their allocations are kept; `1h` unless given.
    pub eval_gc_threshold: Option<String>,
    /// How long dead jobs are kept; `4h` unless given.
    pub job_gc_threshold: Option<String>,
    /// How long nodes that are down are kept; `24h` unless given.
    pub node_gc_threshold: Option<String>,
    /// How long finished deployments are kept; `1h` unless given.
    pub deployment_gc_threshold: Option<String>,
    /// How old the active root key becomes; `720h` unless given.
    pub root_key_rotation_threshold: Option<String>,
    /// How often the leader looks at the root keys; `10m` unless given.
    pub root_key_gc_interval: Option<String>,
    /// How long an inactive root key that is not used any more is kept; `1h` unless given.
    pub root_key_gc_threshold: Option<String>,
    /// The URL under which relying parties reach `/.well-known/` of this cluster.
    pub oidc_issuer: Option<String>,
}

/// `tls { ca_file = ..., cert_file = ..., key_file = ..., http = false }`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsBlock {
    /// The authority that signed everyone's certificates.
    pub ca_file: PathBuf,
    /// This server's certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Whether the HTTP API is served over TLS too.
    #[serde(default)]
    pub http: bool,
    /// Whether HTTP clients must show a certificate of the same authority.
    #[serde(default)]
    pub verify_https_client: bool,
}

/// `http { bind_addr = "127.0.0.1" }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpBlock {
    /// The address that the HTTP API listens on; 127.0.0.1 unless given. Any address but a loopback
    /// one needs TLS and access control.
    pub bind_addr: Option<String>,
    /// Headers added to every answer.
    pub response_headers: BTreeMap<String, String>,
    /// Names under which clients reach the API, besides loopback ones and the advertised one: those
    /// of a proxy, for instance. Without access control no other name is served.
    pub allowed_hosts: Vec<String>,
}

/// `acl { enabled = true }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AclBlock {
    /// Whether every call needs a token.
    pub enabled: bool,
    /// The shortest time that a token may be made for.
    pub token_min_expiration_ttl: Option<String>,
    /// The longest.
    pub token_max_expiration_ttl: Option<String>,
    /// How long a server without a leader serves client tokens, with `?stale` for instance.
    pub stale_max: Option<String>,
}

/// `telemetry { metrics_require_token = true }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryBlock {
    /// Whether requests are counted by operation alone, not by caller.
    pub disable_rpc_rate_metrics_labels: bool,
    /// Whether metrics are shown only to callers with `agent` read.
    pub metrics_require_token: bool,
}

/// `keyring "file" { path = "/var/lib/drover/keyring" }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyringBlock {
    /// A directory with a file per key.
    pub file: FileKeyringBlock,
    /// A key that the service manager hands over.
    pub credential: Option<CredentialKeyringBlock>,
    /// A key in the environment of the process.
    pub environment: Option<EnvironmentKeyringBlock>,
}

/// The block of label `credential`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialKeyringBlock {
    /// The name of the systemd credential; `drover-kek` unless given.
    pub name: Option<String>,
    /// Whether it wraps every root key.
    pub active: bool,
}

/// The block of label `environment`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentKeyringBlock {
    /// The variable; `DROVER_KEK` unless given.
    pub variable: Option<String>,
    /// Whether it wraps every root key.
    pub active: bool,
}

/// The block of label `file`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileKeyringBlock {
    /// The directory, absolute; `keyring` below `data_dir` unless given.
    pub path: Option<PathBuf>,
    /// The id of the key in it that wraps every root key.
    pub active_kek: Option<String>,
}

/// `limits { http_max_conns = 1024 }`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsBlock {
    /// HTTP connections at the same time; 4096 unless given.
    pub http_max_conns: Option<usize>,
    /// Of those, of one client address; 256 unless given.
    pub http_max_conns_per_client: Option<usize>,
    /// The largest job file or JSON body, bytes; 8 MiB unless given.
    pub job_max_bytes: Option<usize>,
    /// Node sessions at the same time; 20000 unless given.
    pub sessions_max: Option<usize>,
    /// How much callers may ask where access control is on: `budget "token" { read = 100 }`.
    pub budget: BudgetBlocks,
}
