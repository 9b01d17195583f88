//! The values of single keys: checked, and filled in where none is given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use isolation::cgroup::find_mount;
use protocol_transport::Secret;

use super::file::{ConfigFile, HostVolumeBlock, ReservedBlock};
use super::ranges::Ranges;
use super::{ConfigError, invalid};

/// The port that servers listen on for nodes unless an address says otherwise.
const SERVER_PORT_DEFAULT: u16 = 4647;
/// Nomad's default range of ports that are handed out on request.
const DYNAMIC_PORT_MIN: u16 = 20_000;
const DYNAMIC_PORT_MAX: u16 = 32_000;
/// A token is a few dozen characters; a file beyond this is another file.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Each is a mount of every `exec` task.
const MASKED_PATHS_MAX: usize = 64;
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

/// Below this, programs that open a few libraries fail.
const OPEN_FILES_LOWEST: u64 = 64;
/// The kernel's usual ceiling of one process (fs.nr_open), and the hard limit of keeper's unit.
const OPEN_FILES_HIGHEST: u64 = 1024 * 1024;

/// Nomad's default.
const KILL_TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// Whoever needs longer to end has lost its host long before.
const KILL_TIMEOUT_HIGHEST: Duration = Duration::from_secs(24 * 60 * 60);

const LOG_LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

pub(super) fn absolute(field: &str, path: Option<PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    match path {
        Some(path) if !path.is_absolute() => {
            Err(invalid(field, format!("{path:?} is not an absolute path")))
        }
        path => Ok(path),
    }
}

/// A level, or directives that each end with one. The filter takes any other word for the name of a
/// module, and would show nothing at all.
pub(super) fn log_level(given: Option<String>) -> Result<String, ConfigError> {
    let text = given.unwrap_or_else(|| "info".to_owned());
    let is_level = |word: &str| LOG_LEVELS.iter().any(|it| it.eq_ignore_ascii_case(word));
    for directive in text.split(',').map(str::trim) {
        let understood = match directive.rsplit_once('=') {
            None => is_level(directive),
            Some((_, level)) => is_level(level) || level.eq_ignore_ascii_case("off"),
        };
        if !understood {
            let levels = LOG_LEVELS.join(", ");
            let problem = format!("{directive:?} is none of {levels}, and no MODULE=LEVEL");
            return Err(invalid("log_level", problem));
        }
    }
    Ok(text)
}

pub(super) fn dynamic_ports(file: &ConfigFile) -> Result<(u16, u16), ConfigError> {
    let min = file.min_dynamic_port.unwrap_or(DYNAMIC_PORT_MIN);
    let max = file.max_dynamic_port.unwrap_or(DYNAMIC_PORT_MAX);
    if min == 0 || min > max {
        let problem = format!("{min} to {max} is no range of ports");
        return Err(invalid("min_dynamic_port", problem));
    }
    Ok((min, max))
}

pub(super) fn servers(given: &[String]) -> Result<Vec<String>, ConfigError> {
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

pub(super) fn join_token(file: &ConfigFile) -> Result<Option<Secret>, ConfigError> {
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

/// A path below the mount of cgroup v2; an absolute one must lie below it.
pub(super) fn cgroup_base(given: Option<&Path>) -> Result<PathBuf, ConfigError> {
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

/// A program of ours: the given path, or the file `name` beside noded.
pub(super) fn own_program(
    field: &'static str,
    given: Option<PathBuf>,
    name: &str,
) -> Result<PathBuf, ConfigError> {
    if let Some(path) = absolute(field, given)? {
        return Ok(path);
    }
    let own = std::env::current_exe().map_err(|error| invalid(field, error))?;
    Ok(own.with_file_name(name))
}

pub(super) fn host_volumes(
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

pub(super) fn reservable_cores(given: Option<&str>) -> Result<Option<Ranges>, ConfigError> {
    let highest = u32::from(u16::MAX);
    given
        .map(|text| Ranges::parse("reservable_cores", text, highest))
        .transpose()
}

pub(super) fn chroot_paths(given: Option<Vec<PathBuf>>) -> Result<Vec<PathBuf>, ConfigError> {
    let Some(paths) = given else {
        return Ok(isolation::default_host_view());
    };
    match paths.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(invalid("chroot_paths", format!("{path:?} is not absolute"))),
        None => Ok(paths),
    }
}

pub(super) fn task_pids_max(given: Option<u32>) -> Result<u32, ConfigError> {
    let max = given.unwrap_or(TASK_PIDS_MAX);
    if (TASK_PIDS_LOWEST..=TASK_PIDS_HIGHEST).contains(&max) {
        return Ok(max);
    }
    let problem = format!("{max} is not between {TASK_PIDS_LOWEST} and {TASK_PIDS_HIGHEST}");
    Err(invalid("task_pids_max", problem))
}

pub(super) fn task_open_files(given: Option<u64>) -> Result<u64, ConfigError> {
    let soft = given.unwrap_or(isolation::OPEN_FILES_SOFT);
    if (OPEN_FILES_LOWEST..=OPEN_FILES_HIGHEST).contains(&soft) {
        return Ok(soft);
    }
    let problem = format!("{soft} is not between {OPEN_FILES_LOWEST} and {OPEN_FILES_HIGHEST}");
    Err(invalid("task_open_files", problem))
}

/// A list that the servers cannot read would reserve nothing.
pub(super) fn reserved(given: ReservedBlock) -> Result<ReservedBlock, ConfigError> {
    let highest = u32::from(u16::MAX);
    Ranges::parse("reserved.reserved_ports", &given.reserved_ports, highest)?;
    Ok(given)
}

pub(super) fn masked_paths(given: Vec<PathBuf>) -> Result<Vec<PathBuf>, ConfigError> {
    if given.len() > MASKED_PATHS_MAX {
        let problem = format!("more than {MASKED_PATHS_MAX} paths");
        return Err(invalid("masked_paths", problem));
    }
    match given.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(invalid("masked_paths", format!("{path:?} is not absolute"))),
        None => Ok(given),
    }
}

pub(super) fn kill_timeout_max(given: Option<&str>) -> Result<Duration, ConfigError> {
    let Some(text) = given else {
        return Ok(KILL_TIMEOUT_MAX);
    };
    let max = protocol_model::duration::parse_go(text)
        .map_err(|error| invalid("max_kill_timeout", format!("{text:?}: {error}")))?;
    if max > KILL_TIMEOUT_HIGHEST {
        let problem = format!("{text:?} is above {KILL_TIMEOUT_HIGHEST:?}");
        return Err(invalid("max_kill_timeout", problem));
    }
    Ok(max)
}

pub(super) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
