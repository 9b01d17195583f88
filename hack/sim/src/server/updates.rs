//! Batches of updates, merged into few entries: the server's `gateway/coalescer`.

use std::collections::{BTreeMap, VecDeque};

use controlplane_state::command::NodeBatch;
use controlplane_state::news::durable;
use controlplane_state::{BatchResult, Command, Outcome, SessionEpoch, UpdateClass};
use noded_core::effect::{StatusBatch, UpdateClass as NodeClass};
use noded_core::event::{BatchAck, ItemResult};
use protocol_wire::report::AllocReport;

use super::change::Then;
use crate::event::{Answer, ServerIx, ToNode};
use crate::invariants::Observation;
use crate::mutant::Mutant;
use crate::net::{ConnId, Stream};
use crate::node_ids::node_id;
use crate::time::{MILLI, Nanos};
use crate::world::World;

/// Batches in one entry (as the server).
const ENTRY_BATCHES_MAX: usize = 1024;
/// How often an entry is proposed of which nobody knows what became (as the server).
const PROPOSED_MAX: u32 = 2;
/// Reports in one entry (as the server).
const ENTRY_REPORTS_MAX: usize = 8192;

/// How long an entry may be on its way before an end goes after it (as the server, which also looks
/// by itself when that time is over).
const OVERDUE_AFTER: Nanos = 5 * MILLI;
/// Entries that are on their way at most (as the server).
const ON_THEIR_WAY_MAX: usize = 4;

/// The one place of a server that proposes allocation updates.
///
/// ```text
///   streams of this server's nodes --batch--> waiting ==all of it==> one entry
///   other servers, where it leads --merged-->   ^                       |
///                                               +-- result per batch <--+
/// ```
#[derive(Debug, Default)]
pub(super) struct Coalescer {
    waiting: VecDeque<Waiting>,
    on_their_way: BTreeMap<u64, InFlight>,
    number: u64,
    /// When the newest of them was proposed.
    newest: Nanos,
}

impl Coalescer {
    fn may_propose(&self, now: Nanos) -> bool {
        if self.waiting.is_empty() || self.on_their_way.len() >= ON_THEIR_WAY_MAX {
            return false;
        }
        let overdue = now >= self.newest + OVERDUE_AFTER;
        self.on_their_way.is_empty() || overdue && self.waiting.iter().any(Waiting::has_end)
    }
}

/// In the log's hands, in the entry's order.
#[derive(Debug)]
struct InFlight {
    entry: Vec<Waiting>,
    tries: u32,
}

#[derive(Debug)]
struct Waiting {
    source: Source,
    batches: Vec<NodeBatch>,
}

impl Waiting {
    fn is_merged(&self) -> bool {
        matches!(self.source, Source::Server(_))
    }

    fn has_end(&self) -> bool {
        let mut reports = self.batches.iter().flat_map(|batch| &batch.reports);
        reports.any(AllocReport::is_terminal)
    }
}

/// Whose batches they are.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A node's that is in a session here.
    Node(ConnId),
    /// Another server's, merged, which asked for this change.
    Server((u64, u32)),
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
        let class = usize::from(batch.class == NodeClass::Typical);
        let stream = &mut session.updates[class];
        let epoch = SessionEpoch(batch.epoch.0);
        if stream.opened.is_none() {
            if server.sessions.own(session.node, epoch, conn).is_none() {
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
        server.coalescer.waiting.push_back(Waiting {
            source: Source::Node(conn),
            batches: vec![batch],
        });
        self.turn_coalescer(ix);
    }

    /// What another server has merged waits here, where this one leads.
    pub(super) fn take_merged(&mut self, ix: ServerIx, waits: (u64, u32), batches: Vec<NodeBatch>) {
        let coalescer = &mut self.servers[usize::from(ix)].coalescer;
        let source = Source::Server(waits);
        coalescer.waiting.push_back(Waiting { source, batches });
        self.turn_coalescer(ix);
    }

    fn turn_coalescer(&mut self, ix: ServerIx) {
        let now = self.now;
        let coalescer = &mut self.servers[usize::from(ix)].coalescer;
        if !coalescer.may_propose(now) {
            return;
        }
        let mut entry: Vec<Waiting> = Vec::new();
        let (mut count, mut reports) = (0, 0);
        while let Some(next) = coalescer.waiting.front() {
            count += next.batches.len();
            reports += next
                .batches
                .iter()
                .map(|it| it.reports.len())
                .sum::<usize>();
            let full = count > ENTRY_BATCHES_MAX || reports > ENTRY_REPORTS_MAX;
            if full && !entry.is_empty() {
                break;
            }
            entry.extend(coalescer.waiting.pop_front());
        }
        coalescer.number += 1;
        coalescer.newest = now;
        let number = coalescer.number;
        self.propose_updates(ix, number, entry, 1);
    }

    /// Where other servers' are among them, they are proposed as the leader or not at all.
    fn propose_updates(&mut self, ix: ServerIx, number: u64, entry: Vec<Waiting>, tries: u32) {
        let batches = entry.iter().flat_map(|it| it.batches.iter().cloned());
        let command = Command::AllocUpdates {
            batches: batches.collect(),
        };
        let merged = entry.iter().any(Waiting::is_merged);
        let server = &mut self.servers[usize::from(ix)];
        let led_in = merged.then_some(server.believed_term);
        let on_its_way = InFlight { entry, tries };
        server.coalescer.on_their_way.insert(number, on_its_way);
        self.change(ix, command, Then::Updates { led_in, number });
    }

    pub(super) fn on_updates_answered(&mut self, ix: ServerIx, number: u64, answer: Answer) {
        let coalescer = &mut self.servers[usize::from(ix)].coalescer;
        let Some(InFlight { entry, tries }) = coalescer.on_their_way.remove(&number) else {
            return;
        };
        match answer {
            Answer::Done {
                index,
                outcome: Outcome::Updates(results),
            } => self.updates_done(ix, entry, index, results),
            // This server leads no more: others' are theirs to propose again.
            Answer::Unknown | Answer::NoLeader if entry.iter().any(Waiting::is_merged) => {
                let (merged, own) = entry.into_iter().partition(Waiting::is_merged);
                let merged: Vec<Waiting> = merged;
                for waiting in merged {
                    self.turn_away_updates(ix, waiting.source);
                }
                if !own.is_empty() {
                    return self.propose_updates(ix, number, own, 1);
                }
            }
            // What was applied twice is seen by its number.
            Answer::Unknown if tries < PROPOSED_MAX => {
                return self.propose_updates(ix, number, entry, tries + 1);
            }
            Answer::Done { .. } | Answer::Refused(_) | Answer::NoLeader | Answer::Unknown => {
                for waiting in entry {
                    self.turn_away_updates(ix, waiting.source);
                }
            }
        }
        self.turn_coalescer(ix);
    }

    fn updates_done(
        &mut self,
        ix: ServerIx,
        entry: Vec<Waiting>,
        index: u64,
        results: Vec<BatchResult>,
    ) {
        let by_commit = self.mutant == Some(Mutant::AckFromCommit);
        let mut results = results.into_iter();
        for Waiting { source, batches } in entry {
            let own: Vec<BatchResult> = results.by_ref().take(batches.len()).collect();
            let conn = match source {
                Source::Server(waits) => {
                    let outcome = Outcome::Updates(own);
                    self.answer_asker(ix, waits, Answer::Done { index, outcome });
                    continue;
                }
                Source::Node(conn) => conn,
            };
            for (batch, result) in batches.iter().zip(own) {
                if result.rejected.is_some() && !by_commit {
                    self.end_stream(ix, conn);
                } else {
                    self.acknowledge(ix, conn, index, batch, &result.results);
                }
            }
        }
    }

    /// Nobody knows what became of them, or they were refused as a whole.
    fn turn_away_updates(&mut self, ix: ServerIx, source: Source) {
        match source {
            Source::Node(conn) => self.end_stream(ix, conn),
            Source::Server(waits) => self.answer_asker(ix, waits, Answer::Unknown),
        }
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
