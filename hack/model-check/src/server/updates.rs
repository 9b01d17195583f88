//! Batches of updates: the server's `gateway/updates.rs` and its coalescer, one batch an entry.

use std::rc::Rc;

use controlplane_state::command::NodeBatch;
use controlplane_state::news::durable;
use controlplane_state::{Command, Outcome, SessionEpoch, UpdateClass};
use noded_core::effect::{StatusBatch, UpdateClass as NodeClass};
use noded_core::event::{BatchAck, ItemResult};

use crate::ids::NODE;
use crate::log::{Answer, Then};
use crate::net::{ConnId, ServerIx, Stream, ToNode};
use crate::world::World;

/// How often an entry is proposed of which nobody knows what became (as the server).
const PROPOSED_MAX: u32 = 2;

impl World {
    pub(super) fn on_batch(&mut self, ix: ServerIx, conn: ConnId, batch: StatusBatch) {
        let server = &mut self.servers[ix];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let class = slot(batch.class);
        let stream = &mut session.updates[class];
        let epoch = SessionEpoch(batch.epoch.0);
        let held = server.session.as_ref();
        let own = held.is_some_and(|held| held.epoch == epoch && held.conn == conn);
        if stream.opened.is_none() && own {
            stream.opened = Some(epoch);
        }
        if stream.opened != Some(epoch) {
            return self.end_stream(ix, conn);
        }
        stream.queue.push_back(batch);
        self.turn_updates(ix, conn, class);
    }

    fn turn_updates(&mut self, ix: ServerIx, conn: ConnId, class: usize) {
        let Some(session) = self.servers[ix].conns.get_mut(&conn) else {
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
        let batch = NodeBatch {
            node: NODE,
            epoch: SessionEpoch(batch.epoch.0),
            class: match batch.class {
                NodeClass::Urgent => UpdateClass::Urgent,
                NodeClass::Typical => UpdateClass::Typical,
            },
            seq: batch.seq,
            reports: durable(batch.reports),
        };
        self.propose_updates(ix, conn, Rc::new(batch), 1);
    }

    fn propose_updates(
        &mut self,
        server: ServerIx,
        conn: ConnId,
        batch: Rc<NodeBatch>,
        tries: u32,
    ) {
        let command = Command::AllocUpdates {
            batches: vec![NodeBatch::clone(&batch)],
        };
        let digest = self.stamp_server(server);
        let then = Then::Updates {
            server,
            conn,
            batch,
            tries,
        };
        self.propose(command, then, digest);
    }

    pub fn on_updates(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        batch: Rc<NodeBatch>,
        tries: u32,
        answer: Answer,
    ) {
        let log = self.log.digest;
        self.servers[ix].digest.note((conn, answer.digest(log)));
        match answer {
            Answer::Done(applied) => match applied.outcome {
                Outcome::Updates(results) if results.iter().all(|it| it.rejected.is_none()) => {
                    let items = results.first().map(|it| it.results.as_slice());
                    self.acknowledge(ix, conn, applied.index, &batch, items.unwrap_or(&[]));
                }
                _ => self.end_stream(ix, conn),
            },
            // What was applied twice is seen by its number.
            Answer::Unknown if tries < PROPOSED_MAX => {
                self.propose_updates(ix, conn, batch, tries + 1);
            }
            Answer::Unknown => self.end_stream(ix, conn),
        }
        self.tidy_conns();
    }

    fn acknowledge(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        index: u64,
        batch: &NodeBatch,
        results: &[controlplane_state::ItemResult],
    ) {
        let (class, stream) = match batch.class {
            UpdateClass::Urgent => (NodeClass::Urgent, Stream::Urgent),
            UpdateClass::Typical => (NodeClass::Typical, Stream::Typical),
        };
        let results = results.iter().map(|result| match result {
            controlplane_state::ItemResult::Applied => ItemResult::Applied,
            controlplane_state::ItemResult::Superseded => ItemResult::Superseded,
            controlplane_state::ItemResult::NotInSession => ItemResult::NotInSession,
            controlplane_state::ItemResult::UnknownAlloc => ItemResult::UnknownAlloc,
        });
        let ack = BatchAck {
            class,
            seq: batch.seq,
            index,
            results: results.collect(),
        };
        self.tell(ix, conn, stream, ToNode::BatchAck(ack));
        if let Some(session) = self.servers[ix].conns.get_mut(&conn) {
            session.updates[slot(class)].busy = false;
            self.turn_updates(ix, conn, slot(class));
        }
    }
}

fn slot(class: NodeClass) -> usize {
    match class {
        NodeClass::Urgent => 0,
        NodeClass::Typical => 1,
    }
}
