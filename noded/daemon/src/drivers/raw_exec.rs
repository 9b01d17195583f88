//! `raw_exec`: the host as it is.

use isolation::SandboxSpec;
use noded_core::driver::{DriverCapabilities, TaskRoot};

use super::program::Program;
use super::{Custody, Driver, DriverError, Fields, SandboxDriver, SandboxedTask, TaskInputs};
use crate::config::{DENIED_GIDS, DENIED_UIDS, DriverSettings, Switch};

/// The driver.
#[derive(Debug)]
pub(super) struct RawExec;

impl Driver for RawExec {
    fn name(&self) -> &'static str {
        "raw_exec"
    }

    fn capabilities(&self) -> DriverCapabilities {
        DriverCapabilities::of(TaskRoot::Host)
    }

    fn enabled(&self) -> Switch {
        Switch::Off
    }

    fn settings(&self) -> &'static [&'static str] {
        &[DENIED_UIDS, DENIED_GIDS]
    }

    fn custody(&self) -> Custody<'_> {
        Custody::Sandboxed(self)
    }
}

impl SandboxDriver for RawExec {
    fn check(
        &self,
        config: &mut Fields,
        _settings: &DriverSettings,
    ) -> Result<Box<dyn SandboxedTask>, DriverError> {
        Ok(Box::new(Config {
            program: Program::read(config)?,
            denied_envvars: config.texts("denied_envvars")?,
        }))
    }
}

/// What a job says.
#[derive(Debug)]
struct Config {
    program: Program,
    denied_envvars: Vec<String>,
}

impl SandboxedTask for Config {
    fn sandbox(&self, inputs: TaskInputs) -> SandboxSpec {
        let mut spec = SandboxSpec::raw_exec(inputs.layout, &self.program.command);
        spec.identity = inputs.identity;
        spec.network = inputs.network;
        self.program.enter(&mut spec);
        spec
    }

    fn denied_variables(&self) -> &[String] {
        &self.denied_envvars
    }
}
