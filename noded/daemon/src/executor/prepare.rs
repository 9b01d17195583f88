//! Preparing an attempt: the hooks, in order, the first failure ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isolation::{Identity, lookup_identity};
use noded_core::effect::{Hook, PrepareTask, PreparedTemplate};
use noded_core::event::{Recovery, RunEvent};
use noded_keeper::io::{LogLimits, create_streams};
use noded_keeper::protocol::TaskKey;
use protocol_model::{NetworkMode, Task, Template};
use rustix::fs::OFlags;

use super::Executor;
use crate::alloc_dir::FileAttributes;
use crate::config::Switch;
use crate::driver::{DriverConfig, DriverError};
use crate::keeper_link::chain;
use crate::template::{self, Delimiters, TEMPLATE_BYTES_MAX};

/// Nomad's default for `exec`.
const EXEC_USER: &str = "nobody";
const MIB: u64 = 1024 * 1024;

/// A hook that failed.
struct Failed {
    message: String,
    recovery: Recovery,
}

impl Failed {
    fn hopeless(message: impl Into<String>) -> Self {
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
        owner_of(task)?;
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
        let owner = owner_of(task)?;
        self.allocs
            .build_task(prepare.run.alloc, &task.name, &owner)
            .map_err(|error| Failed::possible(&error))
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

    fn templates(
        &self,
        prepare: &PrepareTask,
        task: &Task,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let mut environment = prepare.environment.clone();
        let mut added = BTreeMap::new();
        for prepared in &prepare.templates {
            let Some(template) = task.templates.get(prepared.offset) else {
                continue;
            };
            let subject = |problem: String| {
                Failed::hopeless(format!("template {:?}: {problem}", template.dest_path()))
            };
            let text = self.source(prepare, prepared, template).map_err(subject)?;
            let delimiters =
                Delimiters::new(template.left_delim(), template.right_delim.as_deref());
            let rendered = template::render(&text, delimiters, &environment)
                .map_err(|error| subject(error.to_string()))?;
            let attributes = attributes(template).map_err(subject)?;
            let path = Path::new(&prepared.destination);
            self.allocs
                .write_file(prepare.run.alloc, path, rendered.as_bytes(), attributes)
                .map_err(|error| subject(chain(&error)))?;
            if template.envvars() {
                let variables = template::environment_of(&rendered)
                    .map_err(|error| subject(error.to_string()))?;
                environment.extend(variables.clone());
                added.extend(variables);
            }
        }
        Ok(added)
    }

    fn source(
        &self,
        prepare: &PrepareTask,
        prepared: &PreparedTemplate,
        template: &Template,
    ) -> Result<String, String> {
        let Some(source) = &prepared.source else {
            return Ok(template.embedded_tmpl().to_owned());
        };
        let base = self.allocs.path_of(prepare.run.alloc);
        let below = Path::new(source)
            .strip_prefix(&base)
            .map_err(|_| format!("source {source:?} is outside of the allocation"))?;
        let file = self
            .allocs
            .open_beneath(prepare.run.alloc, below, OFlags::RDONLY)
            .map_err(|error| chain(&error))?;
        let mut text = String::new();
        let limit = TEMPLATE_BYTES_MAX as u64 + 1;
        std::io::Read::take(std::fs::File::from(file), limit)
            .read_to_string_into(&mut text)
            .map_err(|error| error.to_string())?;
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("source {source:?} is too large"));
        }
        Ok(text)
    }
}

/// `Read::read_to_string` under a name that says where to.
trait ReadInto {
    fn read_to_string_into(self, text: &mut String) -> std::io::Result<usize>;
}

impl<R: std::io::Read> ReadInto for R {
    fn read_to_string_into(mut self, text: &mut String) -> std::io::Result<usize> {
        self.read_to_string(text)
    }
}

fn attributes(template: &Template) -> Result<FileAttributes, String> {
    let mode = template
        .mode_bits()
        .ok_or_else(|| format!("perms {:?} are not octal", template.perms))?;
    let id = |given: Option<i32>| given.and_then(|id| u32::try_from(id).ok());
    let (uid, gid) = (id(template.uid), id(template.gid));
    let owner = (uid.is_some() || gid.is_some()).then(|| {
        (
            uid.map(rustix::process::Uid::from_raw),
            gid.map(rustix::process::Gid::from_raw),
        )
    });
    Ok(FileAttributes { mode, owner })
}

/// Whom a task's directories belong to. A user that only the task's environment names is known when
/// it starts; until then they are root's.
fn owner_of(task: &Task) -> Result<Identity, Failed> {
    if task.user.contains("${") {
        return Ok(Identity::Keeper);
    }
    identity_of(&task.driver, &task.user).map_err(Failed::hopeless)
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
    if driver == "exec" && matches!(identity, Identity::User { uid: 0, .. }) {
        return Err(format!("driver exec does not run tasks as {name:?}"));
    }
    Ok(identity)
}

/// The directories of a task, for its sandbox.
pub(super) fn layout(base: &Path, task: &str) -> isolation::TaskLayout {
    isolation::TaskLayout {
        shared: base.join(crate::alloc_dir::SHARED),
        task: PathBuf::from(base).join(task),
    }
}
