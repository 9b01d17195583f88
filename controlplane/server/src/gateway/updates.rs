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

use std::sync::Arc;

use controlplane_state::command::NodeBatch;
use controlplane_state::{BatchResult, Command, Outcome, SessionEpoch};
use protocol_model::NodeId;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1::{self, UpdateClass};
use tokio::sync::{mpsc, oneshot};

use super::{Gateway, NODE_FRAME_BYTES_MAX, reports};
use crate::cluster::{ChangeError, Cluster};

/// Batches that wait for the log, of all nodes together.
const QUEUE_MAX: usize = 4096;
/// Batches in one entry.
const ENTRY_BATCHES_MAX: usize = 1024;
/// Reports in one entry: an entry must stay small enough to be applied without a pause for readers.
const ENTRY_REPORTS_MAX: usize = 8192;

/// The one place of a server that proposes allocation updates.
#[derive(Debug)]
pub struct Coalescer {
    queue: mpsc::Sender<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    batch: NodeBatch,
    answer: oneshot::Sender<Result<(u64, BatchResult), Arc<ChangeError>>>,
}

impl Coalescer {
    /// Starts the task that proposes. It ends with the last sender.
    pub fn spawn(cluster: Cluster) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run(cluster, waiting));
        Self { queue }
    }

    /// Proposes a batch together with whatever else waits, and answers what the state said to it.
    async fn submit(&self, batch: NodeBatch) -> Result<(u64, BatchResult), Arc<ChangeError>> {
        let stopped = || Arc::new(ChangeError::Stopped("the update queue is gone".to_owned()));
        let (answer, result) = oneshot::channel();
        self.queue
            .send(Waiting { batch, answer })
            .await
            .map_err(|_| stopped())?;
        result.await.unwrap_or_else(|_| Err(stopped()))
    }
}

async fn run(cluster: Cluster, mut queue: mpsc::Receiver<Waiting>) {
    let mut gathered = Vec::new();
    while queue.recv_many(&mut gathered, ENTRY_BATCHES_MAX).await > 0 {
        // What does not fit goes into the next entry; nodes have one batch per class in flight, so
        // no node is starved by another.
        while !gathered.is_empty() {
            let rest = gathered.split_off(entry_batches(&gathered));
            propose(&cluster, std::mem::replace(&mut gathered, rest)).await;
        }
    }
}

/// How many of the gathered batches make one entry: at least one.
fn entry_batches(gathered: &[Waiting]) -> usize {
    let mut reports = 0;
    let fitting = gathered.iter().take_while(|waiting| {
        reports += waiting.batch.reports.len();
        reports <= ENTRY_REPORTS_MAX
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
pub(super) async fn serve(gateway: &Gateway, send: quinn::SendStream, recv: quinn::RecvStream) {
    if let Err(reason) = run_stream(gateway, send, recv).await {
        tracing::debug!(%reason, "update stream ended");
    }
}

async fn run_stream(
    gateway: &Gateway,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, NODE_FRAME_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let first = reader.expect().await.map_err(|error| error.to_string())?;
    let hello: v1::StreamHello =
        from_frame(first.kind, first.body).map_err(|error| error.to_string())?;
    let node = NodeId::from_slice(&hello.node_id).ok_or("the node id is not 16 bytes")?;
    let epoch = SessionEpoch(hello.epoch);
    if gateway.session(node, epoch).is_none() {
        return Err(format!("node {node} has no session {epoch} here"));
    }
    if hello.class() == UpdateClass::Urgent {
        writer.set_priority(12);
    }
    while let Some(frame) = reader.read().await.map_err(|error| error.to_string())? {
        let batch: v1::StatusBatch =
            from_frame(frame.kind, frame.body).map_err(|error| error.to_string())?;
        if batch.epoch != epoch.0 {
            return Err(format!(
                "node {node} speaks of epoch {} in session {epoch}",
                batch.epoch
            ));
        }
        let (class, seq) = (batch.class(), batch.seq);
        let reports = reports::from_wire(batch.allocs).map_err(|error| error.to_string())?;
        gateway.detail.take_in(node, &reports);
        let batch = NodeBatch {
            node,
            epoch,
            class,
            seq,
            reports,
        };
        let (index, result) = gateway
            .coalescer
            .submit(batch)
            .await
            .map_err(|error| error.to_string())?;
        if let Some(rejected) = result.rejected {
            return Err(format!(
                "the batch of node {node} was turned away: {rejected:?}"
            ));
        }
        let ack = v1::BatchAck {
            class: class.into(),
            seq,
            index,
            results: result.results.into_iter().map(Into::into).collect(),
        };
        let (kind, body) = to_frame(&ack);
        writer
            .write(kind, body)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
