//! Which nodes owe their complete report for too long. A node keeps the nonce of its Hello until a
//! session is live, so whatever keeps its report from arriving would keep the session, too: only
//! taking it away makes the node begin anew, and tells people why it is not ready.

use std::time::Duration;

use controlplane_state::{Command, SessionEpoch, Signal, Snapshot};
use protocol_model::{EvalId, NodeId, NodeStatus};

use crate::deadlines::{AGAIN_AFTER, Due, NodeDeadlines};
use crate::liveness::EXPIRED_MAX;
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// How long a session may owe its complete report: the same that the node and its server allow
/// for it.
pub const SYNC_MAX: Duration = Duration::from_secs(30);

/// Deadlines of every session that owes its complete report.
#[derive(Debug, Default)]
pub struct OwedSyncs {
    nodes: NodeDeadlines,
}

impl OwedSyncs {
    /// A session began. `extra` is what a new leader adds once: it does not know when the session
    /// began, and gives all of the time anew.
    pub fn watch(&mut self, node: NodeId, epoch: SessionEpoch, extra: Duration, now: Now) {
        let deadline = now.monotonic + SYNC_MAX + extra;
        self.nodes.set(node, Due { epoch, deadline });
    }

    /// The report came, or the session is over.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(node);
    }

    /// No report can get into the log: none is overdue for a while.
    pub fn on_stuck(&mut self, now: Now) {
        if self
            .nodes
            .first()
            .is_some_and(|first| first <= now.monotonic)
        {
            self.nodes.not_before(now.monotonic + AGAIN_AFTER);
        }
    }

    /// Sessions whose report is overdue, at most [`EXPIRED_MAX`].
    pub fn poll_overdue(&mut self, snapshot: &Snapshot, now: Now) -> Vec<(NodeId, SessionEpoch)> {
        let mut overdue = Vec::new();
        while overdue.len() < EXPIRED_MAX
            && let Some((node, epoch, _)) =
                self.nodes
                    .take_overdue_as(NodeStatus::Initializing, snapshot, now.monotonic)
        {
            let deadline = now.monotonic + AGAIN_AFTER;
            self.nodes.set(node, Due { epoch, deadline });
            overdue.push((node, epoch));
        }
        overdue
    }
}

impl LeaderPart for OwedSyncs {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            match signal {
                Signal::NodeSessionStarted { node, epoch } => {
                    self.watch(*node, *epoch, Duration::ZERO, now);
                }
                Signal::NodeSessionClosed(node) | Signal::NodeRemoved(node) => self.forget(*node),
                Signal::NodeStatusChanged { node, to, .. } if *to != NodeStatus::Initializing => {
                    self.forget(*node);
                }
                _ => {}
            }
        }
    }

    fn on_unheard(&mut self, _: Duration, now: Now) {
        self.on_stuck(now);
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        let nodes = self.poll_overdue(snapshot, now);
        (!nodes.is_empty()).then_some(Effect::Command(Command::SyncDeadline { nodes }))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.nodes.first()
    }
}

#[cfg(test)]
mod tests {
    use hack_testkit::{World, nodes};

    use super::*;

    fn at(seconds: u64) -> Now {
        Now::default().plus(Duration::from_secs(seconds))
    }

    fn owing() -> (World, OwedSyncs, NodeId, SessionEpoch) {
        let mut world = World::new();
        let facts = nodes::node(1);
        let node = facts.id;
        let epoch = world.greet(facts);
        let mut owed = OwedSyncs::default();
        owed.watch(node, epoch, Duration::ZERO, at(0));
        (world, owed, node, epoch)
    }

    #[test]
    fn a_report_is_overdue_after_thirty_seconds_and_not_before() {
        let (world, mut owed, node, epoch) = owing();
        assert!(owed.poll_overdue(&world.snapshot(), at(29)).is_empty());
        assert_eq!(owed.poll_timeout(), Some(SYNC_MAX));
        let overdue = owed.poll_overdue(&world.snapshot(), at(30));
        assert_eq!(overdue, [(node, epoch)]);
    }

    #[test]
    fn what_the_log_did_not_take_is_overdue_again() {
        let (world, mut owed, node, epoch) = owing();
        assert_eq!(owed.poll_overdue(&world.snapshot(), at(30)).len(), 1);
        assert!(owed.poll_overdue(&world.snapshot(), at(31)).is_empty());
        let overdue = owed.poll_overdue(&world.snapshot(), at(35));
        assert_eq!(overdue, [(node, epoch)]);
    }

    #[test]
    fn a_report_that_came_is_not_overdue() {
        let (mut world, mut owed, node, epoch) = owing();
        world.sync(node, epoch);
        assert!(owed.poll_overdue(&world.snapshot(), at(30)).is_empty());
        assert_eq!(owed.poll_timeout(), None);
    }

    #[test]
    fn a_newer_session_has_all_of_its_time() {
        let (mut world, mut owed, node, _) = owing();
        let epoch = world.greet(nodes::node(1));
        owed.watch(node, epoch, Duration::ZERO, at(20));
        assert!(owed.poll_overdue(&world.snapshot(), at(49)).is_empty());
        let overdue = owed.poll_overdue(&world.snapshot(), at(50));
        assert_eq!(overdue, [(node, epoch)]);
    }
}
