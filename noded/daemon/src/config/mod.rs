//! `noded --config FILE`: the file as written ([`ConfigFile`]), and what it comes to ([`Config`]).

mod artifact;
mod bridge;
mod drivers;
mod file;
mod networks;
mod ranges;
mod reload;
mod task_api;
mod upkeep;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use noded_keeper::client::Starter;
use noded_keeper::paths::DEFAULT_RUNTIME_DIRECTORY;
use protocol_transport::{Region, Secret};

pub use artifact::{ArtifactBlock, ArtifactSettings};
pub use bridge::{NetworkBlock, NetworkSettings};
pub use drivers::{DENIED_GIDS, DENIED_UIDS, DriverSettings, Drivers, HOST_IPC, HOST_PIDS};
pub use file::{
    ConfigFile, DriverBlock, EphemeralDiskBlock, HostNetworkBlock, HostVolumeBlock, ParseError,
    PluginBlock, ReservedBlock, TlsBlock,
};
pub use networks::HostNetworkFilter;
use networks::host_networks;
pub use ranges::Ranges;
pub use reload::{LiveConfig, Reload, reload};
pub use task_api::{Peers, TaskApiBlock, TaskApiSettings};
pub use upkeep::{DiskWatch, Upkeep};
use values::{
    absolute, cgroup_base, chroot_paths, dynamic_ports, host_name, host_volumes, join_token,
    kill_timeout_max, log_level, masked_paths, own_program, reservable_cores, reserved, servers,
    task_open_files, task_pids_max,
};

/// Where a server on the same host has its configuration, keys and state, as docs/install.md and
/// the units have it.
const SERVER_PATHS: [&str; 2] = ["/etc/drover", "/var/lib/drover/controlplane"];

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node's name; the host's name unless given.
    pub name: String,
    /// The region, which is part of the certificate's name.
    pub region: Region,
    /// The datacenter.
    pub datacenter: String,
    /// The node pool.
    pub node_pool: String,
    /// The operator's class; may be empty.
    pub node_class: String,
    /// Where identity, journal and allocations are.
    pub data_dir: PathBuf,
    /// keeper's and pump's directory, on a tmpfs.
    pub run_dir: PathBuf,
    /// `host:port` of the servers to ask first.
    pub servers: Vec<String>,
    /// What the control plane wants to see from a node that it does not know; none is needed where
    /// it knows this one.
    pub join_token: Option<Secret>,
    /// The file that the token came from.
    pub join_token_file: Option<PathBuf>,
    /// The file that all this came from, where it came from one.
    pub config_file: Option<PathBuf>,
    /// Certificates.
    pub tls: TlsBlock,
    /// The operator's own facts.
    pub meta: BTreeMap<String, String>,
    /// What is not for allocations.
    pub reserved: ReservedBlock,
    /// Lowest port that is handed out on request.
    pub dynamic_port_min: u16,
    /// Highest port that is handed out on request.
    pub dynamic_port_max: u16,
    /// What each driver may do here.
    pub drivers: Drivers,
    /// Our part of the cgroup v2 tree, relative to its mount.
    pub cgroup_base: PathBuf,
    /// The `noded-keeper` program.
    pub keeper_binary: PathBuf,
    /// The `noded-jail` program.
    pub jail_binary: PathBuf,
    /// Who starts it. Not in the file: the unit that starts noded knows.
    pub keeper_starter: Starter,
    /// Limits of the files that are fetched for tasks.
    pub artifact: ArtifactSettings,
    /// Directories that jobs may mount by name.
    pub host_volumes: BTreeMap<String, HostVolumeBlock>,
    /// The addresses of networks of mode bridge.
    pub network: NetworkSettings,
    /// Host networks by name, besides the default one.
    pub host_networks: BTreeMap<String, HostNetworkFilter>,
    /// Cores that jobs may reserve; `None` for all.
    pub reservable_cores: Option<Ranges>,
    /// Host paths that an `exec` task sees.
    pub chroot_paths: Vec<PathBuf>,
    /// Files and directories that no `exec` task sees, besides [`Config::own_paths`].
    pub masked_paths: Vec<PathBuf>,
    /// The soft limit of open files that a task starts with.
    pub task_open_files: u64,
    /// Processes and threads that one task may have.
    pub task_pids_max: u32,
    /// Whether the share of the processors of an `exec` task is a ceiling unless its job says it.
    pub task_cpu_hard_limit: Switch,
    /// The longest kill timeout that a job may ask for.
    pub kill_timeout_max: Duration,
    /// The sockets on which tasks reach the API.
    pub task_api: TaskApiSettings,
    /// When noded looks after itself.
    pub upkeep: Upkeep,
    /// A filter in the words of `tracing`: `info`, `noded_daemon=debug`.
    pub log_level: String,
    /// Whether log lines are JSON.
    pub log_json: Switch,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("reading {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not HCL, has an unknown key, or a value of the wrong type.
    #[error("{} is not a configuration", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: ParseError,
    },
    /// A key that must be there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A value that makes no sense.
    #[error("`{field}`: {problem}")]
    Invalid {
        /// The key.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// The join token's file could not be read.
    #[error("reading the join token in {}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where it cannot be read, or does not make a configuration; the message names the key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let file = ConfigFile::parse(&text).map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::from_file(file)?;
        config.config_file = Some(path.to_owned());
        config.check_shown_paths()?;
        Ok(config)
    }

    /// Checks what a file says and fills in the rest.
    ///
    /// # Errors
    /// Where a key is missing or its value makes no sense.
    pub fn from_file(file: ConfigFile) -> Result<Self, ConfigError> {
        let region = file.region.as_deref().unwrap_or("global");
        let region = Region::parse(region).map_err(|error| invalid("region", error))?;
        let data_dir =
            absolute("data_dir", file.data_dir.clone())?.ok_or(ConfigError::Missing("data_dir"))?;
        let run_dir = absolute("run_dir", file.run_dir.clone())?
            .unwrap_or_else(|| PathBuf::from(DEFAULT_RUNTIME_DIRECTORY));
        let (dynamic_port_min, dynamic_port_max) = dynamic_ports(&file)?;
        let config = Self {
            name: file.name.clone().unwrap_or_else(host_name),
            region,
            datacenter: file.datacenter.clone().unwrap_or_else(|| "dc1".to_owned()),
            node_pool: node_pool(file.node_pool.clone())?,
            node_class: file.node_class.clone().unwrap_or_default(),
            data_dir,
            run_dir,
            servers: servers(&file.servers)?,
            join_token: join_token(&file)?,
            join_token_file: file.join_token_file.clone(),
            config_file: None,
            drivers: Drivers::from_file(&file)?,
            cgroup_base: cgroup_base(file.cgroup_base.as_deref())?,
            keeper_binary: own_program(
                "keeper_binary",
                file.keeper_binary.clone(),
                "noded-keeper",
            )?,
            jail_binary: own_program("jail_binary", file.jail_binary.clone(), "noded-jail")?,
            keeper_starter: Starter::Client,
            task_api: TaskApiSettings::from_block(&file.task_api)?,
            upkeep: Upkeep::from_file(&file)?,
            artifact: ArtifactSettings::from_file(&file.artifact)?,
            host_volumes: host_volumes(file.host_volume)?,
            network: NetworkSettings::from_file(
                &file.network,
                file.bridge_network_subnet.as_deref(),
            )?,
            host_networks: host_networks(file.host_network)?,
            reservable_cores: reservable_cores(file.reservable_cores.as_deref())?,
            chroot_paths: chroot_paths(file.chroot_paths)?,
            masked_paths: masked_paths(file.masked_paths)?,
            task_open_files: task_open_files(file.task_open_files)?,
            task_pids_max: task_pids_max(file.task_pids_max)?,
            task_cpu_hard_limit: file.task_cpu_hard_limit.unwrap_or(false).into(),
            kill_timeout_max: kill_timeout_max(file.max_kill_timeout.as_deref())?,
            tls: file.tls.ok_or(ConfigError::Missing("tls"))?,
            meta: file.meta,
            reserved: reserved(file.reserved)?,
            dynamic_port_min,
            dynamic_port_max,
            log_level: log_level(file.log_level)?,
            log_json: file.log_json.unwrap_or(false).into(),
        };
        config.check_shown_paths()?;
        Ok(config)
    }

    /// The daemons' own files and directories: no `exec` task sees them, or runs as their owner.
    #[must_use]
    pub fn own_paths(&self) -> Vec<PathBuf> {
        // The authority's certificate may be the host's own bundle, which tasks need.
        let TlsBlock {
            ca_file: _,
            cert_file,
            key_file,
        } = &self.tls;
        let named = [Some(cert_file), Some(key_file)];
        let files = [self.join_token_file.as_ref(), self.config_file.as_ref()];
        let directories = [self.alloc_root(), self.node_dir(), self.run_dir.clone()];
        SERVER_PATHS
            .map(PathBuf::from)
            .into_iter()
            .chain(directories)
            .chain(named.into_iter().chain(files).flatten().cloned())
            .collect()
    }

    /// A path that is shown to tasks and lies inside one that is hidden from them is a mistake.
    fn check_shown_paths(&self) -> Result<(), ConfigError> {
        let hidden = [self.own_paths(), self.masked_paths.clone()].concat();
        let volumes = self.host_volumes.iter().map(|(name, volume)| {
            let field = format!("host_volume {name:?}");
            (field, &volume.path)
        });
        let shown = self
            .chroot_paths
            .iter()
            .map(|path| ("chroot_paths".to_owned(), path));
        for (field, path) in volumes.chain(shown) {
            if let Some(hidden) = hidden.iter().find(|hidden| path.starts_with(hidden)) {
                let problem = format!(
                    "{} is inside {}, which no task sees: it is the daemons' own, or in \
                     masked_paths; name another directory",
                    path.display(),
                    hidden.display()
                );
                return Err(invalid(&field, problem));
            }
        }
        Ok(())
    }

    /// The directory that holds one directory per allocation.
    pub fn alloc_root(&self) -> PathBuf {
        self.data_dir.join("alloc")
    }

    /// Where noded keeps its own files.
    pub fn node_dir(&self) -> PathBuf {
        self.data_dir.join("node")
    }
}

/// Servers refuse a node in any other pool.
fn node_pool(named: Option<String>) -> Result<String, ConfigError> {
    let name = named.unwrap_or_else(|| "default".to_owned());
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    if name == "all" {
        return Err(invalid("node_pool", "no node is in the pool \"all\""));
    }
    if name.is_empty() || name.len() > 128 || !name.bytes().all(allowed) {
        let problem = format!("{name:?} is not 1 to 128 letters, digits, hyphens or underscores");
        return Err(invalid("node_pool", problem));
    }
    Ok(name)
}

fn invalid(field: &str, problem: impl std::fmt::Display) -> ConfigError {
    ConfigError::Invalid {
        field: field.to_owned(),
        problem: format!("{problem}"),
    }
}

#[cfg(test)]
mod tests;
