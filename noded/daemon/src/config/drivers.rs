//! What the node lets each driver do: `driver "NAME" { ... }`, or Nomad's spelling of it,
//! `plugin "NAME" { config { ... } }`.

use std::collections::BTreeMap;

use noded_core::driver::{Ability, DriverCapabilities, TaskRoot};

use super::file::{ConfigFile, DriverBlock};
use super::ranges::Ranges;
use super::{ConfigError, Switch, invalid};
use crate::drivers::{self, Driver, DriverError};

/// Ids beyond this one mean "leave it as it is" to the kernel.
const ID_HIGHEST: u32 = u32::MAX - 1;

/// Users that no task runs as.
pub const DENIED_UIDS: &str = "denied_host_uids";
/// Groups that no task is in.
pub const DENIED_GIDS: &str = "denied_host_gids";
/// Lets jobs say `pid_mode = "host"`.
pub const HOST_PIDS: &str = "allow_host_pid_mode";
/// Lets jobs say `ipc_mode = "host"`.
pub const HOST_IPC: &str = "allow_host_ipc_mode";

/// The settings of one driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverSettings {
    /// The driver.
    pub driver: &'static dyn Driver,
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
            if drivers::find(name).is_none() {
                let names: Vec<_> = drivers::ALL.iter().map(|driver| driver.name()).collect();
                let problem = format!("there is no such driver; there are {}", names.join(", "));
                return Err(invalid(&format!("{kind} {name:?}"), problem));
            }
        }
        drivers::ALL
            .into_iter()
            .map(|driver| {
                let known = driver.name();
                let mut own = blocks.iter().filter(|(_, name, _)| *name == known);
                let settings = match (own.next(), own.next()) {
                    (None, _) => read(driver, "driver", &DriverBlock::default())?,
                    (Some((kind, _, block)), None) => read(driver, kind, block)?,
                    (Some(_), Some(_)) => {
                        let field = format!("driver {known:?}");
                        let problem = "it is also in a `plugin` block; keep one of them";
                        return Err(invalid(&field, problem));
                    }
                };
                Ok((known, settings))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The settings of a driver; `None` where this release has none of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&DriverSettings> {
        self.0.get(name)
    }

    /// As [`Self::find`], for a task that needs it.
    ///
    /// # Errors
    /// This release has none of that name.
    pub fn of(&self, name: &str) -> Result<&DriverSettings, DriverError> {
        self.find(name)
            .ok_or_else(|| DriverError::Unavailable(name.to_owned()))
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

    /// Those that jobs may use.
    #[must_use]
    pub fn enabled(&self) -> BTreeMap<String, DriverCapabilities> {
        let on = self.0.iter().filter(|(_, it)| it.enabled == Switch::On);
        on.map(|(name, it)| ((*name).to_owned(), it.driver.capabilities()))
            .collect()
    }

    /// The names of those that have an ability, for whoever asked another one for it.
    #[must_use]
    pub fn with(&self, ability: Ability) -> String {
        let able = self.0.iter().filter(|(_, it)| it.has(ability));
        let names: Vec<_> = able.map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

impl DriverSettings {
    /// Those of a node whose configuration has no block of the driver.
    #[must_use]
    pub fn unset(driver: &'static dyn Driver) -> Self {
        Self {
            driver,
            enabled: driver.enabled(),
            denied_uids: Ranges::default(),
            denied_gids: Ranges::default(),
            host_pids: Switch::Off,
            host_ipc: Switch::Off,
        }
    }

    /// Whether the driver has an ability.
    #[must_use]
    pub fn has(&self, ability: Ability) -> bool {
        self.driver.capabilities().has(ability)
    }

    /// What its tasks see as `/`.
    #[must_use]
    pub fn root(&self) -> TaskRoot {
        self.driver.capabilities().root
    }
}

fn read(
    driver: &'static dyn Driver,
    kind: &str,
    block: &DriverBlock,
) -> Result<DriverSettings, ConfigError> {
    let DriverBlock {
        enabled,
        denied_host_uids,
        denied_host_gids,
        allow_host_pid_mode,
        allow_host_ipc_mode,
    } = block;
    let field = |key: &str| format!("{kind} {:?}.{key}", driver.name());
    for (key, given) in [
        (DENIED_UIDS, denied_host_uids.is_some()),
        (DENIED_GIDS, denied_host_gids.is_some()),
        (HOST_PIDS, allow_host_pid_mode.is_some()),
        (HOST_IPC, allow_host_ipc_mode.is_some()),
    ] {
        if given && !driver.settings().contains(&key) {
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
        driver,
        enabled: enabled.map_or(driver.enabled(), Switch::from),
        denied_uids: ids(DENIED_UIDS, denied_host_uids)?,
        denied_gids: ids(DENIED_GIDS, denied_host_gids)?,
        host_pids: allow_host_pid_mode.unwrap_or(false).into(),
        host_ipc: allow_host_ipc_mode.unwrap_or(false).into(),
    })
}
