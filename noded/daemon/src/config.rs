//! `noded --config FILE`: the file as written ([`ConfigFile`]), and what it comes to ([`Config`]).

mod file;
mod reload;
mod upkeep;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isolation::cgroup::find_mount;
use noded_keeper::client::Starter;
use noded_keeper::paths::DEFAULT_RUNTIME_DIRECTORY;
use protocol_transport::{Region, Secret};

pub use file::{
    ConfigFile, DriverBlock, HostVolumeBlock, ParseError, PluginBlock, ReservedBlock, TlsBlock,
};
pub use reload::{LiveConfig, Reload, reload};
pub use upkeep::Upkeep;

/// The port that servers listen on for nodes unless an address says otherwise.
const SERVER_PORT_DEFAULT: u16 = 4647;
/// Nomad's default range of ports that are handed out on request.
const DYNAMIC_PORT_MIN: u16 = 20_000;
const DYNAMIC_PORT_MAX: u16 = 32_000;
/// A token is a few dozen characters; a file beyond this is another file.
const TOKEN_BYTES_MAX: u64 = 4096;
/// More servers than any cluster has.
const SERVERS_MAX: usize = 64;

/// Processes and threads of one task, so that one which forks without end exhausts itself and not
/// its host. Servers with a thread per connection stay below it; a host has room for several such
/// tasks.
const TASK_PIDS_MAX: u32 = 4096;
/// Less than a shell script needs would only be a mistake.
const TASK_PIDS_LOWEST: u32 = 16;
/// As many as the kernel can number (PID_MAX_LIMIT): as good as no limit.
const TASK_PIDS_HIGHEST: u32 = 4 * 1024 * 1024;

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
    /// Whether `raw_exec` may run: tasks as root, without isolation.
    pub raw_exec: Switch,
    /// Whether `mock_driver` exists, for tests of clusters.
    pub mock_driver: Switch,
    /// Our part of the cgroup v2 tree, relative to its mount.
    pub cgroup_base: PathBuf,
    /// The `noded-keeper` program.
    pub keeper_binary: PathBuf,
    /// Who starts it. Not in the file: the unit that starts noded knows.
    pub keeper_starter: Starter,
    /// Directories that jobs may mount by name.
    pub host_volumes: BTreeMap<String, HostVolumeBlock>,
    /// Host paths that an `exec` task sees.
    pub chroot_paths: Vec<PathBuf>,
    /// Processes and threads that one task may have.
    pub task_pids_max: u32,
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
        Self::from_file(file)
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
        Ok(Self {
            name: file.name.clone().unwrap_or_else(host_name),
            region,
            datacenter: file.datacenter.clone().unwrap_or_else(|| "dc1".to_owned()),
            node_pool: file
                .node_pool
                .clone()
                .unwrap_or_else(|| "default".to_owned()),
            node_class: file.node_class.clone().unwrap_or_default(),
            data_dir,
            run_dir,
            servers: servers(&file.servers)?,
            join_token: join_token(&file)?,
            raw_exec: driver(&file, "raw_exec")?,
            mock_driver: driver(&file, "mock_driver")?,
            cgroup_base: cgroup_base(file.cgroup_base.as_deref())?,
            keeper_binary: keeper_binary(file.keeper_binary.clone())?,
            keeper_starter: Starter::Client,
            upkeep: Upkeep::from_file(&file)?,
            host_volumes: host_volumes(file.host_volume)?,
            chroot_paths: chroot_paths(file.chroot_paths)?,
            task_pids_max: task_pids_max(file.task_pids_max)?,
            tls: file.tls.ok_or(ConfigError::Missing("tls"))?,
            meta: file.meta,
            reserved: file.reserved,
            dynamic_port_min,
            dynamic_port_max,
            log_level: file.log_level.unwrap_or_else(|| "info".to_owned()),
            log_json: file.log_json.unwrap_or(false).into(),
        })
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

fn invalid(field: &str, problem: impl std::fmt::Display) -> ConfigError {
    ConfigError::Invalid {
        field: field.to_owned(),
        problem: format!("{problem}"),
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn absolute(field: &str, path: Option<PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    match path {
        Some(path) if !path.is_absolute() => {
            Err(invalid(field, format!("{path:?} is not an absolute path")))
        }
        path => Ok(path),
    }
}

fn dynamic_ports(file: &ConfigFile) -> Result<(u16, u16), ConfigError> {
    let min = file.min_dynamic_port.unwrap_or(DYNAMIC_PORT_MIN);
    let max = file.max_dynamic_port.unwrap_or(DYNAMIC_PORT_MAX);
    if min == 0 || min > max {
        let problem = format!("{min} to {max} is no range of ports");
        return Err(invalid("min_dynamic_port", problem));
    }
    Ok((min, max))
}

fn servers(given: &[String]) -> Result<Vec<String>, ConfigError> {
    if given.is_empty() {
        return Err(ConfigError::Missing("servers"));
    }
    if given.len() > SERVERS_MAX {
        return Err(invalid(
            "servers",
            format!("more than {SERVERS_MAX} addresses"),
        ));
    }
    given.iter().map(|address| with_port(address)).collect()
}

/// `host`, `host:port`, `[v6]:port`; the port may be left out.
fn with_port(address: &str) -> Result<String, ConfigError> {
    let port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let wrong = || invalid("servers", format!("{address:?} is not host:port"));
    if address.is_empty() {
        return Err(wrong());
    }
    if address.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(format!("[{address}]:{SERVER_PORT_DEFAULT}"));
    }
    match address.rsplit_once(':') {
        None => Ok(format!("{address}:{SERVER_PORT_DEFAULT}")),
        Some((host, text)) if !host.is_empty() && port(text) => Ok(address.to_owned()),
        Some(_) => Err(wrong()),
    }
}

fn join_token(file: &ConfigFile) -> Result<Option<Secret>, ConfigError> {
    match (&file.join_token, &file.join_token_file) {
        (Some(_), Some(_)) => Err(invalid(
            "join_token",
            "give either this or `join_token_file`, not both",
        )),
        (Some(token), None) => Ok(Some(token.clone())),
        (None, Some(path)) => {
            let failed = |source| ConfigError::Token {
                path: path.clone(),
                source,
            };
            let length = std::fs::metadata(path).map_err(failed)?.len();
            if length > TOKEN_BYTES_MAX {
                return Err(invalid(
                    "join_token_file",
                    "the file is too large for a token",
                ));
            }
            let text = std::fs::read_to_string(path).map_err(failed)?;
            Ok(Some(Secret::new(text.trim())))
        }
        (None, None) => Ok(None),
    }
}

/// `driver "NAME" { enabled }`, or Nomad's `plugin "NAME" { config { enabled } }`.
fn driver(file: &ConfigFile, name: &str) -> Result<Switch, ConfigError> {
    let blocks = file.driver.keys().map(|key| ("driver", key));
    let plugins = file.plugin.keys().map(|key| ("plugin", key));
    for (block, key) in blocks.chain(plugins) {
        if !["exec", "raw_exec", "mock_driver"].contains(&key.as_str()) {
            let field = format!("{block} {key:?}");
            return Err(invalid(&field, "there is no such driver"));
        }
    }
    let ours = file.driver.get(name).map(|block| block.enabled);
    let theirs = file.plugin.get(name).map(|block| block.config.enabled);
    if name != "exec" && ours.is_some() && theirs.is_some() {
        let field = format!("driver {name:?}");
        return Err(invalid(
            &field,
            "it is also in a `plugin` block; keep one of them",
        ));
    }
    Ok(ours.or(theirs).flatten().unwrap_or(false).into())
}

/// A path below the mount of cgroup v2; an absolute one must lie below it.
fn cgroup_base(given: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let path = given.unwrap_or_else(|| Path::new("drover"));
    if !path.is_absolute() {
        return Ok(path.to_owned());
    }
    let mount = find_mount().map_err(|error| invalid("cgroup_base", error))?;
    match path.strip_prefix(&mount.path) {
        Ok(below) if below.components().next().is_some() => Ok(below.to_owned()),
        _ => Err(invalid(
            "cgroup_base",
            format!(
                "{path:?} is not below {}, where cgroup v2 is mounted",
                mount.path.display()
            ),
        )),
    }
}

fn keeper_binary(given: Option<PathBuf>) -> Result<PathBuf, ConfigError> {
    if let Some(path) = absolute("keeper_binary", given)? {
        return Ok(path);
    }
    let own = std::env::current_exe().map_err(|error| invalid("keeper_binary", error))?;
    Ok(own.with_file_name("noded-keeper"))
}

fn host_volumes(
    given: BTreeMap<String, HostVolumeBlock>,
) -> Result<BTreeMap<String, HostVolumeBlock>, ConfigError> {
    for (name, volume) in &given {
        let field = format!("host_volume {name:?}");
        if !volume.path.is_absolute() {
            return Err(invalid(
                &field,
                format!("path {:?} is not absolute", volume.path),
            ));
        }
    }
    Ok(given)
}

fn chroot_paths(given: Option<Vec<PathBuf>>) -> Result<Vec<PathBuf>, ConfigError> {
    let Some(paths) = given else {
        return Ok(isolation::default_host_view());
    };
    match paths.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(invalid("chroot_paths", format!("{path:?} is not absolute"))),
        None => Ok(paths),
    }
}

fn task_pids_max(given: Option<u32>) -> Result<u32, ConfigError> {
    let max = given.unwrap_or(TASK_PIDS_MAX);
    if (TASK_PIDS_LOWEST..=TASK_PIDS_HIGHEST).contains(&max) {
        return Ok(max);
    }
    let problem = format!("{max} is not between {TASK_PIDS_LOWEST} and {TASK_PIDS_HIGHEST}");
    Err(invalid("task_pids_max", problem))
}

#[cfg(test)]
mod tests;
