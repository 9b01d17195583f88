//! Sessions begin, and owe their complete report. The decisions are in [`crate::session`].

use std::sync::Arc;

use protocol_model::{EvalTrigger, Node, NodeId, NodeStatus, UnixNanos};

use super::draft::Draft;
use super::node_evals::WantedEvals;
use super::nodes::{FactsChange, node_event, take_facts};
use super::reports::ReportOutcome;
use crate::applied::{Outcome, Refusal, Signal, Welcome, WelcomeKind};
use crate::command::{DaemonLife, JoinVerdict, NodeHello, NodeSynced};
use crate::record::{NodeRecord, ReportMark, SessionEpoch, SessionState};
use crate::session::{EpochMatch, Knock, NodeEvent, NodePhase, Verdict, transition};
use crate::tables::Tables;

/// What a knock leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HelloAnswer {
    /// The session that there is: nothing has to be committed.
    Welcome(Welcome),
    /// Turned away.
    Refused(Refusal),
    /// A new session: the command has to be proposed.
    Propose,
}

impl Tables {
    /// What this knock leads to. The same question is asked again when the command is applied; a
    /// gateway asks it first, so that resumes and repeats cost no commit.
    pub fn answer_hello(&self, hello: &NodeHello) -> HelloAnswer {
        let record = self.node(hello.node);
        if record.is_some_and(|record| record.secret_hash != hello.secret_hash) {
            return HelloAnswer::Refused(Refusal::WrongSecret(hello.node));
        }
        if let Err(refusal) = Self::check_pool_of_node(hello.facts.as_deref()) {
            return HelloAnswer::Refused(refusal);
        }
        let event = knock_event(record.map(|record| &record.session), hello);
        let phase = record.map_or(NodePhase::Unregistered, |record| {
            NodePhase::from(record.node.status)
        });
        match transition(phase, event, EpochMatch::Same) {
            Verdict::SameSession(kind) => {
                let session = record.map(|record| record.session).unwrap_or_default();
                HelloAnswer::Welcome(welcome(&session, kind))
            }
            Verdict::NewSession => match (record, hello.join) {
                (None, JoinVerdict::Denied) => {
                    HelloAnswer::Refused(Refusal::JoinDenied(hello.node))
                }
                (None, JoinVerdict::Allowed) | (Some(_), _) => HelloAnswer::Propose,
            },
            Verdict::Unregistered
            | Verdict::Accept
            | Verdict::Become(_)
            | Verdict::CountRejection
            | Verdict::CloseSession
            | Verdict::Forget
            | Verdict::NoOp
            | Verdict::OwesSync
            | Verdict::NotInSession => HelloAnswer::Refused(Refusal::NeedsFacts(hello.node)),
        }
    }
}

fn knock_event(session: Option<&SessionState>, hello: &NodeHello) -> NodeEvent {
    let knock = match session {
        Some(session) if session.epoch == SessionEpoch::NONE => Knock::Fresh,
        Some(session) if session.nonce == hello.nonce => Knock::Repeated,
        Some(session)
            if session.epoch == hello.last_epoch
                && session.boot_id == hello.boot_id
                && hello.daemon == DaemonLife::Continued =>
        {
            Knock::Resumable
        }
        Some(_) | None => Knock::Fresh,
    };
    if hello.facts.is_some() && hello.last_epoch == SessionEpoch::NONE {
        NodeEvent::Register(knock)
    } else {
        NodeEvent::Hello(knock)
    }
}

fn welcome(session: &SessionState, kind: WelcomeKind) -> Welcome {
    Welcome {
        epoch: session.epoch,
        kind,
        applied_urgent_seq: session.applied_urgent_seq,
        applied_typical_seq: session.applied_typical_seq,
    }
}

/// Whether an event with this epoch is about the session that the state knows. A node without a
/// session has none that it could speak in; the leader's own decisions name "none" for it.
fn epoch_match(record: &NodeRecord, epoch: SessionEpoch, event: NodeEvent) -> EpochMatch {
    let speaks = match event {
        NodeEvent::StatusBatch
        | NodeEvent::Facts
        | NodeEvent::NodeSynced
        | NodeEvent::SyncRejected => true,
        NodeEvent::Register(_)
        | NodeEvent::Hello(_)
        | NodeEvent::SyncDeadline
        | NodeEvent::HeartbeatMissed(_)
        | NodeEvent::WindowExpired
        | NodeEvent::PendingExpired
        | NodeEvent::Purge => false,
    };
    let nobody = speaks && epoch == SessionEpoch::NONE;
    if record.session.epoch == epoch && !nobody {
        EpochMatch::Same
    } else {
        EpochMatch::Other
    }
}

impl Draft {
    /// The verdict about an event of a node that may be unknown.
    pub(super) fn judge(&self, node: NodeId, epoch: SessionEpoch, event: NodeEvent) -> Verdict {
        match self.tables.node(node) {
            None => transition(NodePhase::Unregistered, event, EpochMatch::Same),
            Some(record) => {
                let phase = NodePhase::from(record.node.status);
                transition(phase, event, epoch_match(record, epoch, event))
            }
        }
    }

    pub(crate) fn node_hello(&mut self, hello: &NodeHello) -> Result<Outcome, Refusal> {
        match self.tables.answer_hello(hello) {
            HelloAnswer::Welcome(welcome) => return Ok(Outcome::Welcome(welcome)),
            HelloAnswer::Refused(refusal) => return Err(refusal),
            HelloAnswer::Propose => {}
        }
        let session = SessionState {
            epoch: SessionEpoch(self.index),
            nonce: hello.nonce,
            boot_id: hello.boot_id,
            ..SessionState::default()
        };
        let mut record = match (self.tables.node(hello.node), &hello.facts) {
            (Some(record), _) => NodeRecord::clone(record),
            (None, None) => return Err(Refusal::NeedsFacts(hello.node)),
            (None, Some(facts)) => self.new_node(hello, facts),
        };
        record.session = session;
        record.fell_silent_at = None;
        let mut node = Node::clone(&record.node);
        let from = node.status;
        node.status = NodeStatus::Initializing;
        node.status_description = "owes its complete report".to_owned();
        if from != NodeStatus::Initializing {
            node.status_updated_at = self.now.0 / 1_000_000_000;
        }
        node.modify_index = self.index;
        if let Some(facts) = &hello.facts
            && take_facts(&mut node, facts) == FactsChange::Matters
        {
            record.owes_evals = true;
            record.facts_index = self.index;
        }
        record.node = Arc::new(node);
        self.tables.put_node(record);
        let (node, epoch) = (hello.node, session.epoch);
        self.signal(Signal::NodeSessionStarted { node, epoch });
        if from != NodeStatus::Initializing {
            let to = NodeStatus::Initializing;
            self.signal(Signal::NodeStatusChanged {
                node,
                epoch,
                from,
                to,
            });
        }
        Ok(Outcome::Welcome(welcome(&session, WelcomeKind::New)))
    }

    fn new_node(&self, hello: &NodeHello, facts: &Node) -> NodeRecord {
        let mut node = facts.clone();
        node.id = hello.node;
        node.set_drain(None);
        node.last_drain = None;
        node.scheduling_eligibility = protocol_model::Eligibility::Eligible;
        node.status = NodeStatus::Initializing;
        node.events = Vec::new();
        node.last_missed_heartbeat_index = 0;
        node.last_alloc_update_index = 0;
        node.create_index = self.index;
        node.status_updated_at = self.now.0 / 1_000_000_000;
        node_event(&mut node, "Node registered", self.now, self.index);
        NodeRecord {
            node: Arc::new(node),
            secret_hash: hello.secret_hash,
            session: SessionState::default(),
            facts_index: self.index,
            owes_evals: true,
            reported_index: 0,
            fell_silent_at: None,
            drain_index: 0,
        }
    }

    pub(crate) fn node_synced(&mut self, synced: &NodeSynced) -> Result<Outcome, Refusal> {
        match self.judge(synced.node, synced.epoch, NodeEvent::NodeSynced) {
            Verdict::Become(_) => {}
            Verdict::Accept => return Ok(self.take_second_report(synced)),
            Verdict::NoOp => return Ok(Outcome::NoOp),
            Verdict::NewSession
            | Verdict::SameSession(_)
            | Verdict::CountRejection
            | Verdict::CloseSession
            | Verdict::Forget
            | Verdict::OwesSync
            | Verdict::NotInSession
            | Verdict::Unregistered => return Err(Refusal::NotInSession(synced.node)),
        }
        Tables::check_pool_of_node(synced.facts.as_deref())?;
        let mut wanted = WantedEvals::default();
        let mut unknown = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for id in &synced.unchanged {
            seen.insert(*id);
            if self
                .tables
                .alloc(*id)
                .is_none_or(|alloc| alloc.node_id != synced.node)
            {
                unknown.push(*id);
            }
        }
        for report in &synced.changed {
            seen.insert(report.id);
            let mark = ReportMark {
                epoch: synced.epoch,
                revision: report.revision,
            };
            let outcome = self.take_report(synced.node, mark, report, &mut wanted);
            if outcome == ReportOutcome::UnknownAlloc {
                unknown.push(report.id);
            }
        }
        self.accept_unchanged(synced.node, synced.epoch, &synced.unchanged);
        let lost = self.lose_unreported(synced, &seen, &mut wanted);
        self.become_ready(synced, wanted);
        Ok(Outcome::Synced { lost, unknown })
    }

    /// A node that is ready reports once more in its session. What is newer is taken in; nothing is
    /// lost by it, since of two reports nobody knows which was sent first.
    fn take_second_report(&mut self, synced: &NodeSynced) -> Outcome {
        if synced.changed.is_empty() {
            return Outcome::NoOp;
        }
        let mut wanted = WantedEvals::default();
        let mut unknown = Vec::new();
        for report in &synced.changed {
            let mark = ReportMark {
                epoch: synced.epoch,
                revision: report.revision,
            };
            let outcome = self.take_report(synced.node, mark, report, &mut wanted);
            if outcome == ReportOutcome::UnknownAlloc {
                unknown.push(report.id);
            }
        }
        self.put_wanted_evals(wanted);
        let lost = Vec::new();
        Outcome::Synced { lost, unknown }
    }

    /// The node is ready, and jobs that may care are looked at.
    fn become_ready(&mut self, synced: &NodeSynced, mut wanted: WantedEvals) {
        let Some(record) = self.tables.node(synced.node) else {
            return;
        };
        let mut record = NodeRecord::clone(record);
        let mut node = Node::clone(&record.node);
        if let Some(facts) = &synced.facts
            && take_facts(&mut node, facts) == FactsChange::Matters
        {
            record.owes_evals = true;
            record.facts_index = self.index;
        }
        let away_since = UnixNanos(node.status_updated_at.saturating_mul(1_000_000_000));
        node.status = NodeStatus::Ready;
        node.status_description = String::new();
        node.status_updated_at = self.now.0 / 1_000_000_000;
        node.last_alloc_update_index = self.index;
        if node.last_missed_heartbeat_index != 0 {
            node_event(
                &mut node,
                "Node reconnected and synchronized",
                self.now,
                self.index,
            );
        }
        node.last_missed_heartbeat_index = 0;
        node.modify_index = self.index;
        let owes_evals = std::mem::replace(&mut record.owes_evals, false);
        record.session.synced_index = self.index;
        record.reported_index = self.index;
        record.node = Arc::new(node.clone());
        self.tables.put_node(record);
        if owes_evals {
            self.want_node_evals(&mut wanted, &node, EvalTrigger::NodeUpdate);
            self.capacity_freed(node.id);
        } else if node.ready() {
            // Nothing of it changed; who looked meanwhile could not place on it.
            self.want_missed_evals(&mut wanted, &node, away_since);
            self.capacity_back(node.id, away_since);
        }
        self.put_wanted_evals(wanted);
        self.signal(Signal::NodeStatusChanged {
            node: node.id,
            epoch: synced.epoch,
            from: NodeStatus::Initializing,
            to: NodeStatus::Ready,
        });
    }

    pub(crate) fn sync_rejected(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
    ) -> Result<Outcome, Refusal> {
        match self.judge(node, epoch, NodeEvent::SyncRejected) {
            Verdict::CountRejection => {
                if let Some(record) = self.tables.node(node) {
                    let mut record = NodeRecord::clone(record);
                    record.session.syncs_rejected = record.session.syncs_rejected.saturating_add(1);
                    self.tables.put_node_quietly(record);
                }
                Ok(Outcome::Done)
            }
            Verdict::NoOp => Ok(Outcome::NoOp),
            Verdict::NewSession
            | Verdict::SameSession(_)
            | Verdict::Accept
            | Verdict::Become(_)
            | Verdict::CloseSession
            | Verdict::Forget
            | Verdict::OwesSync
            | Verdict::NotInSession
            | Verdict::Unregistered => Err(Refusal::NotInSession(node)),
        }
    }

    /// Takes the session of each node that still owes its report: it has to knock again.
    pub(crate) fn sync_deadline(&mut self, nodes: &[(NodeId, SessionEpoch)]) -> Outcome {
        let mut closed = false;
        for (id, epoch) in nodes {
            if self.judge(*id, *epoch, NodeEvent::SyncDeadline) != Verdict::CloseSession {
                continue;
            }
            let Some(record) = self.tables.node(*id) else {
                continue;
            };
            let mut record = NodeRecord::clone(record);
            record.session = SessionState::default();
            let mut node = Node::clone(&record.node);
            node.status_description =
                "the complete report was overdue: the session was closed".to_owned();
            node.modify_index = self.index;
            record.node = Arc::new(node);
            self.tables.put_node(record);
            self.signal(Signal::NodeSessionClosed(*id));
            closed = true;
        }
        if closed { Outcome::Done } else { Outcome::NoOp }
    }
}
