//! Allocation updates: from a node's stream, through the coalescer, into as few log entries as
//! possible.
//!
//! ```text
//!   stream --batch--> queue ==all that waits==> one AllocUpdates entry --results--> ack per batch
//! ```
//!
//! An idle log gets an entry at once; while one is in flight everything gathers. There is no timer:
//! the log's own latency sets the pace. The queue is bounded; when it is full the streams are not
//! read, QUIC's flow control reaches the nodes' batchers, and they merge.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::NodeBatch;
use controlplane_state::{BatchResult, Command, ItemResult, Outcome, news};
use protocol_model::{AllocId, NodeId};
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::v1::{self, UpdateClass};
use tokio::sync::{mpsc, oneshot};

use super::detail::{self, AllocEvents};
use super::frames::{parse, write};
use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX, reports};
use crate::cluster::{ChangeError, Cluster};

/// Batches that wait for the log, of all nodes together.
const QUEUE_MAX: usize = 4096;
/// Batches in one entry.
const ENTRY_BATCHES_MAX: usize = 1024;
/// Reports in one entry: an entry must stay small enough to be applied without a pause for readers.
const ENTRY_REPORTS_MAX: usize = 8192;
/// Bytes of batches in one entry, as they came: well below what the log takes for one command.
const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one batch. Nodes send 256 KiB at most (and one report that is larger alone); a stream
/// that brings more is ended with the reason. Such a batch makes an entry of its own.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The one place of a server that proposes allocation updates.
#[derive(Debug)]
pub struct Coalescer {
    queue: mpsc::Sender<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    batch: NodeBatch,
    /// How long it was on the wire.
    bytes: usize,
    answer: oneshot::Sender<Result<(u64, BatchResult), Arc<ChangeError>>>,
}

impl Coalescer {
    /// The queue, and the loop that proposes what is in it.
    pub fn new(cluster: Cluster) -> (Self, CoalescerLoop) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        (Self { queue }, CoalescerLoop { cluster, waiting })
    }

    /// Proposes a batch together with whatever else waits, and answers what the state said to it.
    async fn submit(
        &self,
        batch: NodeBatch,
        bytes: usize,
    ) -> Result<(u64, BatchResult), Arc<ChangeError>> {
        let stopped = || Arc::new(ChangeError::Stopped("the update queue is gone".to_owned()));
        let (answer, result) = oneshot::channel();
        self.queue
            .send(Waiting {
                batch,
                bytes,
                answer,
            })
            .await
            .map_err(|_| stopped())?;
        result.await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// What proposes the updates of all nodes, one entry at a time.
#[derive(Debug)]
pub struct CoalescerLoop {
    cluster: Cluster,
    waiting: mpsc::Receiver<Waiting>,
}

impl CoalescerLoop {
    /// Runs until the last [`Coalescer`] is gone.
    pub async fn run(mut self) {
        let mut gathered = Vec::new();
        while self
            .waiting
            .recv_many(&mut gathered, ENTRY_BATCHES_MAX)
            .await
            > 0
        {
            gathered = in_turns(gathered);
            // What does not fit goes into the next entry.
            while !gathered.is_empty() {
                let rest = gathered.split_off(entry_batches(&gathered));
                propose(&self.cluster, std::mem::replace(&mut gathered, rest)).await;
            }
        }
    }
}

/// Orders the batches so that every node's first comes before any node's second: a node that opens
/// many streams waits behind itself, not the others behind it.
fn in_turns(gathered: Vec<Waiting>) -> Vec<Waiting> {
    let mut turns: BTreeMap<NodeId, usize> = BTreeMap::new();
    let turn = |waiting: Waiting| {
        let turn = turns.entry(waiting.batch.node).or_default();
        *turn += 1;
        (*turn, waiting)
    };
    let mut ordered: Vec<(usize, Waiting)> = gathered.into_iter().map(turn).collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, waiting)| waiting).collect()
}

/// How many of the gathered batches make one entry: at least one.
fn entry_batches(gathered: &[Waiting]) -> usize {
    let (mut reports, mut bytes) = (0, 0);
    let fitting = gathered.iter().take_while(|waiting| {
        reports += waiting.batch.reports.len();
        bytes += waiting.bytes;
        reports <= ENTRY_REPORTS_MAX && bytes <= ENTRY_BYTES_MAX
    });
    fitting.count().clamp(1, gathered.len().max(1))
}

async fn propose(cluster: &Cluster, entry: Vec<Waiting>) {
    let (batches, answers): (Vec<_>, Vec<_>) = entry
        .into_iter()
        .map(|waiting| (waiting.batch, waiting.answer))
        .unzip();
    metrics::histogram!("drover_update_entry_batches").record(batches.len() as f64);
    match cluster.change(Command::AllocUpdates { batches }).await {
        Ok(changed) => {
            let Outcome::Updates(results) = changed.outcome else {
                tracing::error!(
                    index = changed.index,
                    "updates were answered with something else"
                );
                return;
            };
            for (answer, result) in answers.into_iter().zip(results) {
                // A stream that broke meanwhile no longer listens; its node sends again.
                let _ = answer.send(Ok((changed.index, result)));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for answer in answers {
                let _ = answer.send(Err(Arc::clone(&error)));
            }
        }
    }
}

/// Serves one update stream: a batch, its acknowledgement, the next batch.
pub(super) async fn serve(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    if let Err(reason) = run_stream(gateway, send, recv, connection).await {
        tracing::debug!(%reason, "update stream ended");
    }
}

async fn run_stream(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, BATCH_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let OwnStream {
        node, epoch, hello, ..
    } = streams::own(gateway, &mut reader, connection).await?;
    if hello.class() == UpdateClass::Urgent {
        writer.set_priority(12);
    }
    while let Some(frame) = reader.read().await.map_err(|error| error.to_string())? {
        let bytes = frame.body.len();
        let batch: v1::StatusBatch = parse(frame.kind, frame.body)?;
        if batch.epoch != epoch.0 {
            return Err(format!(
                "node {node} speaks of epoch {} in session {epoch}",
                batch.epoch
            ));
        }
        let (class, seq) = (batch.class(), batch.seq);
        let reports = reports::from_wire(batch.allocs).map_err(|error| error.to_string())?;
        let volatile = detail::events(&reports);
        let batch = NodeBatch {
            node,
            epoch,
            class,
            seq,
            reports: news::durable(reports),
        };
        let (index, result) = gateway
            .coalescer
            .submit(batch, bytes)
            .await
            .map_err(|error| error.to_string())?;
        if let Some(rejected) = result.rejected {
            return Err(format!(
                "the batch of node {node} was turned away: {rejected:?}"
            ));
        }
        // The state has judged whose allocations these are; of a batch that another server took in
        // before, it says nothing.
        let snapshot = gateway.cluster.snapshot();
        let is_own = |alloc| {
            snapshot
                .alloc(alloc)
                .is_some_and(|alloc| alloc.node_id == node)
        };
        gateway
            .detail
            .take_in(node, own_events(volatile, &result, is_own));
        let ack = v1::BatchAck {
            class: class.into(),
            seq,
            index,
            results: result.results.into_iter().map(Into::into).collect(),
        };
        write(&mut writer, &ack).await?;
    }
    Ok(())
}

/// The events of the node's own allocations: those whose report was taken in, or that `is_own`.
fn own_events(
    events: Vec<AllocEvents>,
    result: &BatchResult,
    is_own: impl Fn(AllocId) -> bool,
) -> Vec<AllocEvents> {
    let judged = events.into_iter().zip(&result.results);
    judged
        .filter(|(events, item)| **item == ItemResult::Applied || is_own(events.alloc()))
        .map(|(events, _)| events)
        .collect()
}

#[cfg(test)]
mod tests {
    use controlplane_state::SessionEpoch;

    use super::*;

    fn waiting(node: u128, seq: u64, bytes: usize) -> Waiting {
        let (answer, _) = oneshot::channel();
        let batch = NodeBatch {
            node: NodeId::from_u128(node),
            epoch: SessionEpoch(1),
            class: UpdateClass::Urgent,
            seq,
            reports: Vec::new(),
        };
        Waiting {
            batch,
            bytes,
            answer,
        }
    }

    #[test]
    fn an_entry_is_bounded_in_bytes() {
        // What nodes send at most, of as many nodes as fill the log's largest command.
        let gathered: Vec<Waiting> = (0..17).map(|node| waiting(node, 1, 256 * 1024)).collect();
        assert_eq!(entry_batches(&gathered), 4);
        assert_eq!(entry_batches(&[waiting(1, 1, BATCH_BYTES_MAX)]), 1, "alone");
    }

    #[test]
    fn a_node_with_many_batches_waits_behind_itself() {
        let gathered = vec![
            waiting(1, 1, 1),
            waiting(1, 2, 1),
            waiting(1, 3, 1),
            waiting(2, 1, 1),
            waiting(3, 1, 1),
            waiting(2, 2, 1),
        ];
        let order: Vec<(NodeId, u64)> = in_turns(gathered)
            .iter()
            .map(|waiting| (waiting.batch.node, waiting.batch.seq))
            .collect();
        let wanted = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)];
        let wanted = wanted.map(|(node, seq)| (NodeId::from_u128(node), seq));
        assert_eq!(order, wanted);
    }
}
