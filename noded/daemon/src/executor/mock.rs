//! `mock_driver`: tasks without a process, for tests of whole clusters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noded_core::event::{Exit, ExitStatus, RunEvent};
use noded_core::{Event, RunKey};
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::driver::MockConfig;
use crate::input::Input;

/// Mock runs that have not ended. They do not outlive noded.
#[derive(Debug)]
pub(super) struct MockRuns {
    inputs: mpsc::Sender<Input>,
    running: Arc<Mutex<BTreeMap<RunKey, watch::Sender<bool>>>>,
}

impl MockRuns {
    pub(super) fn new(inputs: mpsc::Sender<Input>) -> Self {
        Self {
            inputs,
            running: Arc::default(),
        }
    }

    pub(super) fn start(&self, run: RunKey, config: MockConfig) {
        let (stop, stopped) = watch::channel(false);
        lock(&self.running).insert(run.clone(), stop);
        tokio::spawn(live(run, config, stopped, self.inputs.clone()));
    }

    /// Asks a mock run to end; `false` where there is none of this name.
    pub(super) fn stop(&self, run: &RunKey) -> bool {
        match lock(&self.running).get(run) {
            Some(stop) => {
                stop.send_replace(true);
                true
            }
            None => false,
        }
    }

    pub(super) fn forget(&self, run: &RunKey) {
        lock(&self.running).remove(run);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
