//! Scheduler threads: a snapshot and an evaluation in, a decision out. A panic in the scheduler
//! costs one evaluation's delivery, never the server.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    queue: Arc<Queue>,
    decided: mpsc::Receiver<Decided>,
    busy: std::cell::Cell<usize>,
    threads: usize,
}

impl Workers {
    pub(super) fn start(threads: usize) -> Self {
        let (results, decided) = mpsc::channel(JOBS_MAX);
        let queue = Arc::new(Queue::default());
        let mut started = 0;
        for number in 0..threads {
            let (queue, results) = (Arc::clone(&queue), results.clone());
            let spawned = std::thread::Builder::new()
                .name(format!("scheduler-{number}"))
                .spawn(move || work(&queue, &results));
            match spawned {
                Ok(_) => started += 1,
                Err(error) => {
                    tracing::error!(%error, "a scheduler thread could not be started");
                }
            }
        }
        Self {
            queue,
            decided,
            busy: std::cell::Cell::new(0),
            threads: started,
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
        let job = Job {
            delivery,
            snapshot,
            attempt,
        };
        if self.threads == 0 {
            return Err(job.delivery);
        }
        self.queue.push(job).map_err(|job| job.delivery)?;
        self.busy.set(self.busy.get() + 1);
        Ok(())
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

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// What waits for a thread. One push wakes one thread, and that one nobody else.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    pushed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// Gives the job back where too many wait.
    fn push(&self, job: Job) -> Result<(), Job> {
        let mut waiting = self.lock();
        if waiting.jobs.len() >= JOBS_MAX {
            return Err(job);
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.pushed.notify_one();
        Ok(())
    }

    /// The next job; `None` once the queue is closed.
    fn pop(&self) -> Option<Job> {
        let waiting = self.lock();
        let mut waiting = self
            .pushed
            .wait_while(waiting, |waiting| {
                waiting.jobs.is_empty() && !waiting.closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            return None;
        }
        waiting.jobs.pop_front()
    }

    /// Ends whoever waits; what is left is nobody's any more.
    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.jobs.clear();
        drop(waiting);
        self.pushed.notify_all();
    }

    /// Every change under the lock is one step: a panic leaves nothing half-done.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn work(queue: &Queue, results: &mpsc::Sender<Decided>) {
    let mut scratch = Scratch::new();
    while let Some(Job {
        delivery,
        snapshot,
        attempt,
    }) = queue.pop()
    {
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
