//! Batches of updates, merged into few entries: the server's `gateway/coalescer`.

use std::collections::VecDeque;

use controlplane_state::command::NodeBatch;
use controlplane_state::news::durable;
use controlplane_state::{Command, Outcome, SessionEpoch, UpdateClass};
use noded_core::effect::{StatusBatch, UpdateClass as NodeClass};
use noded_core::event::{BatchAck, ItemResult};

use super::change::Then;
use crate::event::{Answer, ServerIx, ToNode};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Stream};
use crate::node_ids::node_id;
use crate::world::World;

/// Batches in one entry (as the server).
const ENTRY_BATCHES_MAX: usize = 1024;
/// How often an entry is proposed of which nobody knows what became (as the server).
const PROPOSED_MAX: u32 = 2;
/// Reports in one entry (as the server).
const ENTRY_REPORTS_MAX: usize = 8192;

/// The one place of a server that proposes allocation updates.
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    waiting: VecDeque<Waiting>,
    in_flight: Option<InFlight>,
}

/// In the log's hands, in the entry's order.
#[derive(Debug)]
struct InFlight {
    entry: Vec<(ConnId, NodeBatch)>,
    tries: u32,
}

#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    batch: NodeBatch,
}

/// One class of updates of a session.
#[derive(Debug, Default)]
pub(super) struct UpdateStream {
    /// The session that it was opened for, once something came.
    opened: Option<SessionEpoch>,
    busy: bool,
    queue: VecDeque<Box<StatusBatch>>,
}

fn stream_of(class: NodeClass) -> Stream {
    match class {
        NodeClass::Urgent => Stream::Urgent,
        NodeClass::Typical => Stream::Typical,
    }
}

fn slot(class: UpdateClass) -> usize {
    match class {
        UpdateClass::Urgent => 0,
        UpdateClass::Typical => 1,
    }
}

impl World {
    pub(super) fn on_batch(&mut self, ix: ServerIx, conn: ConnId, batch: Box<StatusBatch>) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let entry = server.sessions.get(&session.node);
        let class = usize::from(batch.class == NodeClass::Typical);
        let stream = &mut session.updates[class];
        let epoch = SessionEpoch(batch.epoch.0);
        if stream.opened.is_none() {
            if entry.is_none_or(|entry| entry.epoch != epoch || entry.conn != conn) {
                return self.end_stream(ix, conn);
            }
            stream.opened = Some(epoch);
        }
        if stream.opened != Some(epoch) {
            return self.end_stream(ix, conn);
        }
        stream.queue.push_back(batch);
        self.turn_updates(ix, conn, class);
    }

    /// Hands the next batch of a stream to the coalescer, one at a time.
    fn turn_updates(&mut self, ix: ServerIx, conn: ConnId, class: usize) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let stream = &mut session.updates[class];
        if stream.busy {
            return;
        }
        let Some(batch) = stream.queue.pop_front() else {
            return;
        };
        stream.busy = true;
        let StatusBatch {
            epoch,
            class,
            seq,
            reports,
        } = *batch;
        self.counts.reports += reports.len() as u64;
        let batch = NodeBatch {
            node: node_id(session.node),
            epoch: SessionEpoch(epoch.0),
            class: match class {
                NodeClass::Urgent => UpdateClass::Urgent,
                NodeClass::Typical => UpdateClass::Typical,
            },
            seq,
            reports: durable(reports),
        };
        server.coalescer.waiting.push_back(Waiting { conn, batch });
        self.turn_coalescer(ix);
    }

    fn turn_coalescer(&mut self, ix: ServerIx) {
        let coalescer = &mut self.servers[usize::from(ix)].coalescer;
        if coalescer.in_flight.is_some() || coalescer.waiting.is_empty() {
            return;
        }
        let mut entry = Vec::new();
        let mut reports = 0;
        while let Some(next) = coalescer.waiting.front() {
            reports += next.batch.reports.len();
            let full = entry.len() >= ENTRY_BATCHES_MAX || reports > ENTRY_REPORTS_MAX;
            if full && !entry.is_empty() {
                break;
            }
            if let Some(Waiting { conn, batch }) = coalescer.waiting.pop_front() {
                entry.push((conn, batch));
            }
        }
        self.propose_updates(ix, entry, 1);
    }

    fn propose_updates(&mut self, ix: ServerIx, entry: Vec<(ConnId, NodeBatch)>, tries: u32) {
        let batches = entry.iter().map(|(_, batch)| batch.clone()).collect();
        self.servers[usize::from(ix)].coalescer.in_flight = Some(InFlight { entry, tries });
        let command = Command::AllocUpdates { batches };
        self.change(ix, command, Then::Updates);
    }

    pub(super) fn on_updates_answered(&mut self, ix: ServerIx, answer: Answer) {
        let coalescer = &mut self.servers[usize::from(ix)].coalescer;
        let Some(InFlight { entry, tries }) = coalescer.in_flight.take() else {
            return;
        };
        match answer {
            Answer::Done {
                index,
                outcome: Outcome::Updates(results),
            } => {
                for ((conn, batch), result) in entry.into_iter().zip(results) {
                    let by_commit = self.mutant == Some(Mutant::AckFromCommit);
                    if result.rejected.is_some() && !by_commit {
                        self.end_stream(ix, conn);
                        continue;
                    }
                    self.acknowledge(ix, conn, index, &batch, &result.results);
                }
            }
            // What was applied twice is seen by its number.
            Answer::Unknown if tries < PROPOSED_MAX => {
                return self.propose_updates(ix, entry, tries + 1);
            }
            Answer::Done { .. } | Answer::Refused(_) | Answer::NoLeader | Answer::Unknown => {
                for (conn, _) in entry {
                    self.end_stream(ix, conn);
                }
            }
        }
        self.turn_coalescer(ix);
    }

    fn acknowledge(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        index: u64,
        batch: &NodeBatch,
        results: &[controlplane_state::ItemResult],
    ) {
        let class = match batch.class {
            UpdateClass::Urgent => NodeClass::Urgent,
            UpdateClass::Typical => NodeClass::Typical,
        };
        let by_commit = self.mutant == Some(Mutant::AckFromCommit);
        let results: Vec<ItemResult> = results
            .iter()
            .map(|result| match result {
                _ if by_commit => ItemResult::Applied,
                controlplane_state::ItemResult::Applied => ItemResult::Applied,
                controlplane_state::ItemResult::Superseded => ItemResult::Superseded,
                controlplane_state::ItemResult::NotInSession => ItemResult::NotInSession,
                controlplane_state::ItemResult::UnknownAlloc => ItemResult::UnknownAlloc,
            })
            .collect();
        for (report, result) in batch.reports.iter().zip(&results) {
            if *result == ItemResult::Applied {
                self.observe(Observation::Acknowledged {
                    epoch: batch.epoch,
                    report,
                });
            }
        }
        let ack = BatchAck {
            class,
            seq: batch.seq,
            index,
            results,
        };
        self.send_to_node(conn, stream_of(class), ToNode::BatchAck(Box::new(ack)));
        let slot = slot(batch.class);
        if let Some(session) = self.servers[usize::from(ix)].conns.get_mut(&conn) {
            session.updates[slot].busy = false;
            self.turn_updates(ix, conn, slot);
        }
    }
}
