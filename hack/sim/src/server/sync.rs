//! A node's complete report, from its parts to the log: the server's `gateway/sync.rs`.

use std::sync::Arc;

use controlplane_state::command::NodeSynced;
use controlplane_state::news::CompleteReport;
use controlplane_state::{Command, SessionEpoch};
use noded_core::event::RefusedReason;
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
    /// Taken in at an index that this server has not applied yet.
    pub(super) taken: Option<(Box<CompleteReport>, u64)>,
    pub(super) done: bool,
}

/// A report is proposed once, and what of it is news still once more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    First,
    Second,
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
        let report = CompleteReport {
            node: node_id(session.node),
            epoch: session.epoch,
            ours: same_history(&server.snapshot, session.watermark),
            watch_index: message.part.watch_index,
            reports,
            facts: message.facts,
        };
        let command = report.command(&server.snapshot);
        self.propose_report(ix, conn, report, command, Turn::First);
    }

    fn propose_report(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        report: CompleteReport,
        command: NodeSynced,
        turn: Turn,
    ) {
        let report = Box::new(report);
        let then = Then::Synced { conn, report, turn };
        self.change(ix, Command::NodeSynced(Box::new(command)), then);
    }

    pub(super) fn on_synced(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        report: Box<CompleteReport>,
        turn: Turn,
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
        match turn {
            Turn::First => {
                session.sync.taken = Some((report, index));
                if server.snapshot.index() >= index {
                    return self.report_seen(ix, conn);
                }
                // What an earlier report of the session left is seen only here.
                let what = Waits::Report;
                server.waits.insert((index, conn, what));
                self.server_event(ix, CATCH_UP_MAX, ServerEvent::WaitOver { conn, what });
            }
            Turn::Second => self.report_taken(ix, conn, &report, index),
        }
    }

    /// This server has applied the entry with the report. What was the same as in the state may not
    /// be the same as in an earlier report, which was on its way and was taken in first.
    pub(super) fn report_seen(&mut self, ix: ServerIx, conn: ConnId) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let Some((report, index)) = session.sync.taken.take() else {
            return;
        };
        let record = server.snapshot.node(report.node);
        let first = record.is_none_or(|record| record.session.synced_index == index);
        if first || !report.is_news(&server.snapshot) {
            return self.report_taken(ix, conn, &report, index);
        }
        let command = report.command(&server.snapshot);
        self.propose_report(ix, conn, *report, command, Turn::Second);
    }

    fn report_taken(&mut self, ix: ServerIx, conn: ConnId, report: &CompleteReport, index: u64) {
        let server = &mut self.servers[usize::from(ix)];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        if let Some(entry) = server.sessions.of_epoch(session.node, session.epoch) {
            entry.known = Some(Arc::new(report.known()));
        }
        session.sync.done = true;
        session.syncing = false;
        let epoch = session.epoch.0;
        self.free_place(ix, conn, true);
        self.send_to_node(conn, Stream::Session, ToNode::SyncAck { epoch, index });
        self.turn_session(ix, conn);
    }
}
