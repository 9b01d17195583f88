//! Preparing an attempt: the hooks, in order, the first failure ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isolation::{Identity, lookup_identity};
use noded_core::effect::{Hook, PrepareTask};
use noded_core::event::{Recovery, RunEvent};
use noded_keeper::io::{LogLimits, create_streams};
use noded_keeper::protocol::TaskKey;
use protocol_model::{NetworkMode, Task};

use super::Executor;
use crate::alloc_dir::FileAttributes;
use crate::config::Switch;
use crate::driver::{DriverConfig, DriverError};
use crate::keeper_link::chain;
use crate::os_signal;

/// Nomad's default for `exec`.
const EXEC_USER: &str = "nobody";
const MIB: u64 = 1024 * 1024;

/// A hook that failed.
pub(super) struct Failed {
    message: String,
    recovery: Recovery,
}

impl Failed {
    pub(super) fn hopeless(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recovery: Recovery::Hopeless,
        }
    }

    fn possible(error: &dyn std::error::Error) -> Self {
        Self {
            message: chain(error),
            recovery: Recovery::Possible,
        }
    }
}

impl Executor {
    /// Runs the hooks of an attempt. Blocks.
    pub(super) fn prepare(&self, prepare: &PrepareTask) -> RunEvent {
        let mut environment = BTreeMap::new();
        if !prepare.hooks.contains(&Hook::TaskDirectory)
            && let Some(task) = prepare.spec.task(&prepare.run.task)
            && let Err(Failed { message, recovery }) = self.task_directory(prepare, task)
        {
            // Made before; but a reboot takes the memory file system for secrets away.
            return RunEvent::PrepareFailed {
                hook: Hook::TaskDirectory,
                message,
                recovery,
            };
        }
        for hook in &prepare.hooks {
            let Some(task) = prepare.spec.task(&prepare.run.task) else {
                return RunEvent::PrepareFailed {
                    hook: *hook,
                    message: "the job has no such task".to_owned(),
                    recovery: Recovery::Hopeless,
                };
            };
            let done = match hook {
                Hook::Validate => self.validate(prepare, task),
                Hook::TaskDirectory => self.task_directory(prepare, task),
                Hook::Logs => self.logs(prepare, task),
                Hook::DispatchPayload => self.dispatch_payload(prepare),
                Hook::Templates => self.templates(prepare, task).map(|variables| {
                    environment = variables;
                }),
            };
            if let Err(Failed { message, recovery }) = done {
                return RunEvent::PrepareFailed {
                    hook: *hook,
                    message,
                    recovery,
                };
            }
        }
        RunEvent::Prepared { environment }
    }

    fn validate(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let config = task.config.clone().into_iter().collect();
        match DriverConfig::parse(&task.driver, &config) {
            // A value that is not resolved yet is looked at again when the task starts.
            Err(DriverError::Invalid { .. }) if has_references(&config) => {}
            Err(error) => return Err(Failed::hopeless(error.to_string())),
            Ok(_) => {}
        }
        let off = |name: &str| Failed::hopeless(format!("driver {name:?} is off on this node"));
        let config = self.config.now();
        match task.driver.as_str() {
            "raw_exec" if config.raw_exec == Switch::Off => return Err(off("raw_exec")),
            "mock_driver" if config.mock_driver == Switch::Off => {
                return Err(off("mock_driver"));
            }
            _ => {}
        }
        owner_of(prepare, task)?;
        let signal = &task.kill_signal;
        if !signal.is_empty() && os_signal::number(signal).is_none() {
            return Err(Failed::hopeless(format!(
                "kill_signal: {signal:?} is no signal of this node"
            )));
        }
        if let Some(artifact) = task.artifacts.first() {
            let source = artifact.getter_source.as_deref().unwrap_or_default();
            return Err(Failed::hopeless(format!(
                "artifact {source:?}: this release fetches none; put the file on the node, in \
                 chroot_paths or a host_volume, and take the artifact block out of the job"
            )));
        }
        for network in &prepare.spec.group().networks {
            match network.mode() {
                NetworkMode::Host => {}
                NetworkMode::None if task.driver == "exec" => {}
                NetworkMode::None => {
                    return Err(Failed::hopeless(
                        "network mode none needs a driver with isolation: exec",
                    ));
                }
                NetworkMode::Bridge | NetworkMode::Cni(_) | NetworkMode::Unknown(_) => {
                    return Err(Failed::hopeless(format!(
                        "network mode {:?} is not supported by this node",
                        network.mode
                    )));
                }
            }
        }
        if task.driver == "raw_exec" && !task.volume_mounts.is_empty() {
            return Err(Failed::hopeless("driver raw_exec cannot mount volumes"));
        }
        Ok(())
    }

    fn task_directory(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let owner = owner_of(prepare, task)?;
        let alloc = prepare.run.alloc;
        self.allocs
            .build_task(alloc, &task.name, &owner)
            .map_err(|error| Failed::possible(&error))?;
        // `exec` binds what it needs into a root of its own.
        if task.driver != "exec" && matches!(owner, Identity::User { uid: 1.., .. }) {
            let passed = self.allocs.let_pass(alloc);
            passed.map_err(|error| Failed::possible(&error))?;
        }
        Ok(())
    }

    fn logs(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let log = task.log_config.clone().unwrap_or_default();
        if log.disabled() || task.driver == "mock_driver" {
            return Ok(());
        }
        let run = TaskKey::new(
            prepare.run.alloc.to_string(),
            &task.name,
            prepare.run.epoch.0,
        )
        .map_err(|error| Failed::hopeless(error.to_string()))?;
        let limits = LogLimits {
            max_files: log.max_files().max(1),
            max_file_size_bytes: u64::from(log.max_file_size_mb().max(1)) * MIB,
        };
        let base = self.allocs.path_of(prepare.run.alloc);
        create_streams(&self.paths, &run, &base, Path::new("alloc/logs"), limits)
            .map(drop)
            .map_err(|error| Failed::possible(&error))
    }

    fn dispatch_payload(&self, prepare: &PrepareTask) -> Result<(), Failed> {
        let Some(file) = &prepare.dispatch_payload_file else {
            return Ok(());
        };
        let payload = prepare.spec.job().payload.as_deref().unwrap_or_default();
        let payload = crate::base64::decode(payload)
            .ok_or_else(|| Failed::hopeless("the dispatched payload is not base64"))?;
        let attributes = FileAttributes {
            mode: 0o644,
            owner: None,
        };
        self.allocs
            .write_file(prepare.run.alloc, Path::new(file), &payload, attributes)
            .map_err(|error| Failed::possible(&error))
    }
}

/// Whom a task's directories belong to. A user that only the task's templates name is known when it
/// starts; until then they are root's.
fn owner_of(prepare: &PrepareTask, task: &Task) -> Result<Identity, Failed> {
    if prepare.user.contains("${") {
        return Ok(Identity::Keeper);
    }
    identity_of(&task.driver, &prepare.user).map_err(Failed::hopeless)
}

fn has_references(config: &serde_json::Map<String, serde_json::Value>) -> bool {
    config
        .values()
        .any(|value| value.to_string().contains("${"))
}

/// Whom a task runs as. `exec` never runs as root (Nomad's user deny-list).
pub(super) fn identity_of(driver: &str, user: &str) -> Result<Identity, String> {
    let name = match (driver, user) {
        ("exec", "") => EXEC_USER,
        (_, "") => return Ok(Identity::Keeper),
        (_, user) => user,
    };
    let identity = lookup_identity(name).map_err(|error| {
        format!(
            "user: {}; make it on this node, or name another",
            chain(&error)
        )
    })?;
    if driver == "exec" {
        may_exec_as(name, &identity)?;
    }
    Ok(identity)
}

/// Whether `exec` runs a task as this user: never as root, and in no group that the host's own
/// database does not give the user. Files of the host are in its root, and some of them are a
/// group's alone (`/etc/shadow`).
fn may_exec_as(name: &str, identity: &Identity) -> Result<(), String> {
    let Identity::User { uid, gid, .. } = identity else {
        return Ok(());
    };
    if *uid == 0 {
        return Err(format!("driver exec does not run tasks as {name:?}"));
    }
    if !name.contains(':') {
        return Ok(());
    }
    let of_host = lookup_identity(&uid.to_string());
    let is_own = matches!(&of_host, Ok(Identity::User { groups, .. }) if groups.contains(gid));
    if is_own {
        return Ok(());
    }
    Err(format!(
        "driver exec does not run tasks as {name:?}: this node's user database does not have user \
         {uid} in group {gid}; name a user of this node, or add it to the group"
    ))
}

/// The directories of a task, for its sandbox.
pub(super) fn layout(base: &Path, task: &str) -> isolation::TaskLayout {
    isolation::TaskLayout {
        shared: base.join(crate::alloc_dir::SHARED),
        task: PathBuf::from(base).join(task),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_runs_nothing_in_a_group_that_the_host_does_not_give_the_user() {
        let nobody = match lookup_identity("nobody") {
            Ok(Identity::User { uid, gid, .. }) => (uid, gid),
            other => panic!("{other:?}"),
        };
        let (uid, own) = nobody;
        for (user, may) in [
            (format!("{uid}:{own}"), true),
            (format!("{uid}:0"), false),
            (format!("{uid}:42"), false),
            ("54321:54321".to_owned(), false),
            ("0:0".to_owned(), false),
        ] {
            let identity = identity_of("exec", &user);
            assert_eq!(identity.is_ok(), may, "{user}: {identity:?}");
        }
        let of_raw = identity_of("raw_exec", "54321:54321").expect("as it says");
        assert!(matches!(of_raw, Identity::User { uid: 54321, .. }));
    }
}
