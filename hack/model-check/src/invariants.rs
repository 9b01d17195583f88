//! What must hold in every state that is reached. Each is told of what it is about, as it happens,
//! and what it remembers is a function of one part's history, so that equal histories are equally
//! right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use controlplane_state::command::{Change, PlanApply};
use controlplane_state::{Applied, Command, Outcome, SessionEpoch, Snapshot};
use noded_core::{RunKey, Watermark};
use protocol_model::{AllocId, ClientStatus, DesiredStatus, NodeStatus};
use protocol_wire::report::AllocReport;

use crate::ids::{NODE, OTHER};
use crate::world::World;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// What is remembered of what was.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The highest session that there was.
    highest_epoch: u64,
    /// Allocations that are over by both sides' word.
    over: BTreeSet<AllocId>,
    /// What nodes said for the nonces that were proposed, where a planted bug has others.
    nonces: BTreeMap<[u8; 16], [u8; 16]>,
}

impl World {
    pub(crate) fn fail(&mut self, invariant: &'static str, what: String) {
        self.broken.get_or_insert(Violation { invariant, what });
    }

    pub(crate) fn greeted_with(&mut self, said: [u8; 16], proposed: [u8; 16]) {
        if said != proposed {
            self.known.nonces.insert(proposed, said);
        }
    }

    /// An entry was applied to the one true state.
    pub(crate) fn watch_commit(
        &mut self,
        before: &Snapshot,
        after: &Snapshot,
        asked: &Command,
        applied: &Applied,
    ) {
        self.session_steps(before, after, asked);
        match asked {
            Command::NodeHello(hello) => self.same_nonce(before, after, hello.nonce),
            Command::NodeSynced(synced) => {
                self.ready_after_report(before, after, synced.epoch);
                self.note_over(after, &synced.changed);
            }
            Command::AllocUpdates { batches } => {
                self.nothing_before_the_sync(before, after);
                for batch in batches {
                    self.note_over(after, &batch.reports);
                }
            }
            Command::HeartbeatMissed { nodes } => self.own_expiry(before, after, nodes),
            Command::PlanApply(plan) if applied.outcome == Outcome::PlanApplied => {
                self.stops_leave_one(before, after, plan);
            }
            _ => {}
        }
    }

    /// The table of states, written down once more; epochs only rise.
    fn session_steps(&mut self, before: &Snapshot, after: &Snapshot, asked: &Command) {
        use NodeStatus::{Disconnected, Down, Initializing, Ready};
        let status = |it: &Snapshot| it.node(NODE).map(|record| record.node.status);
        if let (Some(from), Some(to)) = (status(before), status(after))
            && from != to
        {
            let allowed = match (from, to) {
                (Initializing, Ready) => matches!(asked, Command::NodeSynced(_)),
                (Ready | Disconnected | Down, Initializing) => {
                    matches!(asked, Command::NodeHello(_))
                }
                (Initializing | Ready, Disconnected | Down) => {
                    matches!(asked, Command::HeartbeatMissed { .. })
                }
                (Disconnected, Down) => matches!(asked, Command::WindowExpired { .. }),
                _ => false,
            };
            if !allowed {
                let (from, to) = (from.as_str(), to.as_str());
                self.fail("session_steps", format!("{from} to {to} by {asked:?}"));
            }
        }
        let epoch = |it: &Snapshot| it.node(NODE).map_or(0, |record| record.session.epoch.0);
        let (old, new) = (epoch(before), epoch(after));
        if new != old && new != 0 && new <= self.known.highest_epoch {
            let highest = self.known.highest_epoch;
            self.fail("epochs_rise", format!("a session {new} after {highest}"));
        }
        self.known.highest_epoch = self.known.highest_epoch.max(new);
    }

    /// A Hello with the nonce of the session that there is makes none.
    fn same_nonce(&mut self, before: &Snapshot, after: &Snapshot, proposed: [u8; 16]) {
        let (Some(old), Some(new)) = (before.node(NODE), after.node(NODE)) else {
            return;
        };
        let said = |nonce: [u8; 16]| self.known.nonces.get(&nonce).copied().unwrap_or(nonce);
        let lives = matches!(
            old.node.status,
            NodeStatus::Ready | NodeStatus::Initializing
        );
        let same = said(old.session.nonce) == said(proposed);
        if lives
            && same
            && old.session.epoch != SessionEpoch::NONE
            && new.session.epoch != old.session.epoch
        {
            let what = format!(
                "{} and {} by one nonce",
                old.session.epoch, new.session.epoch
            );
            self.fail("one_nonce_one_session", what);
        }
    }

    /// A node becomes ready by the report that it sent in this very session.
    fn ready_after_report(&mut self, before: &Snapshot, after: &Snapshot, epoch: SessionEpoch) {
        let status = |it: &Snapshot| it.node(NODE).map(|record| record.node.status);
        if status(before) == Some(NodeStatus::Ready) || status(after) != Some(NodeStatus::Ready) {
            return;
        }
        let session = after.node(NODE).map(|record| record.session.epoch);
        if session != Some(epoch) || self.host.promised.reported_in < epoch.0 {
            let what = format!("ready in {session:?} by a report in {epoch}");
            self.fail("ready_after_report", what);
        }
    }

    /// Of a node that owes its report, no allocation changes by what it says.
    fn nothing_before_the_sync(&mut self, before: &Snapshot, after: &Snapshot) {
        let ready = before
            .node(NODE)
            .is_some_and(|record| record.node.status == NodeStatus::Ready);
        let changed = before.allocs_on_node(NODE).find(|alloc| {
            let now = after.alloc(alloc.id);
            now.is_none_or(|now| now.client_status != alloc.client_status)
        });
        if let Some(alloc) = changed
            && !ready
        {
            let what = format!("{} before the report", alloc.id.short());
            self.fail("nothing_before_the_sync", what);
        }
    }

    /// A node falls silent only in the session for which that was decided.
    fn own_expiry(
        &mut self,
        before: &Snapshot,
        after: &Snapshot,
        nodes: &[(protocol_model::NodeId, SessionEpoch)],
    ) {
        for (node, epoch) in nodes {
            let (Some(old), Some(new)) = (before.node(*node), after.node(*node)) else {
                continue;
            };
            if old.session.epoch != *epoch && old.node.status != new.node.status {
                let own = old.session.epoch;
                self.fail("own_expiry", format!("decided for {epoch}, ends {own}"));
            }
        }
    }

    /// Of a pair that the scheduler sorts out, one is left.
    fn stops_leave_one(&mut self, before: &Snapshot, after: &Snapshot, plan: &PlanApply) {
        for change in &plan.changed {
            let Change::Stop { .. } = change.change else {
                continue;
            };
            let Some(alloc) = before.alloc(change.id) else {
                continue;
            };
            let well = before
                .node(alloc.node_id)
                .is_some_and(|record| record.node.status == NodeStatus::Ready);
            let stopped = before.job(&alloc.job_key()).is_none_or(|job| job.stop);
            if !well || stopped || alloc.client_status != ClientStatus::Running {
                continue;
            }
            let left = after.allocs_by_job(&alloc.job_key()).filter(|it| {
                let since = it.modify_index > plan.snapshot_index;
                let wanted = it.desired_status == DesiredStatus::Run
                    || since && it.client_status == ClientStatus::Lost;
                wanted && (since || !it.client_terminal())
            });
            if left.count() == 0 {
                let what = format!("{} was the last of its job", alloc.id.short());
                self.fail("stops_leave_one", what);
            }
        }
    }

    fn note_over(&mut self, after: &Snapshot, reports: &[AllocReport]) {
        for report in reports {
            let over = after.alloc(report.id).is_some_and(|alloc| {
                alloc.node_id != OTHER
                    && alloc.server_terminal()
                    && matches!(
                        alloc.client_status,
                        ClientStatus::Complete | ClientStatus::Failed
                    )
            });
            if report.client_status.is_terminal() && over {
                self.known.over.insert(report.id);
            }
        }
    }

    /// A watch of a session begins at an index that shows its report.
    pub(crate) fn watch_map(&mut self, epoch: SessionEpoch, index: u64) {
        let Some(session) = self.log.state.tables().node(NODE).map(|it| it.session) else {
            return;
        };
        if session.epoch != epoch {
            return;
        }
        if session.synced_index == 0 || index < session.synced_index {
            let synced = session.synced_index;
            let what = format!("a map at {index}, the report is at {synced}");
            self.fail("map_after_sync", what);
        }
    }

    /// A watermark is in the journal's file.
    pub(crate) fn watch_watermark(&mut self, to: Watermark) {
        let from = self.host.promised.moved;
        if goes_back(from, to) {
            self.fail("watermark", format!("from {from:?} to {to:?}"));
        }
        self.host.promised.moved = to;
    }

    /// A Hello names a watermark.
    pub(crate) fn watch_hello(&mut self, to: Watermark) {
        let from = self.host.promised.named;
        if goes_back(from, to) {
            self.fail("watermark", format!("Hello named {from:?}, then {to:?}"));
        }
        self.host.promised.named = to;
    }

    /// The node reports in a session, which it has accepted by that.
    pub(crate) fn watch_report(&mut self, epoch: u64) {
        let highest = self.host.promised.reported_in;
        if epoch < highest {
            self.fail(
                "epochs_rise",
                format!("a report in {epoch} after {highest}"),
            );
        }
        self.host.promised.reported_in = epoch.max(highest);
    }

    /// A daemon begins with this.
    pub(crate) fn watch_restart(&mut self, watermark: Watermark, epoch: u64) {
        let promised = self.host.promised;
        if goes_back(promised.named, watermark) || goes_back(promised.moved, watermark) {
            let what = format!("{promised:?}, and after a start {watermark:?}");
            self.fail("watermark", what);
        }
        if epoch < promised.reported_in {
            let highest = promised.reported_in;
            self.fail(
                "epochs_rise",
                format!("{highest}, and after a start {epoch}"),
            );
        }
    }

    /// Keeper is asked to start a run.
    pub(crate) fn watch_start(&mut self, run: &RunKey) {
        if self.known.over.contains(&run.alloc) {
            self.fail("never_again", format!("{run} starts, which is over"));
        }
        let mut live = self.host.keeper.live();
        let twin = live.find(|other| other.alloc == run.alloc && other.task == run.task);
        let twin = twin.cloned();
        drop(live);
        if let Some(twin) = twin {
            let what = format!("{run} starts while {twin} lives");
            self.fail("one_live_run", what);
        }
    }

    /// Keeper is asked to end a run.
    pub(crate) fn watch_stop(&mut self, run: &RunKey) {
        if !self.host.keeper.lives(run) {
            return;
        }
        let core = self.host.core.as_ref();
        let newest = core
            .and_then(|core| core.alloc(run.alloc))
            .and_then(|alloc| alloc.tasks().get(&run.task))
            .is_some_and(|task| task.run() == *run);
        let wanted = self
            .log
            .state
            .tables()
            .alloc(run.alloc)
            .is_some_and(|it| it.desired_status == DesiredStatus::Run && !it.client_terminal());
        if wanted && newest {
            self.fail("healthy_not_killed", format!("{run} is wanted and runs"));
        }
    }
}

fn goes_back(from: Watermark, to: Watermark) -> bool {
    from.incarnation == to.incarnation && to.index < from.index
        || from.incarnation.is_some() && to.incarnation.is_none()
}
