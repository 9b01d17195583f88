//! `exec`: own root, namespaces, few capabilities.

use isolation::enforcement::Enforcement;
use isolation::{Capabilities, CapabilitySet, FirstProcess, Namespace, Root, SandboxSpec};
use noded_core::driver::{Ability, DriverCapabilities, TaskRoot};

use super::fields::invalid;
use super::program::Program;
use super::{
    AskedLimits, CpuCeiling, Custody, Driver, DriverError, Fields, HostPaths, SandboxDriver,
    SandboxedTask, TaskInputs,
};
use crate::config::{DENIED_GIDS, DENIED_UIDS, DriverSettings, HOST_IPC, HOST_PIDS, Switch};

const NAME: &str = "exec";

/// The driver.
#[derive(Debug)]
pub(super) struct Exec;

impl Driver for Exec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> DriverCapabilities {
        DriverCapabilities {
            root: TaskRoot::OwnRoot,
            abilities: &[
                Ability::Processes,
                Ability::NoNetwork,
                Ability::Volumes,
                Ability::MemoryLimit,
            ],
        }
    }

    fn enabled(&self) -> Switch {
        Switch::On
    }

    fn settings(&self) -> &'static [&'static str] {
        &[DENIED_UIDS, DENIED_GIDS, HOST_PIDS, HOST_IPC]
    }

    /// Nomad's default for tasks with a root of their own.
    fn default_user(&self) -> Option<&'static str> {
        Some("nobody")
    }

    fn lacks(&self, host: &Enforcement) -> Option<&'static str> {
        (!host.seccomp).then_some("the kernel has no seccomp filters")
    }

    fn custody(&self) -> Custody<'_> {
        Custody::Sandboxed(self)
    }
}

impl SandboxDriver for Exec {
    fn check(
        &self,
        config: &mut Fields,
        settings: &DriverSettings,
    ) -> Result<Box<dyn SandboxedTask>, DriverError> {
        Ok(Box::new(Config::read(config, settings)?))
    }
}

/// What a job says.
#[derive(Debug, PartialEq, Eq)]
struct Config {
    program: Program,
    capabilities: CapabilitySet,
    host_pids: HostView,
    host_ipc: HostView,
    /// Whether a reaper is PID 1 of its process ids, instead of the program.
    first_process: FirstProcess,
    limits: AskedLimits,
}

/// Whether a task has something of its own or the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostView {
    /// `private`.
    Private,
    /// `host`.
    Host,
}

impl Config {
    fn read(fields: &mut Fields, settings: &DriverSettings) -> Result<Self, DriverError> {
        let host_pids = view(fields, "pid_mode")?;
        let read = Self {
            program: Program::read(fields)?,
            capabilities: capabilities(fields)?,
            host_pids,
            host_ipc: view(fields, "ipc_mode")?,
            first_process: first_process(fields, host_pids)?,
            limits: asked_limits(fields)?,
        };
        for (field, key, asked, allowed) in [
            ("pid_mode", HOST_PIDS, read.host_pids, settings.host_pids),
            ("ipc_mode", HOST_IPC, read.host_ipc, settings.host_ipc),
        ] {
            if asked == HostView::Host && allowed == Switch::Off {
                return Err(DriverError::HostMode {
                    driver: NAME,
                    field,
                    key,
                });
            }
        }
        Ok(read)
    }
}

impl SandboxedTask for Config {
    fn sandbox(&self, inputs: TaskInputs) -> SandboxSpec {
        let TaskInputs {
            identity,
            layout,
            network,
            view,
        } = inputs;
        let HostPaths {
            paths,
            binds,
            masked,
        } = view;
        let mut spec = SandboxSpec::exec(layout.clone(), identity, &self.program.command);
        spec.root = Root::ReadOnlyHostView {
            layout,
            paths,
            binds,
            masked,
        };
        spec.network = network;
        spec.capabilities = Capabilities::Only(self.capabilities);
        spec.first_process = self.first_process;
        if self.host_pids == HostView::Host {
            spec.namespaces.remove(&Namespace::Pid);
        }
        if self.host_ipc == HostView::Host {
            spec.namespaces.remove(&Namespace::Ipc);
        }
        self.program.enter(&mut spec);
        spec
    }

    fn asked_limits(&self) -> AskedLimits {
        self.limits
    }
}

fn asked_limits(fields: &mut Fields) -> Result<AskedLimits, DriverError> {
    let cpu = match fields.flag("cpu_hard_limit")? {
        Some(asked) => CpuCeiling::Asked(asked.into()),
        None => CpuCeiling::NodeDecides,
    };
    Ok(AskedLimits {
        cpu,
        oom_group: fields.flag("oom_group")?.unwrap_or(false),
    })
}

/// Nomad's rule: a job may add only what the operator allows (its default set), and drop any.
fn capabilities(fields: &mut Fields) -> Result<CapabilitySet, DriverError> {
    let mut read = |field: &str| -> Result<CapabilitySet, DriverError> {
        let names = fields.texts(field)?;
        CapabilitySet::from_names(names.iter().map(String::as_str))
            .map_err(|error| invalid(field, error.to_string()))
    };
    let (added, dropped) = (read("cap_add")?, read("cap_drop")?);
    let allowed = CapabilitySet::TASK_DEFAULT;
    let refused = added.difference(allowed);
    if !refused.is_empty() {
        let problem = format!("this node does not allow {refused}");
        return Err(invalid("cap_add", problem));
    }
    Ok(allowed.difference(dropped).union(added))
}

fn view(fields: &mut Fields, field: &str) -> Result<HostView, DriverError> {
    match fields.text(field)?.as_deref() {
        None | Some("" | "private") => Ok(HostView::Private),
        Some("host") => Ok(HostView::Host),
        Some(other) => Err(invalid(
            field,
            format!("{other:?} is neither private nor host"),
        )),
    }
}

/// `init = true`: only where there is a PID 1 to be.
fn first_process(fields: &mut Fields, host_pids: HostView) -> Result<FirstProcess, DriverError> {
    match (fields.flag("init")?.unwrap_or(false), host_pids) {
        (false, _) => Ok(FirstProcess::Program),
        (true, HostView::Private) => Ok(FirstProcess::Reaper),
        (true, HostView::Host) => Err(invalid(
            "init",
            "it needs process ids of the task's own, and pid_mode is host",
        )),
    }
}
