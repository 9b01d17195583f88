//! A node's complete report, from its parts to the log: the server's `gateway/sync.rs`.

use std::rc::Rc;
use std::sync::Arc;

use controlplane_state::news::CompleteReport;
use controlplane_state::{Command, Outcome};
use noded_core::effect::SyncPart;
use noded_core::event::RefusedReason;
use protocol_model::Node;
use protocol_wire::report::AllocReport;

use super::greeting::same_history;
use crate::ids::NODE;
use crate::log::{Answer, Then};
use crate::net::{ConnId, ServerIx, Stream, ToNode};
use crate::world::World;

/// The parts of a complete report that have come so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Sync {
    next_part: u32,
    reports: Vec<AllocReport>,
    progress: Progress,
    pub(super) done: bool,
}

#[derive(Clone, Debug, Default)]
enum Progress {
    /// Parts come.
    #[default]
    Open,
    /// Waits until this server has applied the session's own entry.
    Whole(Rc<CompleteReport>),
    /// In the log's hands.
    Asked { again: bool },
    /// It was taken in; waits until this server has applied that.
    Kept {
        report: Rc<CompleteReport>,
        index: u64,
    },
}

impl Sync {
    pub(super) fn waits(&self) -> bool {
        matches!(self.progress, Progress::Whole(_) | Progress::Kept { .. })
    }
}

impl World {
    pub(super) fn on_sync_part(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        part: &SyncPart,
        facts: Option<Rc<Node>>,
    ) {
        let server = &mut self.servers[ix];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let sync = &mut session.sync;
        let misplaced = part.epoch.0 != session.epoch.0
            || part.part != sync.next_part
            || !matches!(sync.progress, Progress::Open);
        if misplaced {
            return self.end_stream(ix, conn);
        }
        sync.next_part += 1;
        sync.reports.extend(part.reports.iter().cloned());
        if !part.last {
            return;
        }
        sync.next_part = 0;
        let report = CompleteReport {
            node: NODE,
            epoch: session.epoch,
            ours: same_history(&server.snapshot, session.watermark),
            watch_index: part.watch_index,
            reports: std::mem::take(&mut sync.reports),
            facts: facts.map(|facts| Arc::new(Node::clone(&facts))),
        };
        sync.progress = Progress::Whole(Rc::new(report));
        self.go_on_with_sync(ix, conn);
    }

    pub(super) fn go_on_with_sync(&mut self, ix: ServerIx, conn: ConnId) {
        let server = &mut self.servers[ix];
        let index = server.snapshot.index();
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        let (report, again) = match &session.sync.progress {
            // What is news is decided against a state that knows this session.
            Progress::Whole(report) if index >= session.epoch.0 => (Rc::clone(report), false),
            Progress::Kept {
                report,
                index: kept,
            } if index >= *kept => {
                let report = Rc::clone(report);
                let kept = *kept;
                let was_first = server
                    .snapshot
                    .node(NODE)
                    .is_none_or(|record| record.session.synced_index == kept);
                if was_first || !report.is_news(&server.snapshot) {
                    return self.acknowledge_sync(ix, conn, &report, kept);
                }
                (report, true)
            }
            Progress::Open
            | Progress::Whole(_)
            | Progress::Asked { .. }
            | Progress::Kept { .. } => {
                return;
            }
        };
        session.sync.progress = Progress::Asked { again };
        let command = report.command(&server.snapshot);
        let then = Then::Synced {
            server: ix,
            conn,
            report,
        };
        let digest = self.stamp_server(ix);
        self.propose(Command::NodeSynced(Box::new(command)), then, digest);
    }

    pub fn on_synced(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        report: Rc<CompleteReport>,
        answer: &Answer,
    ) {
        let log = self.log.digest;
        self.servers[ix].digest.note((conn, answer.digest(log)));
        match answer {
            Answer::Done(applied) if !matches!(applied.outcome, Outcome::Refused(_)) => {
                let Some(session) = self.servers[ix].conns.get_mut(&conn) else {
                    return;
                };
                let index = applied.index;
                if let Progress::Asked { again: true } = session.sync.progress {
                    self.acknowledge_sync(ix, conn, &report, index);
                } else {
                    session.sync.progress = Progress::Kept { report, index };
                    self.go_on_with_sync(ix, conn);
                }
            }
            Answer::Done(_) => self.refuse(ix, conn, RefusedReason::NotInSession),
            Answer::Unknown => self.refuse(ix, conn, RefusedReason::NoLeader),
        }
        self.tidy_conns();
    }

    fn acknowledge_sync(
        &mut self,
        ix: ServerIx,
        conn: ConnId,
        report: &CompleteReport,
        index: u64,
    ) {
        let server = &mut self.servers[ix];
        let Some(session) = server.conns.get_mut(&conn) else {
            return;
        };
        session.sync.progress = Progress::Open;
        session.sync.done = true;
        let epoch = session.epoch;
        let held = server.session.as_mut();
        if let Some(held) = held.filter(|it| it.epoch == epoch && it.conn == conn) {
            held.known = Some(Arc::new(report.known()));
        }
        let message = ToNode::SyncAck {
            epoch: epoch.0,
            index,
        };
        self.tell(ix, conn, Stream::Session, message);
        self.turn_session(ix, conn);
    }
}
