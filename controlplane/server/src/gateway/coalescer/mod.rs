//! The coalescer: the batches of all nodes, in as few log entries as possible.
//!
//! ```text
//!   streams of this server's nodes --batch--> queue ==all that waits==> one AllocUpdates entry
//!   other servers, where it leads --merged-->   ^                         |
//!                                               +---- result per batch <--+
//! ```
//!
//! An idle log gets an entry at once; while one is in flight everything gathers, and what has come
//! by then goes with it. The log's own latency sets the pace: after an entry of many batches it has
//! a rest as long as that one took, in which what follows gathers, too. What a follower merged
//! waits in the leader's queue, so that the cluster has one entry of updates on its way, not one
//! per server.
//!
//! The queue is bounded in bytes; when it is full the streams are not read, QUIC's flow control
//! reaches the nodes' batchers, and they merge. How long batches wait here says how long nodes are
//! to let typical updates gather.

mod entry;
mod log;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::NodeBatch;
use controlplane_state::{BatchResult, Command, Outcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep};

use self::entry::{BATCHES_MAX, Group, Source, fitting, in_turns};
use self::log::Log;
use crate::cluster::{ChangeError, Changed, Cluster, LeadingError, SharedPace};
use crate::config::Merging;

/// Bytes of batches that wait for the log, as they came.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Groups that wait: one is rarely smaller than this part of the bytes.
const QUEUE_MAX: usize = 4096;
/// What a batch takes of the queue at least: one without reports is not free.
const GROUP_BYTES_MIN: usize = 256;

/// Batches in one entry by which it is seen that many report at once. The end of a task on a
/// cluster that is idle shares its entry with few others, and the next one follows at once.
const BUSY_BATCHES: usize = 4;
/// The longest rest of the log after such an entry.
const REST_MAX: Duration = Duration::from_millis(5);

/// How often an entry is proposed of which nobody knows what became: the second time it is for
/// whoever leads since.
const PROPOSED_MAX: u32 = 2;

/// How long typical updates gather on nodes while the log keeps up.
const TYPICAL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest that they are asked to.
const TYPICAL_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// The interval, as a multiple of the time that batches wait for the log: at this one they take a
/// twentieth of each node's time, and of the log's.
const INTERVAL_PER_WAIT: u32 = 20;

/// What the state said to batches, and at which index.
pub(crate) type Judged = Result<(u64, Vec<BatchResult>), Arc<ChangeError>>;

/// The one place of a server that proposes allocation updates.
#[derive(Debug)]
pub struct Coalescer {
    queue: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    /// How long batches wait from here to the state's answer.
    waits: SharedPace,
}

#[derive(Debug)]
struct Waiting {
    group: Group,
    /// How many batches it came with: they leave it when they are proposed.
    count: usize,
    since: Instant,
    answer: oneshot::Sender<Judged>,
    /// Its room in the queue, until it is answered.
    _room: OwnedSemaphorePermit,
}

impl Coalescer {
    /// The queue, and the loop that proposes what is in it.
    pub fn new(cluster: Cluster, merging: Merging) -> (Self, CoalescerLoop) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let coalescer = Self {
            queue,
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            waits: cluster.updates().clone(),
        };
        let updates = CoalescerLoop {
            waits: coalescer.waits.clone(),
            log: cluster,
            waiting,
            merging,
        };
        (coalescer, updates)
    }

    /// Proposes a node's batch together with whatever else waits, and answers what the state said
    /// to it. Waits for room first, where there is none.
    pub(super) async fn submit(
        &self,
        batch: NodeBatch,
        bytes: usize,
    ) -> Result<(u64, BatchResult), Arc<ChangeError>> {
        let group = Group {
            source: Source::Node(batch.node),
            batches: vec![batch],
            bytes,
        };
        let (index, results) = self.enqueue(group).await?;
        let result = results.into_iter().next();
        result.map(|result| (index, result)).ok_or_else(|| {
            let text = "updates were answered with nothing".to_owned();
            Arc::new(ChangeError::Nonsense(text))
        })
    }

    /// The same for what another server has merged. Only proposed while this server leads: nothing
    /// is sent on, so that two servers never wait for each other.
    pub(crate) async fn submit_merged(&self, batches: Vec<NodeBatch>, bytes: usize) -> Judged {
        let group = Group {
            source: Source::Server,
            batches,
            bytes,
        };
        self.enqueue(group).await
    }

    /// How long nodes should let typical updates gather now.
    pub(super) fn typical_interval(&self, now: Instant) -> Duration {
        interval(self.waits.mean(now))
    }

    async fn enqueue(&self, group: Group) -> Judged {
        let stopped = || Arc::new(ChangeError::Stopped("the update queue is gone".to_owned()));
        // A batch is smaller than the queue by far.
        let bytes = group.bytes.clamp(GROUP_BYTES_MIN, QUEUE_BYTES_MAX);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let since = Instant::now();
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let (answer, result) = oneshot::channel();
        let waiting = Waiting {
            count: group.batches.len(),
            group,
            since,
            answer,
            _room: room.map_err(|_| stopped())?,
        };
        let taken = QUEUE_BYTES_MAX - self.room.available_permits();
        metrics::histogram!("drover_update_queue_bytes").record(taken as f64);
        self.queue.send(waiting).await.map_err(|_| stopped())?;
        result.await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// What proposes the updates of all nodes, one entry at a time.
#[derive(Debug)]
pub struct CoalescerLoop<L = Cluster> {
    log: L,
    waiting: mpsc::Receiver<Waiting>,
    merging: Merging,
    /// How long batches waited, in the end.
    waits: SharedPace,
}

#[expect(
    private_bounds,
    reason = "the log is the cluster; only tests have another"
)]
impl<L: Log> CoalescerLoop<L> {
    /// Runs until the last [`Coalescer`] is gone.
    pub async fn run(mut self) {
        let mut gathered = Vec::new();
        while self.waiting.recv_many(&mut gathered, BATCHES_MAX).await > 0 {
            // What does not fit goes into the next entry, after the first turns of what came since.
            loop {
                // Streams that have a batch already take their turn first, and it goes along.
                tokio::task::yield_now().await;
                self.gather(&mut gathered);
                if gathered.is_empty() {
                    break;
                }
                gathered = in_turns(gathered, |waiting| &waiting.group);
                let count = match self.merging {
                    Merging::On => fitting(gathered.iter().map(|waiting| &waiting.group)),
                    Merging::Off => 1,
                };
                let left = gathered.split_off(count);
                let entry = std::mem::replace(&mut gathered, left);
                let batches: usize = entry.iter().map(|one| one.count).sum();
                let begun = Instant::now();
                self.propose(entry).await;
                if batches >= BUSY_BATCHES {
                    sleep(begun.elapsed().min(REST_MAX)).await;
                }
            }
        }
    }

    fn gather(&mut self, gathered: &mut Vec<Waiting>) {
        while gathered.len() < BATCHES_MAX
            && let Ok(waiting) = self.waiting.try_recv()
        {
            gathered.push(waiting);
        }
    }

    /// Proposes one entry and answers everybody in it.
    async fn propose(&self, entry: Vec<Waiting>) {
        let batches: usize = entry.iter().map(|one| one.count).sum();
        let bytes: usize = entry.iter().map(|one| one.group.bytes).sum();
        metrics::histogram!("drover_update_entry_batches").record(batches as f64);
        metrics::histogram!("drover_update_entry_bytes").record(bytes as f64);
        let (own, merged): (Vec<_>, Vec<_>) = entry
            .into_iter()
            .partition(|one| matches!(one.group.source, Source::Node(_)));
        let own = if merged.is_empty() {
            own
        } else {
            let Some(not_led) = self.propose_as_leader(own, merged).await else {
                return;
            };
            not_led
        };
        if !own.is_empty() {
            self.propose_own(own).await;
        }
    }

    /// Proposes batches of nodes in a session here, whoever leads. Where a leader was lost with
    /// them they are proposed again: what was applied twice is seen by its number, and nodes need
    /// not look for another server.
    async fn propose_own(&self, own: Vec<Waiting>) {
        let batches: Vec<NodeBatch> = own
            .iter()
            .flat_map(|one| one.group.batches.iter().cloned())
            .collect();
        let mut changed = Err(ChangeError::OutcomeUnknown);
        for _ in 0..PROPOSED_MAX {
            let batches = batches.clone();
            changed = self.log.change(Command::AllocUpdates { batches }).await;
            if !matches!(changed, Err(ChangeError::OutcomeUnknown)) {
                break;
            }
        }
        self.answer(own, changed.map_err(Arc::new));
    }

    /// Proposes what this server's nodes and other servers have, if it leads. If it does not, or
    /// nobody knows what became of them, this server's own are given back.
    async fn propose_as_leader(
        &self,
        own: Vec<Waiting>,
        mut merged: Vec<Waiting>,
    ) -> Option<Vec<Waiting>> {
        let term = self.log.term();
        let of_own = own.iter().flat_map(|one| one.group.batches.iter().cloned());
        let of_others = merged
            .iter_mut()
            .flat_map(|one| one.group.batches.drain(..));
        let batches = of_own.chain(of_others).collect();
        let command = Command::AllocUpdates { batches };
        let changed = match self.log.change_as_leader(command, term).await {
            Ok(changed) => Ok(changed),
            Err(LeadingError::Change(error)) if !matches!(error, ChangeError::OutcomeUnknown) => {
                Err(Arc::new(error))
            }
            Err(LeadingError::Change(_) | LeadingError::NotLeading(_)) => {
                // The log may still take it: the nodes of the other server send again, and what was
                // applied twice is seen by its number.
                self.answer(merged, Err(Arc::new(ChangeError::OutcomeUnknown)));
                return Some(own);
            }
        };
        self.answer(own.into_iter().chain(merged).collect(), changed);
        None
    }

    fn answer(&self, entry: Vec<Waiting>, changed: Result<Changed, Arc<ChangeError>>) {
        let now = Instant::now();
        if let Some(oldest) = entry.iter().map(|waiting| waiting.since).min() {
            let waited = now.saturating_duration_since(oldest);
            metrics::histogram!("drover_update_wait_seconds").record(waited.as_secs_f64());
            self.waits.on_sample(waited, now);
        }
        let judged = changed.and_then(|changed| match changed.outcome {
            Outcome::Updates(results) => Ok((changed.index, results)),
            other => {
                let text = format!("the state answered updates with {other:?}");
                Err(Arc::new(ChangeError::Nonsense(text)))
            }
        });
        let (index, mut results) = match judged {
            Ok((index, results)) => (index, results.into_iter()),
            Err(error) => {
                for waiting in entry {
                    // A stream that broke meanwhile no longer listens; its node sends again.
                    let _ = waiting.answer.send(Err(Arc::clone(&error)));
                }
                return;
            }
        };
        for waiting in entry {
            let own = results.by_ref().take(waiting.count).collect();
            let _ = waiting.answer.send(Ok((index, own)));
        }
    }
}

/// How long updates gather on a node where batches wait so long for the log.
fn interval(wait: Duration) -> Duration {
    wait.saturating_mul(INTERVAL_PER_WAIT)
        .clamp(TYPICAL_INTERVAL, TYPICAL_INTERVAL_MAX)
}
