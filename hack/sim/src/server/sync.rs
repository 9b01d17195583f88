//! A node's complete report, from its parts to the log: the server's `gateway/sync.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::NodeSynced;
use controlplane_state::{Command, SessionEpoch};
use noded_core::event::RefusedReason;
use protocol_model::{AllocId, Allocation, TaskState};
use protocol_wire::report::AllocReport;

use super::CATCH_UP_MAX;
use super::change::Then;
use super::session::same_history;
use crate::event::{Answer, ServerEvent, ServerIx, SyncMessage, ToNode, Waits};
use crate::net::{ConnId, Stream};
use crate::node_ids::node_id;
use crate::world::World;

/// The parts of a complete report that have come so far.
#[derive(Debug, Default)]
pub(super) struct Sync {
    pub(super) next_part: u32,
    pub(super) reports: Vec<AllocReport>,
    /// The last part, while the report waits for the log.
    pub(super) last: Option<Box<SyncMessage>>,
    pub(super) done: bool,
}

impl World {
    pub(super) fn on_sync_overdue(&mut self, ix: ServerIx, conn: ConnId, epoch: SessionEpoch) {
        let session = self.servers[usize::from(ix)].conns.get(&conn);
        if session.is_some_and(|it| it.epoch == epoch && !it.sync.done) {
            self.end_stream(ix, conn);
        }
    }

    pub(super) fn on_sync_part(&mut self, ix: ServerIx, conn: ConnId, message: Box<SyncMessage>) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let wrong_epoch = message.part.epoch.0 != session.epoch.0;
        if wrong_epoch || message.part.part != session.sync.next_part {
            return self.end_stream(ix, conn);
        }
        session.sync.next_part += 1;
        session
            .sync
            .reports
            .extend(message.part.reports.iter().cloned());
        if !message.part.last {
            return;
        }
        session.sync.next_part = 0;
        if std::mem::replace(&mut session.syncing, true) {
            return self.end_stream(ix, conn);
        }
        session.sync.last = Some(message);
        if server.snapshot.index() >= session.epoch.0 {
            self.propose_sync(ix, conn);
        } else {
            // What is news is decided against a state that knows this session.
            let what = Waits::Sync;
            server.waits.insert((session.epoch.0, conn, what));
            self.server_event(ix, CATCH_UP_MAX, ServerEvent::WaitOver { conn, what });
        }
    }

    pub(super) fn propose_sync(&mut self, ix: ServerIx, conn: ConnId) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let Some(message) = session.sync.last.take() else {
            return;
        };
        let reports = std::mem::take(&mut session.sync.reports);
        let known: BTreeMap<AllocId, u64> = reports
            .iter()
            .map(|report| (report.id, report.desired_version))
            .collect();
        let snapshot = &server.snapshot;
        let (changed, same): (Vec<_>, Vec<_>) = reports.into_iter().partition(|report| {
            snapshot
                .alloc(report.id)
                .is_none_or(|alloc| is_news(report, alloc))
        });
        let watch_index = if same_history(snapshot, session.watermark) {
            message.part.watch_index
        } else {
            0
        };
        let command = Command::NodeSynced(Box::new(NodeSynced {
            node: node_id(session.node),
            epoch: session.epoch,
            watch_index,
            changed,
            unchanged: same.into_iter().map(|report| report.id).collect(),
            facts: message.facts,
        }));
        self.change(ix, command, Then::Synced { conn, known });
    }

    pub(super) fn on_synced(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        known: BTreeMap<AllocId, u64>,
        answer: &Answer,
    ) {
        let index = match answer {
            Answer::Done { index, .. } => *index,
            Answer::Refused(_) => return self.refuse(ix, conn, RefusedReason::NotInSession),
            Answer::NoLeader | Answer::Unknown => {
                return self.refuse(ix, conn, RefusedReason::NoLeader);
            }
        };
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        if let Some(entry) = server
            .sessions
            .get_mut(&session.node)
            .filter(|entry| entry.epoch == session.epoch && entry.conn == conn)
        {
            entry.known = Arc::new(known);
        }
        session.sync.done = true;
        session.syncing = false;
        let epoch = session.epoch.0;
        self.send_to_node(conn, Stream::Session, ToNode::SyncAck { epoch, index });
        self.turn_session(ix, conn);
    }
}

/// Whether a report says something that the state does not have (`gateway/reports.rs`).
fn is_news(report: &AllocReport, stored: &Allocation) -> bool {
    let AllocReport {
        id: _,
        revision: _,
        client_status,
        client_description,
        task_states,
        health,
        desired_version: _,
    } = report;
    *client_status != stored.client_status
        || *client_description != stored.client_description
        || task_states.len() != stored.task_states.len()
        || task_states.iter().any(|(name, state)| {
            stored
                .task_states
                .get(name)
                .is_none_or(|known| !same_but_events(state, known))
        })
        || health.is_some_and(|health| {
            stored
                .deployment_status
                .as_ref()
                .and_then(|status| status.healthy)
                != Some(health.healthy)
        })
}

fn same_but_events(left: &TaskState, right: &TaskState) -> bool {
    let without = |state: &TaskState| TaskState {
        events: Vec::new(),
        ..state.clone()
    };
    without(left) == without(right)
}
