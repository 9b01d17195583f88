//! Scheduler threads: a snapshot and an evaluation in, a decision out. A panic in the scheduler
//! costs one evaluation's delivery, never the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self as std_mpsc, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use controlplane_leader::broker::Delivery;
use controlplane_scheduler::{Decision, Scratch, schedule};
use controlplane_state::Snapshot;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::cluster::wall_clock;

/// Evaluations that wait for a thread: one per thread is handed out at first, the rest are second
/// attempts of plans that were overtaken.
const JOBS_MAX: usize = 1024;

/// An evaluation to schedule.
#[derive(Debug)]
struct Job {
    delivery: Delivery,
    snapshot: Snapshot,
    attempt: u32,
}

/// An evaluation that was scheduled.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) delivery: Delivery,
    /// The attempt's number, from 1.
    pub(super) attempt: u32,
    /// `None` where the scheduler panicked.
    pub(super) decision: Option<Decision>,
}

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: std_mpsc::SyncSender<Job>,
    decided: mpsc::Receiver<Decided>,
    busy: std::cell::Cell<usize>,
    threads: usize,
}

impl Workers {
    pub(super) fn start(threads: usize) -> Self {
        let (jobs, queue) = std_mpsc::sync_channel(JOBS_MAX);
        let (results, decided) = mpsc::channel(JOBS_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads {
            let (queue, results) = (Arc::clone(&queue), results.clone());
            let spawned = std::thread::Builder::new()
                .name(format!("scheduler-{number}"))
                .spawn(move || work(&queue, &results));
            if let Err(error) = spawned {
                tracing::error!(%error, "a scheduler thread could not be started");
            }
        }
        Self {
            jobs,
            decided,
            busy: std::cell::Cell::new(0),
            threads,
        }
    }

    /// Whether a thread waits for work.
    pub(super) fn idle(&self) -> bool {
        self.busy.get() < self.threads
    }

    /// Gives an evaluation to a thread.
    ///
    /// # Errors
    /// The delivery, where too many wait already or no thread is left: to be refused, and handed
    /// out again later.
    pub(super) fn schedule(
        &self,
        delivery: Delivery,
        snapshot: Snapshot,
        attempt: u32,
    ) -> Result<(), Delivery> {
        match self.jobs.try_send(Job {
            delivery,
            snapshot,
            attempt,
        }) {
            Ok(()) => {
                self.busy.set(self.busy.get() + 1);
                Ok(())
            }
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Err(job.delivery),
        }
    }

    /// The next decision.
    pub(super) async fn next(&mut self) -> Option<Decided> {
        let decided = self.decided.recv().await;
        if decided.is_some() {
            self.busy.set(self.busy.get().saturating_sub(1));
        }
        decided
    }
}

fn work(queue: &Mutex<std_mpsc::Receiver<Job>>, results: &mpsc::Sender<Decided>) {
    let mut scratch = Scratch::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job {
            delivery,
            snapshot,
            attempt,
        }) = next
        else {
            return;
        };
        let seed = *Uuid::new_v4().as_bytes();
        let decision = catch_unwind(AssertUnwindSafe(|| {
            schedule(&snapshot, &delivery.eval, seed, &mut scratch, wall_clock())
        }));
        if decision.is_err() {
            // Whatever it left in there may be half-done.
            scratch = Scratch::new();
            tracing::error!(eval = %delivery.eval.id, "the scheduler panicked");
        }
        // A full queue makes the thread wait: the loop is behind, and more decisions would not
        // help.
        let decided = Decided {
            delivery,
            attempt,
            decision: decision.ok(),
        };
        if results.blocking_send(decided).is_err() {
            return;
        }
    }
}
