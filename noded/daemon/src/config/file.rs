//! The configuration file as written: HCL, every key known, nothing decided yet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol_transport::Secret;
use serde::Deserialize;

use super::artifact::ArtifactBlock;
use super::bridge::NetworkBlock;
use super::task_api::TaskApiBlock;

/// `noded --config FILE`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The node's name; the host's name unless given.
    pub name: Option<String>,
    /// The region; `global` unless given. It is part of the certificate's name.
    pub region: Option<String>,
    /// The datacenter; `dc1` unless given.
    pub datacenter: Option<String>,
    /// The node pool; `default` unless given.
    pub node_pool: Option<String>,
    /// The operator's class of nodes.
    pub node_class: Option<String>,
    /// Where identity, journal and allocations are. Needed; an absolute path.
    pub data_dir: Option<PathBuf>,
    /// keeper's and pump's directory; `/run/drover` unless given. Must be on a tmpfs.
    #[serde(alias = "runtime_dir")]
    pub run_dir: Option<PathBuf>,
    /// `host:port` of servers; the port is 4647 unless given. At least one.
    pub servers: Vec<String>,
    /// What the control plane wants to see from a node that it does not know yet.
    pub join_token: Option<Secret>,
    /// A file that holds that token.
    pub join_token_file: Option<PathBuf>,
    /// Certificates. Needed: every connection is authenticated on both sides.
    pub tls: Option<TlsBlock>,
    /// The operator's own facts, for constraints: `${meta.KEY}`.
    pub meta: BTreeMap<String, String>,
    /// What of the host is not for allocations.
    pub reserved: ReservedBlock,
    /// The lowest port that is handed out on request; 20000 unless given.
    pub min_dynamic_port: Option<u16>,
    /// The highest port that is handed out on request; 32000 unless given.
    pub max_dynamic_port: Option<u16>,
    /// `driver "raw_exec" { enabled = true }`.
    pub driver: BTreeMap<String, DriverBlock>,
    /// Nomad's spelling of the same: `plugin "raw_exec" { config { enabled = true } }`.
    pub plugin: BTreeMap<String, PluginBlock>,
    /// Our part of the cgroup v2 tree, relative to its mount (or an absolute path below it);
    /// `drover` unless given. The unit of keeper names the same one.
    pub cgroup_base: Option<PathBuf>,
    /// The `noded-keeper` program; the one beside `noded` unless given.
    pub keeper_binary: Option<PathBuf>,
    /// The `noded-jail` program; the one beside `noded` unless given.
    pub jail_binary: Option<PathBuf>,
    /// `host_volume "NAME" { path = "/srv/data" }`: directories that jobs may mount by name.
    pub host_volume: BTreeMap<String, HostVolumeBlock>,
    /// `artifact { http_max_size = "100GB" }`: limits of the files that are fetched for tasks.
    pub artifact: ArtifactBlock,
    /// `network { ipv4_subnet = "172.26.64.0/20" }`: the addresses of networks of mode bridge.
    pub network: NetworkBlock,
    /// Nomad's spelling of `ipv4_subnet`.
    pub bridge_network_subnet: Option<String>,
    /// `host_network "NAME" { cidr = "10.0.0.0/8" }`: addresses that jobs may ask for by name.
    pub host_network: BTreeMap<String, HostNetworkBlock>,
    /// Cores that jobs may reserve, as `0-3,8`; all that noded may run on unless given.
    pub reservable_cores: Option<String>,
    /// Host paths that an `exec` task sees, read-only; Nomad's `chroot_env` default unless given.
    pub chroot_paths: Option<Vec<PathBuf>>,
    /// Files and directories that no `exec` task sees, besides the daemons' own.
    pub masked_paths: Vec<PathBuf>,
    /// The soft limit of open files that a task starts with; 1024 unless given.
    pub task_open_files: Option<u64>,
    /// Processes and threads that one task may have; 4096 unless given.
    pub task_pids_max: Option<u32>,
    /// Whether an `exec` task's share of the processors is a ceiling where its job does not say it;
    /// `false` unless given.
    pub task_cpu_hard_limit: Option<bool>,
    /// `ephemeral_disk { enforce = "watch" }`: whether sizes of ephemeral disks are looked at.
    pub ephemeral_disk: EphemeralDiskBlock,
    /// The longest kill timeout that a job may ask for; `30s` unless given.
    pub max_kill_timeout: Option<String>,
    /// How often the host's facts are looked at again; `60s` unless given.
    pub fingerprint_interval: Option<String>,
    /// How often the disk with allocations is measured; `1m` unless given.
    pub gc_interval: Option<String>,
    /// Ended allocations that are kept for their logs; 50 unless given.
    pub gc_max_allocs: Option<usize>,
    /// Percent of the disk in use beyond which ended allocations go; 80 unless given.
    pub gc_disk_usage_threshold: Option<u8>,
    /// Percent of the inodes; 70 unless given.
    pub gc_inode_usage_threshold: Option<u8>,
    /// `task_api { peers = "cgroup" }`: the sockets on which tasks reach the API.
    pub task_api: TaskApiBlock,
    /// `trace`, `debug`, `info`, `warn`, `error`, or several as `info,quinn=warn`; `info` unless
    /// given.
    pub log_level: Option<String>,
    /// Write log lines as JSON.
    pub log_json: Option<bool>,
}

/// `tls { ca_file = ... cert_file = ... key_file = ... }`
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsBlock {
    /// The cluster's CA, PEM.
    pub ca_file: PathBuf,
    /// The node's certificate (`node.<region>.drover`), PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM; readable by its owner only.
    pub key_file: PathBuf,
}

/// `reserved { cpu = 500 memory = 512 disk = 1024 reserved_ports = "22,80" }`
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReservedBlock {
    /// MHz.
    pub cpu: u32,
    /// MiB.
    pub memory: u32,
    /// MiB.
    pub disk: u32,
    /// Ports and ranges: `22,80,8500-8600`.
    pub reserved_ports: String,
}

/// Settings of one driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DriverBlock {
    /// Whether jobs may use it; `true` for `exec` and `false` for every other one unless given.
    pub enabled: Option<bool>,
    /// Users that no task runs as: `0,1000-1999`. `exec` and `raw_exec`.
    pub denied_host_uids: Option<String>,
    /// Groups that no task is in. `exec` and `raw_exec`.
    pub denied_host_gids: Option<String>,
    /// Whether jobs may say `pid_mode = "host"`; `false` unless given. `exec`.
    pub allow_host_pid_mode: Option<bool>,
    /// Whether jobs may say `ipc_mode = "host"`; `false` unless given. `exec`.
    pub allow_host_ipc_mode: Option<bool>,
}

/// Nomad's `plugin` block.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginBlock {
    /// The driver's settings.
    pub config: DriverBlock,
}

/// A directory of the host that jobs may mount.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostVolumeBlock {
    /// The directory, absolute.
    pub path: PathBuf,
    /// Whether tasks may only read it; `false` unless given.
    #[serde(default)]
    pub read_only: bool,
}

/// Sizes of ephemeral disks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EphemeralDiskBlock {
    /// `watch`: one above its size gets an event; `off`: sizes are not measured. `watch` unless
    /// given.
    pub enforce: Option<String>,
}

/// Addresses of the host under a name. At least one of `cidr` and `interface` is given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostNetworkBlock {
    /// The block that the addresses are in; all unless given.
    pub cidr: Option<String>,
    /// The interface that they are on; all unless given.
    pub interface: Option<String>,
    /// Their ports that are not for allocations: `22,80,8500-8600`.
    pub reserved_ports: String,
}

impl ConfigFile {
    /// Reads HCL.
    ///
    /// # Errors
    /// Where the text is no HCL, a value is an expression, a key is unknown or given twice, or a
    /// value has another type.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let body: hcl::Body = hcl::from_str(text).map_err(ParseError::Syntax)?;
        if let Some((place, problem)) = not_plain(&body) {
            return Err(ParseError::Plain { place, problem });
        }
        read(&body).map_err(|source| ParseError::Value {
            place: locate(&body, &source.to_string()),
            source,
        })
    }
}

/// By way of JSON, which is strict about types: read directly, `data_dir = 5` would name the
/// directory `${5}`.
fn read(body: &hcl::Body) -> Result<ConfigFile, serde_json::Error> {
    let values = hcl::from_body(body.clone());
    serde_json::from_value(values.map_err(serde::de::Error::custom)?)
}

/// The first key whose value would have to be evaluated, or that is given twice.
fn not_plain(body: &hcl::Body) -> Option<(String, &'static str)> {
    let mut seen = Vec::new();
    for structure in body {
        let key = key_of(structure);
        if seen.contains(&key) {
            return Some((key, "it is given twice"));
        }
        match structure {
            hcl::Structure::Attribute(attribute) if !is_plain(&attribute.expr) => {
                let problem = "a configuration holds plain values, no expressions";
                return Some((key, problem));
            }
            hcl::Structure::Attribute(_) => {}
            hcl::Structure::Block(block) => {
                if let Some((inner, problem)) = not_plain(&block.body) {
                    return Some((format!("{key}.{inner}"), problem));
                }
            }
        }
        seen.push(key);
    }
    None
}

fn is_plain(value: &hcl::Expression) -> bool {
    match value {
        hcl::Expression::Bool(_) | hcl::Expression::Number(_) | hcl::Expression::String(_) => true,
        hcl::Expression::Array(items) => items.iter().all(is_plain),
        hcl::Expression::Object(entries) => entries.iter().all(|(_, value)| is_plain(value)),
        _ => false,
    }
}

/// Why a text is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is no HCL.
    #[error("it is no HCL")]
    Syntax(#[source] hcl::Error),
    /// A value that is none by itself, or a key that has two.
    #[error("`{place}`: {problem}")]
    Plain {
        /// Which key.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A key or its value.
    #[error("`{place}`")]
    Value {
        /// Which key.
        place: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// The key that an error is about: the one without which the error is another one, or none.
fn locate(body: &hcl::Body, error: &str) -> String {
    for (offset, structure) in body.iter().enumerate() {
        if still_wrong(&without(body, offset), error) {
            continue;
        }
        let hcl::Structure::Block(block) = structure else {
            return key_of(structure);
        };
        let inner = (0..block.body.iter().count()).find(|inner| {
            let mut lesser = block.clone();
            lesser.body = without(&block.body, *inner);
            let mut structures: Vec<hcl::Structure> = body.iter().cloned().collect();
            structures[offset] = hcl::Structure::Block(lesser);
            !still_wrong(&structures.into_iter().collect(), error)
        });
        let inner = inner.and_then(|inner| block.body.iter().nth(inner));
        return match inner {
            Some(inner) => format!("{}.{}", key_of(structure), key_of(inner)),
            None => key_of(structure),
        };
    }
    "the file".to_owned()
}

fn without(body: &hcl::Body, offset: usize) -> hcl::Body {
    let structures = body.iter().cloned().enumerate();
    structures
        .filter(|(other, _)| *other != offset)
        .map(|(_, structure)| structure)
        .collect()
}

fn still_wrong(body: &hcl::Body, error: &str) -> bool {
    read(body).is_err_and(|other| other.to_string() == error)
}

fn key_of(structure: &hcl::Structure) -> String {
    match structure {
        hcl::Structure::Attribute(attribute) => attribute.key.to_string(),
        hcl::Structure::Block(block) => {
            let labels = block
                .labels
                .iter()
                .map(|label| format!(" {:?}", label.as_str()));
            format!(
                "{}{}",
                block.identifier.as_str(),
                labels.collect::<String>()
            )
        }
    }
}
