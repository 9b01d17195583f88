//! Preparing an attempt: the hooks, in order, the first failure ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use isolation::Identity;
use noded_core::driver::{Ability, TaskRoot};
use noded_core::effect::{PrepareTask, TaskHook};
use noded_core::event::{Recovery, RunEvent};
use noded_core::identities::shown_identities;
use noded_keeper::io::{LogLimits, create_streams};
use noded_keeper::protocol::TaskKey;
use protocol_error_chain::chain;
use protocol_model::{ChangeMode, DISPATCH_PAYLOAD_BYTES_MAX, NetworkMode, Task};
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::users::identity_of;
use crate::alloc_dir::{FileAttributes, TaskAccess};
use crate::config::{DriverSettings, Switch};
use crate::drivers::DriverError;
use crate::jail::JailError;
use crate::os_signal;
use crate::shell::cancelled;

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

    /// The failure of a piece of work in a child.
    pub(super) fn of_jail(error: &JailError) -> Self {
        Self {
            message: match error {
                JailError::Cancelled => "the task is to end".to_owned(),
                error => chain(error),
            },
            recovery: error.recovery(),
        }
    }

    /// The same failure, of a part.
    pub(super) fn about(self, subject: &str) -> Self {
        Self {
            message: format!("{subject}: {}", self.message),
            ..self
        }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// A hook that was interrupted.
    pub(super) fn cancelled() -> Self {
        Self {
            message: "the task is to end".to_owned(),
            recovery: Recovery::Cancelled,
        }
    }

    pub(super) fn possible(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            recovery: Recovery::Possible,
        }
    }

    /// A failure of the host.
    pub(super) fn possible_of(error: &dyn std::error::Error) -> Self {
        Self::possible(chain(error))
    }

    /// A failure that says itself whether another attempt may succeed.
    pub(super) fn new(error: &dyn std::error::Error, is_recoverable: bool) -> Self {
        match is_recoverable {
            true => Self::possible_of(error),
            false => Self::hopeless(chain(error)),
        }
    }
}

/// Whether a hook may wait for something else than the disk.
fn waits(hook: TaskHook) -> bool {
    matches!(
        hook,
        TaskHook::Identity | TaskHook::Artifacts | TaskHook::Templates
    )
}

impl Executor {
    /// Runs the hooks of an attempt; between two of them, and while one waits, it heeds `cancel`.
    pub(super) async fn prepare(
        self: &Arc<Self>,
        prepare: Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> RunEvent {
        let mut environment = BTreeMap::new();
        // Hooks that wait for nothing but the disk go to one thread in one piece.
        for hooks in prepare.hooks.chunk_by(|a, b| waits(*a) == waits(*b)) {
            let first = hooks.first().copied().unwrap_or(TaskHook::Validate);
            if cancel.is_cancelled() {
                return cancelled(first);
            }
            let done = if waits(first) {
                self.prepare_waiting(&prepare, hooks, cancel).await
            } else {
                let (prepare, hooks) = (Arc::clone(&prepare), hooks.to_vec());
                self.blocking(move |own| own.prepare_on_disk(&prepare, &hooks))
                    .await
                    .map(|()| BTreeMap::new())
            };
            match done {
                Ok(variables) => environment.extend(variables),
                Err((hook, Failed { message, recovery })) => {
                    return RunEvent::PrepareFailed {
                        hook,
                        message,
                        recovery,
                    };
                }
            }
        }
        RunEvent::Prepared { environment }
    }

    /// Runs hooks that wait in order; returns what they add to the environment.
    async fn prepare_waiting(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        hooks: &[TaskHook],
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, String>, (TaskHook, Failed)> {
        let mut environment = BTreeMap::new();
        for hook in hooks {
            let done = match hook {
                TaskHook::Identity => {
                    let variables = self.identity_hook(prepare, cancel).await;
                    variables.map(|variables| environment.extend(variables))
                }
                TaskHook::Artifacts => self.artifacts(prepare, cancel).await,
                TaskHook::Templates => {
                    let variables = self.template_hook(prepare, cancel).await;
                    variables.map(|variables| environment.extend(variables))
                }
                TaskHook::Validate
                | TaskHook::TaskDirectory
                | TaskHook::Logs
                | TaskHook::DispatchPayload
                | TaskHook::Api => Ok(()),
            };
            done.map_err(|failed| (*hook, failed))?;
        }
        Ok(environment)
    }

    /// Runs hooks in order. Blocks.
    fn prepare_on_disk(
        &self,
        prepare: &PrepareTask,
        hooks: &[TaskHook],
    ) -> Result<(), (TaskHook, Failed)> {
        let task = prepare.spec.task(&prepare.run.task).ok_or_else(|| {
            let failed = Failed::hopeless("the job has no such task");
            (TaskHook::Validate, failed)
        })?;
        let is_made_before = !prepare.hooks.contains(&TaskHook::TaskDirectory);
        if is_made_before && hooks.first() == prepare.hooks.first() {
            // A reboot takes the memory file system for secrets away.
            self.task_directory(prepare, task)
                .map_err(|failed| (TaskHook::TaskDirectory, failed))?;
        }
        for hook in hooks {
            let done = match hook {
                TaskHook::Validate => self.validate(prepare, task),
                TaskHook::TaskDirectory => self.task_directory(prepare, task),
                TaskHook::Logs => self.logs(prepare, task),
                TaskHook::DispatchPayload => self.dispatch_payload(prepare),
                TaskHook::Api => {
                    self.api_socket(prepare, task);
                    Ok(())
                }
                // They wait.
                TaskHook::Identity | TaskHook::Artifacts | TaskHook::Templates => Ok(()),
            };
            done.map_err(|failed| (*hook, failed))?;
        }
        Ok(())
    }

    fn validate(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let node = self.config.now();
        let config = task.config.clone().into_iter().collect();
        let driver = node.drivers.of(&task.driver);
        let driver = driver.map_err(|error| Failed::hopeless(error.to_string()))?;
        match driver.check(&config) {
            // A value that is not resolved yet is looked at again when the task starts.
            Err(DriverError::Invalid { .. }) if has_references(&config) => {}
            Err(error) => return Err(Failed::hopeless(error.to_string())),
            Ok(_) => {}
        }
        if driver.enabled == Switch::Off {
            let problem = format!("driver {:?} is off on this node", task.driver);
            return Err(Failed::hopeless(problem));
        }
        self.owner_of(prepare, task)?;
        check_signals(task)?;
        check_volumes(driver, task)?;
        for network in &prepare.spec.group().networks {
            match network.mode() {
                NetworkMode::Host => {}
                NetworkMode::Bridge if driver.has(Ability::Processes) => {}
                NetworkMode::None if driver.has(Ability::NoNetwork) => {}
                NetworkMode::None => {
                    let able = node.drivers.with(Ability::NoNetwork);
                    return Err(Failed::hopeless(format!(
                        "network mode none needs a driver with isolation: {able}"
                    )));
                }
                NetworkMode::Bridge => {
                    return Err(Failed::hopeless(format!(
                        "task {:?} does not support \"bridge\" networking mode: driver {} has no \
                         process to put into a network",
                        task.name, task.driver
                    )));
                }
                NetworkMode::Cni(_) | NetworkMode::Unknown(_) => {
                    return Err(Failed::hopeless(format!(
                        "network mode {:?} is not supported by this node",
                        network.mode
                    )));
                }
            }
        }
        if !driver.has(Ability::Volumes) && !task.volume_mounts.is_empty() {
            let problem = format!("driver {} cannot mount volumes", task.driver);
            return Err(Failed::hopeless(problem));
        }
        Ok(())
    }

    fn task_directory(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let owner = self.owner_of(prepare, task)?;
        let access = match &owner {
            Some(owner) => self.access_of(&task.driver, owner),
            None => TaskAccess::unknown(),
        };
        self.allocs
            .build_task(prepare.run.alloc, &task.name, access)
            .map_err(|error| Failed::possible_of(&error))
    }

    /// Who reaches the directories of a task.
    pub(super) fn access_of<'a>(&self, driver: &str, owner: &'a Identity) -> TaskAccess<'a> {
        let config = self.config.now();
        let settings = config.drivers.find(driver);
        // A task without a process needs no way for one.
        let root = settings
            .filter(|settings| settings.has(Ability::Processes))
            .map_or(TaskRoot::OwnRoot, DriverSettings::root);
        TaskAccess::new(owner, root)
    }

    /// Whom a task's directories belong to; `None` for a user that only the task's templates name:
    /// it is known when the task starts.
    fn owner_of(&self, prepare: &PrepareTask, task: &Task) -> Result<Option<Identity>, Failed> {
        if prepare.user.contains("${") {
            return Ok(None);
        }
        identity_of(&self.config.now(), &task.driver, &prepare.user)
            .map(Some)
            .map_err(Failed::hopeless)
    }

    /// The user that a run's task runs as, where it is known before the task starts.
    pub(super) fn owner_of_run(&self, prepare: &PrepareTask) -> Result<Option<Identity>, String> {
        let task = prepare.spec.task(&prepare.run.task);
        let task = task.ok_or_else(|| "the job has no such task".to_owned())?;
        self.owner_of(prepare, task)
            .map_err(|failed| failed.message)
    }

    fn logs(&self, prepare: &PrepareTask, task: &Task) -> Result<(), Failed> {
        let log = task.log_config.clone().unwrap_or_default();
        let config = self.config.now();
        let writes = config.drivers.find(&task.driver);
        let writes = writes.is_some_and(|driver| driver.has(Ability::Processes));
        if log.disabled() || !writes {
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
            .map_err(|error| Failed::possible_of(&error))
    }

    fn dispatch_payload(&self, prepare: &PrepareTask) -> Result<(), Failed> {
        let Some(file) = &prepare.dispatch_payload_file else {
            return Ok(());
        };
        let payload = prepare.spec.job().payload.as_deref().unwrap_or_default();
        let payload = payload_bytes(payload)
            .map_err(|error| Failed::hopeless(format!("the dispatched payload: {error}")))?;
        let attributes = FileAttributes {
            mode: 0o644,
            owner: None,
        };
        self.allocs
            .write_file(prepare.run.alloc, Path::new(file), &payload, attributes)
            .map_err(|error| Failed::possible_of(&error))
    }
}

/// A driver without processes only imitates a mount.
fn check_volumes(driver: &DriverSettings, task: &Task) -> Result<(), Failed> {
    let mounts_in_vain = driver.has(Ability::Processes) && !driver.has(Ability::Volumes);
    if mounts_in_vain && !task.volume_mounts.is_empty() {
        return Err(Failed::hopeless(format!(
            "task driver {:?} for {:?} does not support host volumes",
            task.driver, task.name
        )));
    }
    Ok(())
}

/// The signals of a task are this node's.
fn check_signals(task: &Task) -> Result<(), Failed> {
    let of_templates = task.templates.iter().filter_map(|template| {
        let signals = template.change_mode() == Ok(ChangeMode::Signal);
        signals.then(|| ("change_signal", template.change_signal()))
    });
    let kill = Some(("kill_signal", task.kill_signal.as_str()));
    let kill = kill.filter(|(_, signal)| !signal.is_empty());
    let of_identities = shown_identities(task).filter_map(|identity| {
        let signals = identity.change_mode == ChangeMode::Signal.as_str();
        signals.then_some(("change_signal", identity.change_signal.as_str()))
    });
    let all = kill.into_iter().chain(of_templates).chain(of_identities);
    for (key, signal) in all {
        if os_signal::number(signal).is_none() {
            let problem = format!("{key}: {signal:?} is no signal of this node");
            return Err(Failed::hopeless(problem));
        }
    }
    Ok(())
}

/// The bytes of a dispatch's payload, which the job has as base64 of Snappy's block format.
fn payload_bytes(text: &str) -> Result<Vec<u8>, String> {
    let compressed = decoded(text).map_err(|error| error.to_string())?;
    if compressed.is_empty() {
        return Ok(Vec::new());
    }
    let length = snap::raw::decompress_len(&compressed).map_err(|error| error.to_string())?;
    if length > DISPATCH_PAYLOAD_BYTES_MAX {
        return Err(format!(
            "{length} bytes, more than {DISPATCH_PAYLOAD_BYTES_MAX}"
        ));
    }
    let mut decoder = snap::raw::Decoder::new();
    decoder
        .decompress_vec(&compressed)
        .map_err(|error| error.to_string())
}

/// The bytes behind a padded base64 text (RFC 4648, section 4). Line breaks are skipped and bits
/// behind the last byte are ignored, as Go's decoder does.
fn decoded(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    const LIKE_GO: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let mut letters = text.as_bytes().to_vec();
    letters.retain(|byte| !byte.is_ascii_whitespace());
    LIKE_GO.decode(letters)
}

fn has_references(config: &serde_json::Map<String, serde_json::Value>) -> bool {
    config
        .values()
        .any(|value| value.to_string().contains("${"))
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
    use super::{decoded, payload_bytes};

    #[test]
    fn a_payload_is_read_as_nomad_writes_it() {
        // Go's snappy.Encode of "hi\n" and of nothing.
        assert_eq!(payload_bytes("AwhoaQo=").as_deref(), Ok(&b"hi\n"[..]));
        assert_eq!(payload_bytes("AA==").as_deref(), Ok(&b""[..]));
        assert_eq!(payload_bytes("").as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn a_payload_that_makes_no_sense_is_refused() {
        // No base64; another length than it says.
        for text in ["?", "BAhoaQo="] {
            let problem = payload_bytes(text).expect_err(text);
            assert!(!problem.is_empty(), "{text}");
        }
        let long = payload_bytes("/////w8=").expect_err("too long");
        assert!(long.contains("more than 16384"), "{long}");
    }

    #[test]
    fn payloads_are_read_as_go_reads_base64() {
        for (text, expected) in [
            ("", Some("")),
            ("Zm9vYg==", Some("foob")),
            ("Zm9v\nYmFy\r\n", Some("foobar")),
            ("Zh==", Some("f")),
            ("Zg=", None),
            ("Zm9*", None),
            ("Zg==Zg==", None),
        ] {
            assert_eq!(
                decoded(text).ok().as_deref(),
                expected.map(str::as_bytes),
                "{text}"
            );
        }
    }
}
