//! What the node lets each driver do: `driver "NAME" { ... }`, or Nomad's spelling of it,
//! `plugin "NAME" { config { ... } }`.

use std::collections::BTreeMap;

use noded_core::settings::TaskRoot;

use super::file::{ConfigFile, DriverBlock};
use super::ranges::Ranges;
use super::{ConfigError, Switch, invalid};

/// Ids beyond this one mean "leave it as it is" to the kernel.
const ID_HIGHEST: u32 = u32::MAX - 1;

/// What is the same on every node for one driver.
#[derive(Debug)]
struct Known {
    name: &'static str,
    root: TaskRoot,
    processes: bool,
    enabled: Switch,
    /// Keys of its block besides `enabled`.
    keys: &'static [&'static str],
}

const DENIED_UIDS: &str = "denied_host_uids";
const DENIED_GIDS: &str = "denied_host_gids";
/// Lets jobs say `pid_mode = "host"`.
pub const HOST_PIDS: &str = "allow_host_pid_mode";
/// Lets jobs say `ipc_mode = "host"`.
pub const HOST_IPC: &str = "allow_host_ipc_mode";

const KNOWN: [Known; 3] = [
    Known {
        name: "exec",
        root: TaskRoot::OwnRoot,
        processes: true,
        enabled: Switch::On,
        keys: &[DENIED_UIDS, DENIED_GIDS, HOST_PIDS, HOST_IPC],
    },
    Known {
        name: "raw_exec",
        root: TaskRoot::Host,
        processes: true,
        enabled: Switch::Off,
        keys: &[DENIED_UIDS, DENIED_GIDS],
    },
    Known {
        name: "mock_driver",
        root: TaskRoot::Host,
        processes: false,
        enabled: Switch::Off,
        keys: &[],
    },
];

/// The settings of one driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverSettings {
    /// What its tasks see as `/`.
    pub root: TaskRoot,
    /// Whether its tasks are processes of this host, with directories and output.
    pub processes: bool,
    /// Whether jobs may use it.
    pub enabled: Switch,
    /// Users that none of its tasks runs as.
    pub denied_uids: Ranges,
    /// Groups that none of its tasks is in.
    pub denied_gids: Ranges,
    /// Whether a task may share the host's process ids.
    pub host_pids: Switch,
    /// Whether a task may share the host's IPC.
    pub host_ipc: Switch,
}

/// The settings of every driver of this release, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drivers(BTreeMap<&'static str, DriverSettings>);

impl Drivers {
    pub(super) fn from_file(file: &ConfigFile) -> Result<Self, ConfigError> {
        let plugins = file.plugin.iter().map(|(name, it)| (name, &it.config));
        let blocks: Vec<_> = file
            .driver
            .iter()
            .map(|(name, block)| ("driver", name, block))
            .chain(plugins.map(|(name, block)| ("plugin", name, block)))
            .collect();
        for (kind, name, _) in &blocks {
            if !KNOWN.iter().any(|known| known.name == *name) {
                let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
                let problem = format!("there is no such driver; there are {}", names.join(", "));
                return Err(invalid(&format!("{kind} {name:?}"), problem));
            }
        }
        KNOWN
            .iter()
            .map(|known| {
                let mut own = blocks.iter().filter(|(_, name, _)| *name == known.name);
                let settings = match (own.next(), own.next()) {
                    (None, _) => read(known, "driver", &DriverBlock::default())?,
                    (Some((kind, _, block)), None) => read(known, kind, block)?,
                    (Some(_), Some(_)) => {
                        let field = format!("driver {:?}", known.name);
                        let problem = "it is also in a `plugin` block; keep one of them";
                        return Err(invalid(&field, problem));
                    }
                };
                Ok((known.name, settings))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The settings of a driver; `None` where this release has none of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&DriverSettings> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &DriverSettings)> {
        self.0.iter().map(|(name, settings)| (*name, settings))
    }

    /// Whether jobs may use a driver.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.find(name).is_some_and(|it| it.enabled == Switch::On)
    }

    /// Those that jobs may use, and what their tasks see as `/`.
    #[must_use]
    pub fn enabled(&self) -> BTreeMap<String, TaskRoot> {
        let on = self.0.iter().filter(|(_, it)| it.enabled == Switch::On);
        on.map(|(name, it)| ((*name).to_owned(), it.root)).collect()
    }
}

fn read(known: &Known, kind: &str, block: &DriverBlock) -> Result<DriverSettings, ConfigError> {
    let DriverBlock {
        enabled,
        denied_host_uids,
        denied_host_gids,
        allow_host_pid_mode,
        allow_host_ipc_mode,
    } = block;
    let field = |key: &str| format!("{kind} {:?}.{key}", known.name);
    for (key, given) in [
        (DENIED_UIDS, denied_host_uids.is_some()),
        (DENIED_GIDS, denied_host_gids.is_some()),
        (HOST_PIDS, allow_host_pid_mode.is_some()),
        (HOST_IPC, allow_host_ipc_mode.is_some()),
    ] {
        if given && !known.keys.contains(&key) {
            return Err(invalid(&field(key), "this driver has no such setting"));
        }
    }
    let ids = |key: &str, given: &Option<String>| {
        Ranges::parse(
            &field(key),
            given.as_deref().unwrap_or_default(),
            ID_HIGHEST,
        )
    };
    Ok(DriverSettings {
        root: known.root,
        processes: known.processes,
        enabled: enabled.map_or(known.enabled, Switch::from),
        denied_uids: ids(DENIED_UIDS, denied_host_uids)?,
        denied_gids: ids(DENIED_GIDS, denied_host_gids)?,
        host_pids: allow_host_pid_mode.unwrap_or(false).into(),
        host_ipc: allow_host_ipc_mode.unwrap_or(false).into(),
    })
}
