//! The drivers of this release: one file each, one line in [`ALL`].
//!
//! ```text
//!   config block --check--> SandboxedTask --sandbox--> SandboxSpec --> keeper     exec, raw_exec
//!                `--check--> OwnRuns::start, stop, forget                         mock_driver
//! ```
//!
//! What the rest of noded wants to know of a driver it reads from [`Driver::capabilities`], never
//! from its name. Settings of the node are in `config::drivers`.

mod error;
mod exec;
mod fields;
mod mock;
mod program;
mod raw_exec;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use isolation::enforcement::Enforcement;
use isolation::{Bind, Identity, Network, SandboxSpec, TaskLayout};
use noded_core::RunKey;
use noded_core::driver::DriverCapabilities;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::config::{DriverSettings, Switch};
use crate::input::Input;

pub use error::{DriverError, StartFailed};
pub use fields::Fields;
pub use mock::MockConfig;

/// Every driver, by name.
pub(crate) const ALL: [&dyn Driver; 3] = [&exec::Exec, &mock::Mock, &raw_exec::RawExec];

/// The driver that jobs call `name`; `None` where this release has none.
pub fn find(name: &str) -> Option<&'static dyn Driver> {
    ALL.into_iter().find(|driver| driver.name() == name)
}

/// One driver. It has no state of its own.
pub trait Driver: fmt::Debug + Send + Sync {
    /// What jobs call it.
    fn name(&self) -> &'static str;

    /// What its tasks are, and what they may ask for.
    fn capabilities(&self) -> DriverCapabilities;

    /// Whether jobs may use it where the node's configuration does not say.
    fn enabled(&self) -> Switch;

    /// The node's settings for it besides `enabled`: keys of its block.
    fn settings(&self) -> &'static [&'static str];

    /// Whom tasks run as where their job does not say; `None` = whom keeper runs as.
    fn default_user(&self) -> Option<&'static str> {
        None
    }

    /// What this host lacks for it.
    fn lacks(&self, _host: &Enforcement) -> Option<&'static str> {
        None
    }

    /// Who runs its tasks.
    fn custody(&self) -> Custody<'_>;
}

impl PartialEq for dyn Driver {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Driver {}

/// Who runs the tasks of a driver.
#[expect(missing_debug_implementations)]
pub enum Custody<'d> {
    /// Keeper, in the sandbox that the driver describes.
    Sandboxed(&'d dyn SandboxDriver),
    /// The driver itself.
    Own(&'d dyn OwnDriver),
}

/// A driver whose tasks keeper runs. Pure.
pub trait SandboxDriver {
    /// Reads what a job's `config` block says, as far as this node allows it.
    ///
    /// # Errors
    /// A field is missing or wrong, or asks for what the node does not give.
    fn check(
        &self,
        config: &mut Fields,
        settings: &DriverSettings,
    ) -> Result<Box<dyn SandboxedTask>, DriverError>;
}

/// A checked configuration.
pub trait SandboxedTask: fmt::Debug + Send + Sync {
    /// The sandbox; environment and limits are added to it afterwards.
    fn sandbox(&self, inputs: TaskInputs) -> SandboxSpec;

    /// Limits that it asks for besides its resources.
    fn asked_limits(&self) -> AskedLimits {
        AskedLimits::default()
    }

    /// Variables of the host that the task does not get.
    fn denied_variables(&self) -> &[String] {
        &[]
    }
}

/// Limits that a task asks for besides the resources of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskedLimits {
    /// Whether its share of the processors is also a ceiling.
    pub cpu: CpuCeiling,
    /// Whether a kill for want of memory takes the whole task, instead of one process.
    pub oom_group: bool,
}

/// Whether a task's share of the processors is a ceiling, even when others are idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CpuCeiling {
    /// The driver has no such key: it is not.
    #[default]
    Never,
    /// The job does not say it: the node's `task_cpu_hard_limit`.
    NodeDecides,
    /// The job says it.
    Asked(Switch),
}

/// What a sandbox is made of besides the job's configuration.
#[derive(Debug)]
pub struct TaskInputs {
    /// Whom the task runs as.
    pub identity: Identity,
    /// Where its directories are.
    pub layout: TaskLayout,
    /// Its network.
    pub network: Network,
    /// What it sees of the host; nothing where it has no root of its own.
    pub view: HostPaths,
}

/// What a task with a root of its own sees of the host.
#[derive(Debug, Default)]
pub struct HostPaths {
    /// Directories and files, at the same place.
    pub paths: Vec<PathBuf>,
    /// Volumes.
    pub binds: Vec<Bind>,
    /// Parts of both that are hidden.
    pub masked: Vec<PathBuf>,
}

/// A driver that runs its tasks itself.
pub trait OwnDriver {
    /// Checks what a job's `config` block says.
    ///
    /// # Errors
    /// A field is missing or wrong.
    fn check(&self, config: &mut Fields) -> Result<(), DriverError>;

    /// Its runs, from the start of noded on. What becomes of them is told to `inputs`.
    fn runs(&self, inputs: mpsc::Sender<Input>) -> Box<dyn OwnRuns>;
}

/// The runs of a driver that runs its tasks itself.
pub trait OwnRuns: fmt::Debug + Send + Sync {
    /// Starts a run.
    ///
    /// # Errors
    /// It did not start, or cannot with this configuration.
    fn start(&self, run: RunKey, config: &Map<String, Value>) -> Result<(), StartFailed>;

    /// Asks a run to end; `false` where there is none of this name.
    fn stop(&self, run: &RunKey) -> bool;

    /// Nobody asks for a run any more.
    fn forget(&self, run: &RunKey);
}

/// The runs of all drivers that run their tasks themselves, by the driver's name.
pub(crate) fn own_runs(inputs: &mpsc::Sender<Input>) -> BTreeMap<&'static str, Box<dyn OwnRuns>> {
    let runs = |driver: &'static dyn Driver| match driver.custody() {
        Custody::Sandboxed(_) => None,
        Custody::Own(own) => Some((driver.name(), own.runs(inputs.clone()))),
    };
    ALL.into_iter().filter_map(runs).collect()
}

/// A task's configuration, checked.
#[derive(Debug)]
pub enum Checked {
    /// Of a driver whose tasks keeper runs.
    Sandboxed(Box<dyn SandboxedTask>),
    /// Of a driver that runs its tasks itself.
    Own,
}

impl DriverSettings {
    /// Checks the configuration of one task of this driver.
    ///
    /// # Errors
    /// A field is missing, unknown or wrong, or asks for what the node does not give.
    pub fn check(&self, config: &Map<String, Value>) -> Result<Checked, DriverError> {
        let mut fields = Fields::new(config);
        let checked = match self.driver.custody() {
            Custody::Sandboxed(driver) => Checked::Sandboxed(driver.check(&mut fields, self)?),
            Custody::Own(driver) => {
                driver.check(&mut fields)?;
                Checked::Own
            }
        };
        fields.finish()?;
        Ok(checked)
    }
}

#[cfg(test)]
mod tests;
