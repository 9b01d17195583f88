//! Schedulers: a snapshot and an evaluation in, a decision out, on threads of their own. A panic in
//! the scheduler costs one evaluation's delivery, never the server.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use controlplane_leader::broker::Delivery;
use controlplane_scheduler::{Concurrency, Decision, Lane, Lanes, Scratch, schedule_concurrent};
use controlplane_state::{Snapshot, Usage};
use parking_lot::{Condvar, Mutex};
use protocol_model::NodeId;
use protocol_transport::take_short_turns;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::clock::WallClock;

/// Evaluations that wait for a thread, and decisions that wait for the loop. Each has a lane, so
/// that there are never more than threads.
const JOBS_MAX: usize = 1024;

/// Who schedules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedulers {
    /// So many threads.
    Threads(usize),
    /// The runtime, one evaluation at a time: where time stands still while its tasks work, it
    /// would go on while a thread does.
    Runtime,
}

/// An evaluation to schedule.
#[derive(Debug)]
struct Job {
    delivery: Delivery,
    snapshot: Snapshot,
    concurrency: Concurrency,
}

/// An evaluation that was scheduled.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) delivery: Delivery,
    /// `None` where the scheduler panicked.
    pub(super) decision: Option<Decision>,
    lane: Lane,
}

/// Whoever schedules. Threads end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    hands: Hands,
    decided: mpsc::Receiver<Decided>,
    /// One for each evaluation that can be scheduled at a time.
    lanes: Lanes,
}

/// Where evaluations go.
#[derive(Debug)]
enum Hands {
    Threads(Arc<Queue>),
    Runtime {
        results: mpsc::Sender<Decided>,
        clock: Arc<dyn WallClock>,
    },
}

impl Workers {
    pub(super) fn start(schedulers: Schedulers, clock: &Arc<dyn WallClock>) -> Self {
        let (results, decided) = mpsc::channel(JOBS_MAX);
        let (hands, places) = match schedulers {
            Schedulers::Threads(threads) => {
                let queue = Arc::new(Queue::default());
                let started = Self::start_threads(threads, &queue, &results, clock);
                (Hands::Threads(queue), started)
            }
            Schedulers::Runtime => {
                let clock = Arc::clone(clock);
                (Hands::Runtime { results, clock }, 1)
            }
        };
        Self {
            hands,
            decided,
            lanes: Lanes::new(places),
        }
    }

    /// Answers how many there are.
    fn start_threads(
        threads: usize,
        queue: &Arc<Queue>,
        results: &mpsc::Sender<Decided>,
        clock: &Arc<dyn WallClock>,
    ) -> usize {
        let mut started = 0;
        for number in 0..threads {
            let (queue, results, clock) = (Arc::clone(queue), results.clone(), Arc::clone(clock));
            let spawned = std::thread::Builder::new()
                .name(format!("scheduler-{number}"))
                .spawn(move || {
                    // A decision takes long: it is not to keep the log waiting for all of a turn.
                    take_short_turns();
                    work(&queue, &results, &*clock);
                });
            match spawned {
                Ok(_) => started += 1,
                Err(error) => {
                    tracing::error!(%error, "cannot start a scheduler thread");
                }
            }
        }
        started
    }

    /// Whether another evaluation can be scheduled now.
    pub(super) fn is_open(&self) -> bool {
        self.lanes.is_open()
    }

    /// Gives an evaluation to a worker. `planned`: what plans in flight will take; `ready`: how
    /// many other evaluations are ready.
    ///
    /// # Errors
    /// The delivery, where no worker is free: to be refused, and handed out again later.
    pub(super) fn schedule(
        &mut self,
        delivery: Delivery,
        snapshot: Snapshot,
        planned: BTreeMap<NodeId, Usage>,
        ready: usize,
    ) -> Result<(), Delivery> {
        let Some(lane) = self.lanes.take(&snapshot, &delivery.eval, ready) else {
            return Err(delivery);
        };
        let job = Job {
            delivery,
            snapshot,
            concurrency: Concurrency { planned, lane },
        };
        match &self.hands {
            Hands::Threads(queue) => queue.push(job).map_err(|job| {
                self.lanes.give_back(lane);
                job.delivery
            })?,
            Hands::Runtime { results, clock } => {
                let (results, clock) = (results.clone(), Arc::clone(clock));
                tokio::spawn(async move {
                    let decided = decide(job, &mut Scratch::new(), &*clock);
                    // A loop that ended no longer wants to know.
                    let _ = results.send(decided).await;
                });
            }
        }
        Ok(())
    }

    /// The next decision.
    pub(super) async fn next(&mut self) -> Option<Decided> {
        let decided = self.decided.recv().await;
        if let Some(decided) = &decided {
            self.lanes.give_back(decided.lane);
        }
        decided
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Hands::Threads(queue) = &self.hands {
            queue.close();
        }
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
        let mut waiting = self.waiting.lock();
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
        let mut waiting = self.waiting.lock();
        self.pushed.wait_while(&mut waiting, |waiting| {
            waiting.jobs.is_empty() && !waiting.closed
        });
        if waiting.closed {
            return None;
        }
        waiting.jobs.pop_front()
    }

    /// Ends whoever waits; what is left is nobody's any more.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.jobs.clear();
        drop(waiting);
        self.pushed.notify_all();
    }
}

fn work(queue: &Queue, results: &mpsc::Sender<Decided>, clock: &dyn WallClock) {
    let mut scratch = Scratch::new();
    while let Some(job) = queue.pop() {
        // A full queue makes the thread wait: the loop is behind, and more decisions would not
        // help.
        let decided = decide(job, &mut scratch, clock);
        if results.blocking_send(decided).is_err() {
            return;
        }
    }
}

fn decide(job: Job, scratch: &mut Scratch, clock: &dyn WallClock) -> Decided {
    let Job {
        delivery,
        snapshot,
        concurrency,
    } = job;
    let seed = *Uuid::new_v4().as_bytes();
    let decision = catch_unwind(AssertUnwindSafe(|| {
        schedule_concurrent(
            &snapshot,
            &concurrency,
            &delivery.eval,
            seed,
            scratch,
            clock.now(),
        )
    }));
    if decision.is_err() {
        // Whatever it left in there may be half-done.
        *scratch = Scratch::new();
        tracing::error!(eval = %delivery.eval.id, "the scheduler panicked on this evaluation");
    }
    Decided {
        delivery,
        decision: decision.ok(),
        lane: concurrency.lane,
    }
}
