//! `mock_driver`: tasks without a process, for tests of whole clusters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use noded_core::driver::{Ability, DriverCapabilities, TaskRoot};
use noded_core::event::{Exit, ExitStatus, Recovery, RunEvent};
use noded_core::{Event, RunKey};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use super::fields::invalid;
use super::{Custody, Driver, DriverError, Fields, OwnDriver, OwnRuns, StartFailed};
use crate::clock;
use crate::config::Switch;
use crate::input::Input;

/// The driver.
#[derive(Debug)]
pub(super) struct Mock;

impl Driver for Mock {
    fn name(&self) -> &'static str {
        "mock_driver"
    }

    fn capabilities(&self) -> DriverCapabilities {
        DriverCapabilities {
            root: TaskRoot::Host,
            abilities: &[Ability::Volumes],
        }
    }

    fn enabled(&self) -> Switch {
        Switch::Off
    }

    fn settings(&self) -> &'static [&'static str] {
        &[]
    }

    fn custody(&self) -> Custody<'_> {
        Custody::Own(self)
    }
}

impl OwnDriver for Mock {
    fn check(&self, config: &mut Fields) -> Result<(), DriverError> {
        MockConfig::read(config).map(drop)
    }

    fn runs(&self, inputs: mpsc::Sender<Input>) -> Box<dyn OwnRuns> {
        Box::new(MockRuns {
            inputs,
            running: Arc::default(),
        })
    }
}

/// What a job says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MockConfig {
    /// How long it runs; for ever unless given.
    pub run_for: Option<Duration>,
    /// How it ends.
    pub exit_code: i32,
    /// Why it does not start.
    pub start_error: Option<String>,
    /// Whether another attempt may start.
    pub start_error_recoverable: bool,
    /// How long it takes to start.
    pub start_block_for: Duration,
    /// How long it goes on after it was asked to stop.
    pub kill_after: Duration,
}

impl MockConfig {
    /// Reads a whole `config` block.
    ///
    /// # Errors
    /// A field is unknown or wrong.
    pub fn parse(config: &Map<String, Value>) -> Result<Self, DriverError> {
        let mut fields = Fields::new(config);
        let read = Self::read(&mut fields)?;
        fields.finish()?;
        Ok(read)
    }

    fn read(fields: &mut Fields) -> Result<Self, DriverError> {
        Ok(Self {
            run_for: fields.duration("run_for")?,
            exit_code: i32::try_from(fields.number("exit_code")?.unwrap_or(0))
                .map_err(|_| invalid("exit_code", "it does not fit"))?,
            start_error: fields.text("start_error")?,
            start_error_recoverable: fields.flag("start_error_recoverable")?.unwrap_or(false),
            start_block_for: fields.duration("start_block_for")?.unwrap_or_default(),
            kill_after: fields.duration("kill_after")?.unwrap_or_default(),
        })
    }
}

/// Runs that have not ended. They do not outlive noded.
#[derive(Debug)]
struct MockRuns {
    inputs: mpsc::Sender<Input>,
    running: Arc<Mutex<BTreeMap<RunKey, watch::Sender<bool>>>>,
}

impl OwnRuns for MockRuns {
    fn start(&self, run: RunKey, config: &Map<String, Value>) -> Result<(), StartFailed> {
        let config = MockConfig::parse(config)?;
        if let Some(message) = config.start_error {
            let recovery = match config.start_error_recoverable {
                true => Recovery::Possible,
                false => Recovery::Hopeless,
            };
            return Err(StartFailed { message, recovery });
        }
        let (stop, stopped) = watch::channel(false);
        self.running.lock().insert(run.clone(), stop);
        tokio::spawn(live(run, config, stopped, self.inputs.clone()));
        Ok(())
    }

    fn stop(&self, run: &RunKey) -> bool {
        match self.running.lock().get(run) {
            Some(stop) => {
                stop.send_replace(true);
                true
            }
            None => false,
        }
    }

    fn forget(&self, run: &RunKey) {
        self.running.lock().remove(run);
    }
}

async fn live(
    run: RunKey,
    config: MockConfig,
    mut stopped: watch::Receiver<bool>,
    inputs: mpsc::Sender<Input>,
) {
    tokio::time::sleep(config.start_block_for).await;
    let tell = |event| {
        let event = Event::Run {
            run: run.clone(),
            event,
        };
        inputs.send(Input::Event(event))
    };
    let at = clock::wall();
    if tell(RunEvent::Started { pid: 0, at }).await.is_err() {
        return;
    }
    let end = config.run_for.unwrap_or(Duration::MAX);
    let code = tokio::select! {
        () = tokio::time::sleep(end) => config.exit_code,
        stopping = async { stopped.wait_for(|stop| *stop).await.is_ok() } => {
            if !stopping {
                return;
            }
            tokio::time::sleep(config.kill_after).await;
            0
        }
    };
    let exit = Exit {
        status: ExitStatus::Code(code),
        oom_killed: false,
        signal_discarded: false,
        lease_expired: false,
        at: clock::wall(),
    };
    // A loop that ended no longer wants to know.
    let _ = tell(RunEvent::Exited(exit)).await;
}
