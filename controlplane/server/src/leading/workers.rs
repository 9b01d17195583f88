//! Scheduler threads: a snapshot and an evaluation in, a decision out. A panic in the scheduler costs
//! one evaluation's delivery, never the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};

use controlplane_leader::broker::Delivery;
use controlplane_scheduler::{Decision, Scratch, schedule};
use controlplane_state::Snapshot;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::cluster::wall_clock;

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
    jobs: std_mpsc::Sender<Job>,
    decided: mpsc::UnboundedReceiver<Decided>,
    busy: std::cell::Cell<usize>,
    threads: usize,
}

impl Workers {
    pub(super) fn start(threads: usize) -> Self {
        let (jobs, queue) = std_mpsc::channel();
        // Bounded by what is handed out: at most one job per thread, and retries of those.
        let (results, decided) = mpsc::unbounded_channel();
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
        Self { jobs, decided, busy: std::cell::Cell::new(0), threads }
    }

    /// Whether a thread waits for work.
    pub(super) fn idle(&self) -> bool {
        self.busy.get() < self.threads
    }

    /// Gives an evaluation to a thread.
    pub(super) fn schedule(&self, delivery: Delivery, snapshot: Snapshot, attempt: u32) {
        self.busy.set(self.busy.get() + 1);
        if self.jobs.send(Job { delivery, snapshot, attempt }).is_err() {
            // No thread is left; the broker's deadline hands the evaluation out again elsewhere.
            tracing::error!("no scheduler thread is left");
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

fn work(queue: &Mutex<std_mpsc::Receiver<Job>>, results: &mpsc::UnboundedSender<Decided>) {
    let mut scratch = Scratch::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { delivery, snapshot, attempt }) = next else { return };
        let seed = *Uuid::new_v4().as_bytes();
        let decision = catch_unwind(AssertUnwindSafe(|| {
            schedule(&snapshot, &delivery.eval, seed, &mut scratch, wall_clock())
        }));
        if decision.is_err() {
            // Whatever it left in there may be half-done.
            scratch = Scratch::new();
            tracing::error!(eval = %delivery.eval.id, "the scheduler panicked");
        }
        if results.send(Decided { delivery, attempt, decision: decision.ok() }).is_err() {
            return;
        }
    }
}
