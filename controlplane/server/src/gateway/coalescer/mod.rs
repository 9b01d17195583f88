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
//! per server. Only where that one takes long, and the end of an allocation waits, does another go
//! after it ([`pace`]): it is not to wait for a disk that stands still, and then once more.
//!
//! The queue is bounded in bytes; when it is full the streams are not read, QUIC's flow control
//! reaches the nodes' batchers, and they merge. How long batches wait here says how long nodes are
//! to let typical updates gather.

mod entry;
mod gathered;
mod log;
mod pace;
mod propose;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::BatchResult;
use controlplane_state::command::NodeBatch;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use self::entry::{Group, Source};
use self::gathered::{Gathered, batches};
use self::log::Log;
use self::pace::Pace;
use self::propose::Proposer;
use crate::cluster::{ChangeError, Cluster, SharedPace};
use crate::config::Merging;

/// Bytes of batches that wait for the log, as they came.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Groups that wait: one is rarely smaller than this part of the bytes.
const QUEUE_MAX: usize = 4096;
/// What a batch takes of the queue at least: one without reports is not free.
const GROUP_BYTES_MIN: usize = 256;

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
    /// Whether an allocation's end is in it.
    has_end: bool,
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
            proposer: Proposer {
                log: cluster,
                waits: coalescer.waits.clone(),
            },
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
            has_end: group.has_end(),
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

/// What proposes the updates of all nodes.
#[derive(Debug)]
pub struct CoalescerLoop<L = Cluster> {
    proposer: Proposer<L>,
    waiting: mpsc::Receiver<Waiting>,
    merging: Merging,
}

#[expect(
    private_bounds,
    reason = "the log is the cluster; only tests have another"
)]
impl<L: Log> CoalescerLoop<L> {
    /// Runs until the last [`Coalescer`] is gone.
    pub async fn run(self) {
        let Self {
            proposer,
            mut waiting,
            merging,
        } = self;
        let (mut gathered, mut pace) = (Gathered::default(), Pace::new(merging, Instant::now()));
        let mut on_their_way = FuturesUnordered::new();
        loop {
            let due = pace.due(gathered.waits());
            if due.is_some_and(|due| due <= Instant::now()) {
                // Streams that have a batch already take their turn first, and it goes along.
                tokio::task::yield_now().await;
                gathered.receive(&mut waiting);
                let entry = gathered.take_entry(merging);
                if entry.is_empty() {
                    continue;
                }
                let number = pace.on_proposed(batches(&entry), Instant::now());
                let proposed = proposer.propose(entry);
                on_their_way.push(proposed.map(move |()| number));
                continue;
            }
            tokio::select! {
                // First: what was just taken for an entry is proposed, however much comes.
                biased;
                Some(number) = on_their_way.next() => pace.on_back(number, Instant::now()),
                came = gathered.next(&mut waiting) => if !came {
                    break;
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        while on_their_way.next().await.is_some() {}
    }
}

/// How long updates gather on a node where batches wait so long for the log.
fn interval(wait: Duration) -> Duration {
    wait.saturating_mul(INTERVAL_PER_WAIT)
        .clamp(TYPICAL_INTERVAL, TYPICAL_INTERVAL_MAX)
}
