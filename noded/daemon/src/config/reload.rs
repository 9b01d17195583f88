//! Another configuration while noded runs: what may change does, what may not is named.

use std::sync::Arc;

use parking_lot::RwLock;

use super::Config;

/// The configuration of this moment. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveConfig(Arc<RwLock<Arc<Config>>>);

impl LiveConfig {
    /// A configuration that may be replaced.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// The configuration now. Whoever holds it keeps what it says.
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.0.read())
    }

    /// Puts another one in its place.
    pub fn replace(&self, config: Config) {
        *self.0.write() = Arc::new(config);
    }
}

/// What a new file means for a node that runs.
#[derive(Debug, Clone)]
pub struct Reload {
    /// The old configuration with everything that may change.
    pub config: Config,
    /// Keys that changed.
    pub applied: Vec<&'static str>,
    /// Keys that differ and stay as they were until noded is started again.
    pub needs_restart: Vec<&'static str>,
}

/// Compares the configuration in use with what the file says now.
pub fn reload(old: &Config, new: &Config) -> Reload {
    let mut config = old.clone();
    let mut applied = Vec::new();
    let mut needs_restart = Vec::new();
    macro_rules! take {
        ($($field:ident),*) => {$(
            if old.$field != new.$field {
                config.$field.clone_from(&new.$field);
                applied.push(stringify!($field));
            }
        )*};
    }
    macro_rules! keep {
        ($($field:ident),*) => {$(
            if old.$field != new.$field {
                needs_restart.push(stringify!($field));
            }
        )*};
    }
    take!(
        name,
        datacenter,
        node_pool,
        node_class,
        meta,
        reserved,
        dynamic_port_min,
        dynamic_port_max,
        servers,
        join_token,
        join_token_file,
        tls,
        drivers,
        host_volumes,
        host_networks,
        reservable_cores,
        chroot_paths,
        masked_paths,
        task_open_files,
        task_pids_max,
        task_cpu_hard_limit,
        kill_timeout_max,
        upkeep,
        artifact,
        log_level
    );
    keep!(
        region,
        data_dir,
        run_dir,
        cgroup_base,
        keeper_binary,
        jail_binary,
        network,
        log_json
    );
    Reload {
        config,
        applied,
        needs_restart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn config(more: &str) -> Config {
        let text = format!(
            "data_dir = \"/d\"\nname = \"n\"\ntls {{\n ca_file = \"a\"\n cert_file = \"b\"\n \
             key_file = \"c\"\n}}\n{more}"
        );
        Config::from_file(ConfigFile::parse(&text).unwrap()).unwrap()
    }

    #[test]
    fn what_may_change_does_and_the_rest_is_named() {
        let old = config("servers = [\"a\"]\nrun_dir = \"/r\"");
        let new = config(
            "servers = [\"b\"]\nrun_dir = \"/other\"\nmeta {\n rack = \"r2\"\n}\n\
             gc_max_allocs = 7\nmax_kill_timeout = \"2m\"\ndriver \"raw_exec\" {\n enabled = true\n}",
        );
        let Reload {
            config,
            applied,
            needs_restart,
        } = reload(&old, &new);
        assert_eq!(
            applied,
            ["meta", "servers", "drivers", "kill_timeout_max", "upkeep"]
        );
        let reconfigured = crate::daemon::reconfigured(&config);
        assert_eq!(reconfigured.kill_timeout_max.as_secs(), 120);
        assert_eq!(needs_restart, ["run_dir"]);
        assert_eq!(config.meta["rack"], "r2");
        assert_eq!(config.run_dir, old.run_dir);
        assert_eq!(config.upkeep.gc_max_allocs, 7);
    }

    #[test]
    fn the_same_file_changes_nothing() {
        let same = reload(&config("servers = [\"a\"]"), &config("servers = [\"a\"]"));
        assert!(same.applied.is_empty() && same.needs_restart.is_empty());
    }
}
