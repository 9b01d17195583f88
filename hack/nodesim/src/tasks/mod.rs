//! Imitated tasks: each is a timer and what is told when it goes off.
//!
//! ```text
//!   start --delay--> Started --run_for--> Exited(exit_code)
//!                       |---stop, delay--> Exited(0)
//!                       `---kill, lease over (also while it stops)--> Exited(signal 9)
//! ```

mod leases;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noded_core::event::{Exit, ExitStatus, KeptPhase, KeptRun, RunEvent};
use noded_core::{Event, Moment, RunKey};
use noded_daemon::clock::Clock;
use noded_daemon::input::Input;
use parking_lot::Mutex;
use protocol_model::AllocId;
use tokio::sync::{mpsc, watch};

/// How tasks behave where their jobs do not say.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// From being asked until a task runs.
    pub start_delay: Duration,
    /// From being asked until it has ended.
    pub stop_delay: Duration,
}

/// How one task behaves.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// From being asked until it runs.
    pub start_after: Duration,
    /// How long it runs by itself; `None` = until it is ended.
    pub run_for: Option<Duration>,
    /// Its exit code then.
    pub exit_code: i32,
    /// From being asked until it has ended.
    pub stop_after: Duration,
}

/// What the tasks of all nodes did, counted.
#[derive(Debug, Default)]
pub struct TaskCounts {
    /// Runs that began.
    pub starts: AtomicU64,
    /// Runs that were asked to end.
    pub stops: AtomicU64,
    /// Runs that ended, however.
    pub ends: AtomicU64,
    /// Allocations of which a run ended because their lease was over.
    expired: Mutex<BTreeSet<AllocId>>,
}

impl TaskCounts {
    /// Allocations of which a run ended because their lease was over.
    pub fn expired(&self) -> BTreeSet<AllocId> {
        self.expired.lock().clone()
    }

    fn expire(&self, alloc: AllocId) {
        self.expired.lock().insert(alloc);
    }
}

/// What becomes of a run; what comes later in this list has the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Run,
    Stop,
    Kill,
    Expire,
}

/// The imitated tasks of one node. As keeper's, they outlive the daemon, and how they ended is kept
/// until it is acknowledged.
#[derive(Debug)]
pub struct Tasks {
    counts: Arc<TaskCounts>,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The daemon of this moment.
    inputs: mpsc::Sender<Input>,
    runs: BTreeMap<RunKey, Run>,
    /// Until when allocations may run.
    leases: BTreeMap<AllocId, watch::Sender<Moment>>,
}

#[derive(Debug)]
struct Run {
    phase: KeptPhase,
    wish: watch::Sender<Wish>,
}

impl Run {
    fn raise(&self, wish: Wish) {
        self.wish.send_if_modified(|it| {
            let raised = wish > *it;
            *it = wish.max(*it);
            raised
        });
    }
}

impl Tasks {
    /// No task yet. What they do is told to `inputs`.
    pub fn new(
        inputs: mpsc::Sender<Input>,
        counts: Arc<TaskCounts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let inner = Inner {
            inputs,
            runs: BTreeMap::new(),
            leases: BTreeMap::new(),
        };
        Self {
            counts,
            clock,
            inner: Mutex::new(inner),
        }
    }

    /// Another daemon is told from now on; answers what it has to know at its start.
    pub fn hand_over(&self, inputs: mpsc::Sender<Input>) -> Vec<KeptRun> {
        let mut inner = self.inner.lock();
        inner.inputs = inputs;
        let runs = inner.runs.iter();
        runs.map(|(run, kept)| KeptRun {
            run: run.clone(),
            phase: kept.phase.clone(),
        })
        .collect()
    }

    /// Begins a run.
    pub fn start(self: &Arc<Self>, run: RunKey, script: Script) {
        let (wish, wishes) = watch::channel(Wish::Run);
        let phase = KeptPhase::Starting;
        self.inner
            .lock()
            .runs
            .insert(run.clone(), Run { phase, wish });
        self.counts.starts.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(Arc::clone(self).live(run, script, wishes));
    }

    /// Asks a run to end; what is known at once where there is none of this name.
    pub fn stop(&self, run: RunKey) -> Vec<Event> {
        self.wish(run, Wish::Stop)
    }

    /// Ends a run; what is known at once where there is none of this name.
    pub fn kill(&self, run: RunKey) -> Vec<Event> {
        self.wish(run, Wish::Kill)
    }

    /// The end of a run is recorded.
    pub fn release(&self, run: &RunKey) {
        self.inner.lock().runs.remove(run);
    }

    /// The host loses its power: nothing runs any more, and nobody is told.
    pub fn lose_power(&self) {
        let mut inner = self.inner.lock();
        inner.runs.clear();
        inner.leases.clear();
    }

    /// The runs that go on.
    pub fn running(&self) -> Vec<RunKey> {
        let inner = self.inner.lock();
        let goes_on = |run: &&Run| !matches!(run.phase, KeptPhase::Exited(_));
        let runs = inner.runs.iter().filter(|(_, run)| goes_on(run));
        runs.map(|(run, _)| run.clone()).collect()
    }

    fn wish(&self, run: RunKey, wish: Wish) -> Vec<Event> {
        let ended = match self.inner.lock().runs.get(&run) {
            Some(Run {
                phase: KeptPhase::Exited(exit),
                ..
            }) => exit.clone(),
            Some(kept) => {
                self.counts.stops.fetch_add(1, Ordering::Relaxed);
                kept.raise(wish);
                return Vec::new();
            }
            None => self.exit(ExitStatus::Unknown),
        };
        let event = RunEvent::Exited(ended);
        vec![Event::Run { run, event }]
    }

    async fn live(self: Arc<Self>, run: RunKey, script: Script, mut wishes: watch::Receiver<Wish>) {
        tokio::time::sleep(script.start_after).await;
        let at = self.clock.wall();
        // A task has a process, and so a number; nobody looks for it.
        let running = KeptPhase::Running {
            pid: 1,
            at,
            stopping: false,
        };
        self.becomes(&run, running, RunEvent::Started { pid: 1, at })
            .await;
        let by_itself = async {
            match script.run_for {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let mut exit = tokio::select! {
            () = by_itself => Some(self.exit(ExitStatus::Code(script.exit_code))),
            _ = wishes.wait_for(|wish| *wish >= Wish::Stop) => None,
        };
        if exit.is_none() && *wishes.borrow() == Wish::Stop {
            exit = tokio::select! {
                () = tokio::time::sleep(script.stop_after) => Some(self.exit(ExitStatus::Code(0))),
                _ = wishes.wait_for(|wish| *wish > Wish::Stop) => None,
            };
        }
        if wishes.has_changed().is_err() {
            // The host lost its power, and with it whoever could be told.
            return;
        }
        let exit = exit.unwrap_or_else(|| self.killed(&run, *wishes.borrow()));
        self.counts.ends.fetch_add(1, Ordering::Relaxed);
        let told = RunEvent::Exited(exit.clone());
        self.becomes(&run, KeptPhase::Exited(exit), told).await;
    }

    async fn becomes(&self, run: &RunKey, phase: KeptPhase, told: RunEvent) {
        let inputs = {
            let mut inner = self.inner.lock();
            if let Some(kept) = inner.runs.get_mut(run) {
                kept.phase = phase;
            }
            inner.inputs.clone()
        };
        let event = Event::Run {
            run: run.clone(),
            event: told,
        };
        // A daemon that ended will hear of it from the next list.
        let _ = inputs.send(Input::Event(event)).await;
    }

    fn killed(&self, run: &RunKey, wish: Wish) -> Exit {
        let lease_expired = wish == Wish::Expire;
        if lease_expired {
            self.counts.expire(run.alloc);
        }
        Exit {
            lease_expired,
            ..self.exit(ExitStatus::Signal(9))
        }
    }

    fn exit(&self, status: ExitStatus) -> Exit {
        Exit {
            status,
            oom_killed: false,
            signal_discarded: false,
            lease_expired: false,
            at: self.clock.wall(),
        }
    }
}

#[cfg(test)]
mod tests;
