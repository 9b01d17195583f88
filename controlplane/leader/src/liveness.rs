//! Which nodes are silent. The detection time does not depend on how many nodes there are: every
//! heartbeat counts, whichever server heard it, and expiries of one look are one log entry.
//!
//! A server that reports nothing itself takes nobody with it: the nodes that were last heard
//! through it have some time more, once, to find another one.

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_state::{Command, SessionEpoch, Signal, Snapshot};
use protocol_model::{EvalId, NodeId, NodeStatus};

use crate::Reading;
use crate::deadlines::{Due, NodeDeadlines};
use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// Nodes in one expiry: a larger outage takes several log entries.
pub const EXPIRED_MAX: usize = 4096;

/// How long a server may report nothing, not even that it heard nobody, before it counts as gone.
/// It reports every 200 ms.
const SERVER_SILENCE: Duration = Duration::from_millis(800);

/// What a node without a session gets once, beyond its silence: the cluster was restored, or the
/// node's report was overdue, and it has to find out and knock anew. Its waiting is 15 s at most;
/// taking all tasks of a host for lost that only came late costs far more than the rest of the
/// minute.
pub(crate) const KNOCK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// Deadlines of every node in a session.
#[derive(Debug)]
pub struct Liveness {
    silence: Duration,
    /// What nodes have more where their server is gone.
    to_move: Duration,
    nodes: NodeDeadlines,
    /// Sessions whose expiry may still get into the log: from a heartbeat no lease may count then.
    doubtful: BTreeMap<NodeId, SessionEpoch>,
    /// Of those that have much time to come back: the deadline that is enough once they have.
    returning: BTreeMap<NodeId, Duration>,
    /// The server through which each was heard last.
    through: BTreeMap<NodeId, Through>,
    /// When each server last reported.
    reports: BTreeMap<u64, Duration>,
    /// When each server last reported that it is late.
    late: BTreeMap<u64, Duration>,
    /// When a server last said that nodes wait at its door.
    crowded: Option<Duration>,
    /// Whether the last effect was a barrier, asked for to settle what is in doubt.
    finding_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Through {
    server: u64,
    /// When: a server that the node has left may report last.
    at: Duration,
    /// Whether the time to move was given since.
    given: bool,
}

impl Liveness {
    /// Watches nobody yet. A node may be silent for `silence`, and for `to_move` more where its
    /// server is gone.
    pub fn new(silence: Duration, to_move: Duration) -> Self {
        Self {
            silence,
            to_move,
            nodes: NodeDeadlines::default(),
            doubtful: BTreeMap::new(),
            returning: BTreeMap::new(),
            through: BTreeMap::new(),
            reports: BTreeMap::new(),
            late: BTreeMap::new(),
            crowded: None,
            finding_out: false,
        }
    }

    /// A node has a session: it must be heard from now on. `extra` is what a new leader adds once,
    /// for sessions that have to find another server.
    pub fn watch(&mut self, node: NodeId, epoch: SessionEpoch, extra: Duration, now: Now) {
        if self.nodes.due(node).is_some_and(|due| due.epoch > epoch) {
            return;
        }
        let deadline = now.monotonic + self.silence + extra;
        self.nodes.set(node, Due { epoch, deadline });
        self.returning.remove(&node);
    }

    /// As [`Self::watch`], for a session that has just begun: whether the node has heard of it, its
    /// heartbeats tell. One that may not be back yet has its time until then.
    pub fn begin(&mut self, node: NodeId, epoch: SessionEpoch, extra: Duration, now: Now) {
        let returning = self.returning.get(&node).copied();
        let due = self.nodes.due(node);
        self.watch(node, epoch, extra, now);
        if let Some((enough, due)) = returning.zip(due)
            && epoch >= due.epoch
        {
            let deadline = due.deadline.max(now.monotonic + self.silence + extra);
            self.nodes.set(node, Due { epoch, deadline });
            self.returning.insert(node, enough);
        }
    }

    /// As [`Self::watch`], for a node that may have tried in vain for long: it has `extra` until it
    /// is heard, and the time to move at least from then on.
    pub fn await_return(&mut self, node: NodeId, epoch: SessionEpoch, extra: Duration, now: Now) {
        self.watch(node, epoch, extra, now);
        let enough = now.monotonic + self.silence + self.to_move;
        self.returning.insert(node, enough);
    }

    /// A heartbeat, `age` old. Of a session that is not watched, it means nothing. Answers whether
    /// a lease may count from it: of a session that is watched, and is over by nobody's word.
    pub fn heard(&mut self, node: NodeId, epoch: SessionEpoch, age: Duration, now: Now) -> bool {
        let Some(due) = self.nodes.due(node).filter(|due| due.epoch == epoch) else {
            return false;
        };
        let deadline = (now.monotonic + self.silence).saturating_sub(age);
        // What is older says nothing of whether it is back: it may have hung up since.
        if age < self.silence
            && let Some(enough) = self.returning.remove(&node)
        {
            let deadline = deadline.max(enough);
            self.nodes.set(node, Due { epoch, deadline });
        } else if deadline > due.deadline {
            self.nodes.set(node, Due { epoch, deadline });
        }
        self.doubtful.get(&node) != Some(&epoch)
    }

    /// A server reported, whomever it heard: [`Self::heard_through`] follows for each of them.
    pub fn on_report(&mut self, server: u64, reading: Reading, now: Now) {
        self.reports.insert(server, now.monotonic);
        match reading {
            Reading::InTime => {}
            Reading::Late => {
                self.late.insert(server, now.monotonic);
            }
            Reading::Crowded => {
                self.late.insert(server, now.monotonic);
                self.crowded = Some(now.monotonic);
            }
        }
    }

    /// As [`Self::heard`], by the report of a server.
    pub fn heard_through(
        &mut self,
        server: u64,
        node: NodeId,
        epoch: SessionEpoch,
        age: Duration,
        now: Now,
    ) -> bool {
        let counts = self.heard(node, epoch, age, now);
        let at = now.monotonic.saturating_sub(age);
        let is_newest = self.through.get(&node).is_none_or(|it| it.at <= at);
        if is_newest && self.nodes.due(node).is_some_and(|due| due.epoch == epoch) {
            let given = false;
            self.through.insert(node, Through { server, at, given });
        }
        counts
    }

    /// A node left its session, or is known to be silent.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(node);
        self.doubtful.remove(&node);
        self.returning.remove(&node);
        self.through.remove(&node);
    }

    /// Nothing could be heard for `stalled`, of anybody: every node has that time once more.
    pub fn on_stalled(&mut self, stalled: Duration) {
        self.nodes.postpone(stalled);
    }

    /// Nobody could be heard through the other servers until now: every node has its time anew. It
    /// may be told all the time; who has most of its time left keeps what it has.
    pub fn on_deaf(&mut self, now: Now) {
        let most = now.monotonic + self.silence * 3 / 4;
        if self.nodes.first().is_some_and(|first| first < most) {
            self.nodes.not_before(now.monotonic + self.silence);
        }
    }

    /// An expiry did not get into the log, or nobody knows whether it will. The node may have been
    /// heard meanwhile, when it was not watched: it has all of its time again. What is watched by
    /// now is newer and stays. Until [`Self::settle`] no lease counts from what is heard of it.
    pub fn put_back(&mut self, node: NodeId, epoch: SessionEpoch, now: Now) {
        if self.nodes.due(node).is_none() {
            self.watch(node, epoch, Duration::ZERO, now);
            self.doubtful.insert(node, epoch);
        }
    }

    /// Whether any expiry that was put back may still get into the log.
    pub fn is_in_doubt(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Something that was proposed after all that was put back is in the log, and in the state:
    /// what is not by now never will be. `goes_on`: which sessions the state says still are.
    pub fn settle(&mut self, goes_on: impl Fn(NodeId, SessionEpoch) -> bool) {
        for (node, epoch) in std::mem::take(&mut self.doubtful) {
            let newest = self.nodes.due(node).is_none_or(|due| due.epoch == epoch);
            if newest && !goes_on(node, epoch) {
                self.forget(node);
            }
        }
    }

    /// Nodes whose time is over, at most [`EXPIRED_MAX`]. They are not watched any more: if the log
    /// does not take the expiry, [`Self::put_back`] them.
    pub fn poll_expired(&mut self, now: Now) -> Vec<(NodeId, SessionEpoch)> {
        let mut expired = Vec::new();
        while expired.len() < EXPIRED_MAX
            && let Some((node, epoch)) = self.nodes.take_overdue(now.monotonic)
        {
            if let Some(deadline) = self.provable_at(node, now) {
                self.nodes.set(node, Due { epoch, deadline });
            } else if self.gives_time_to_move(node, now) {
                let deadline = now.monotonic + self.to_move;
                self.nodes.set(node, Due { epoch, deadline });
            } else {
                self.returning.remove(&node);
                self.through.remove(&node);
                expired.push((node, epoch));
            }
        }
        expired
    }

    /// When the silence of a node that is overdue can be told from the lateness of a server, if
    /// that is not now: its heartbeats may wait in the server that it was last heard through, or,
    /// if that is gone or not known, in any; and the node may wait at the door of any.
    fn provable_at(&self, node: NodeId, now: Now) -> Option<Duration> {
        let through = self.through.get(&node).map(|through| through.server);
        let here = through.filter(|server| !self.is_gone(*server, now));
        let late = match here {
            Some(server) => self.late.get(&server).copied(),
            None => self.late.values().max().copied(),
        };
        late.max(self.crowded)
            .map(|at| at + self.silence)
            .filter(|at| *at > now.monotonic)
    }

    /// Whether a server has reported nothing for too long.
    fn is_gone(&self, server: u64, now: Now) -> bool {
        let reported = self.reports.get(&server);
        reported.is_some_and(|at| *at + SERVER_SILENCE <= now.monotonic)
    }

    /// Whether a node that is overdue was last heard through a server that is gone, and had no time
    /// to move yet.
    fn gives_time_to_move(&mut self, node: NodeId, now: Now) -> bool {
        let Some(through) = self.through.get(&node).filter(|it| !it.given) else {
            return false;
        };
        let given = self.is_gone(through.server, now);
        self.through.insert(node, Through { given, ..*through });
        given
    }

    /// How many nodes are watched.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is watched.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }
}

impl LeaderPart for Liveness {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a part names the signals that it acts on"
    )]
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            match signal {
                // The server that asked for it may be behind, and send the node elsewhere.
                Signal::NodeSessionStarted { node, epoch } => {
                    self.begin(*node, *epoch, self.to_move, now);
                }
                Signal::NodeSessionClosed(node) => {
                    // What is heard of the old session means nothing any more.
                    self.forget(*node);
                    self.watch(*node, SessionEpoch::NONE, KNOCK_AGAIN_MAX, now);
                }
                Signal::NodeStatusChanged {
                    node, epoch, to, ..
                } => match to {
                    // Its session began with the same entry, and was given the time that a Welcome
                    // needs.
                    NodeStatus::Initializing => {}
                    NodeStatus::Ready => self.watch(*node, *epoch, Duration::ZERO, now),
                    NodeStatus::Disconnected | NodeStatus::Down => self.forget(*node),
                },
                Signal::NodeRemoved(node) => self.forget(*node),
                _ => {}
            }
        }
    }

    fn on_unheard(&mut self, _: Duration, now: Now) {
        self.on_deaf(now);
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        // Nothing failed since the barrier was asked for.
        if std::mem::take(&mut self.finding_out) {
            self.settle(|node, epoch| goes_on(snapshot, node, epoch));
        }
        if self.is_in_doubt() {
            self.finding_out = true;
            return Some(Effect::Command(Command::Barrier));
        }
        let nodes = self.poll_expired(now);
        (!nodes.is_empty()).then_some(Effect::Command(Command::HeartbeatMissed { nodes }))
    }

    fn on_failed(&mut self, effect: &Effect, now: Now) {
        self.finding_out = false;
        if let Effect::Command(Command::HeartbeatMissed { nodes }) = effect {
            for (node, epoch) in nodes {
                self.put_back(*node, *epoch, now);
            }
        }
    }

    fn on_refused(&mut self, _: &Effect, _: &str) {
        self.finding_out = false;
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.nodes.first()
    }
}

/// Whether the state has a node in the session of that epoch; in any, or on its way to one, where
/// the epoch is none.
fn goes_on(snapshot: &Snapshot, node: NodeId, epoch: SessionEpoch) -> bool {
    let of_epoch = |newest| epoch == SessionEpoch::NONE || newest == epoch;
    snapshot.node(node).is_some_and(|record| {
        let silent = matches!(
            record.node.status,
            NodeStatus::Disconnected | NodeStatus::Down
        );
        !silent && of_epoch(record.session.epoch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_millis(2600);
    const TO_MOVE: Duration = Duration::from_millis(1500);
    const SERVER: u64 = 9;

    fn at(millis: u64) -> Now {
        Now::default().plus(Duration::from_millis(millis))
    }

    fn watched() -> (Liveness, NodeId) {
        let mut liveness = Liveness::new(SILENCE, TO_MOVE);
        let node = NodeId::from_u128(1);
        liveness.watch(node, SessionEpoch(5), Duration::ZERO, at(0));
        (liveness, node)
    }

    #[test]
    fn a_node_that_is_not_heard_expires_once() {
        let (mut liveness, node) = watched();
        assert!(liveness.poll_expired(at(2599)).is_empty());
        assert_eq!(liveness.poll_expired(at(2600)), [(node, SessionEpoch(5))]);
        assert!(liveness.poll_expired(at(9999)).is_empty());
    }

    #[test]
    fn a_heartbeat_of_a_node_that_was_given_up_is_not_taken_for_its_session() {
        let (mut liveness, node) = watched();
        let heard = |liveness: &mut Liveness, epoch, now| {
            liveness.heard_through(SERVER, node, SessionEpoch(epoch), Duration::ZERO, at(now))
        };
        assert!(heard(&mut liveness, 5, 100));
        assert!(!heard(&mut liveness, 4, 200));
        assert_eq!(liveness.poll_expired(at(2700)), [(node, SessionEpoch(5))]);
        // On its way when the node's time was over: the node's lease must not count from it.
        assert!(!heard(&mut liveness, 5, 2701));
    }

    #[test]
    fn a_heartbeat_counts_from_when_it_was_heard() {
        let (mut liveness, node) = watched();
        liveness.heard(node, SessionEpoch(5), Duration::from_millis(500), at(2000));
        assert!(liveness.poll_expired(at(4099)).is_empty());
        assert_eq!(liveness.poll_expired(at(4100)).len(), 1);
    }

    #[test]
    fn a_node_whose_server_is_gone_has_some_time_more_and_once() {
        let (mut liveness, node) = watched();
        liveness.on_report(SERVER, Reading::InTime, at(1000));
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        assert!(liveness.poll_expired(at(3600)).is_empty());
        assert!(liveness.poll_expired(at(5099)).is_empty());
        assert_eq!(liveness.poll_expired(at(5100)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn a_node_whose_server_goes_on_reporting_has_its_time_and_no_more() {
        let (mut liveness, node) = watched();
        liveness.on_report(SERVER, Reading::InTime, at(1000));
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.on_report(SERVER, Reading::InTime, at(2801));
        assert_eq!(liveness.poll_expired(at(3600)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn the_server_that_heard_a_node_last_counts_whichever_reports_last() {
        let (mut liveness, node) = watched();
        let mut report = |server, reading, age, now| {
            liveness.on_report(server, reading, at(now));
            let age = Duration::from_millis(age);
            liveness.heard_through(server, node, SessionEpoch(5), age, at(now));
        };
        // The node moved to a server that is late; the one before reports after it.
        report(7, Reading::Late, 10, 1000);
        report(SERVER, Reading::InTime, 100, 1010);
        liveness.on_report(7, Reading::Late, at(3500));
        assert!(liveness.poll_expired(at(3590)).is_empty());
        liveness.on_report(7, Reading::InTime, at(6100));
        assert_eq!(liveness.poll_expired(at(6100)).len(), 1);
    }

    #[test]
    fn no_node_expires_while_nodes_wait_at_the_door_of_any_server() {
        let (mut liveness, node) = watched();
        liveness.on_report(SERVER, Reading::InTime, at(1000));
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.on_report(7, Reading::Crowded, at(3500));
        liveness.on_report(SERVER, Reading::InTime, at(3601));
        assert!(liveness.poll_expired(at(3601)).is_empty());
        liveness.on_report(7, Reading::InTime, at(6100));
        liveness.on_report(SERVER, Reading::InTime, at(6100));
        assert_eq!(liveness.poll_expired(at(6100)).len(), 1);
    }

    #[test]
    fn a_node_does_not_expire_while_its_server_is_late_and_does_afterwards() {
        let (mut liveness, node) = watched();
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        for millis in (1000..=60_000).step_by(200) {
            liveness.on_report(SERVER, Reading::Late, at(millis));
            assert!(liveness.poll_expired(at(millis)).is_empty());
        }
        liveness.on_report(SERVER, Reading::InTime, at(62_500));
        assert!(liveness.poll_expired(at(62_599)).is_empty());
        assert_eq!(liveness.poll_expired(at(62_600)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn a_node_of_a_server_in_time_expires_although_another_server_is_late() {
        let (mut liveness, node) = watched();
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.on_report(SERVER, Reading::InTime, at(3500));
        liveness.on_report(7, Reading::Late, at(3500));
        assert_eq!(liveness.poll_expired(at(3600)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn a_node_whose_server_is_gone_may_wait_in_any_that_is_late() {
        let (mut liveness, node) = watched();
        liveness.on_report(SERVER, Reading::InTime, at(1000));
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.on_report(7, Reading::Late, at(3500));
        assert!(liveness.poll_expired(at(6_099)).is_empty());
        // And then the time to move, once.
        assert!(liveness.poll_expired(at(6_100)).is_empty());
        assert_eq!(liveness.poll_expired(at(7_600)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn a_node_that_found_another_server_is_not_bound_to_the_one_that_is_gone() {
        let (mut liveness, node) = watched();
        liveness.on_report(SERVER, Reading::InTime, at(1000));
        liveness.heard_through(SERVER, node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.on_report(7, Reading::InTime, at(2000));
        liveness.heard_through(7, node, SessionEpoch(5), Duration::ZERO, at(2000));
        liveness.on_report(7, Reading::InTime, at(4500));
        assert!(liveness.poll_expired(at(4599)).is_empty());
        assert_eq!(liveness.poll_expired(at(4600)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn a_heartbeat_of_another_session_means_nothing() {
        let (mut liveness, node) = watched();
        liveness.heard(node, SessionEpoch(4), Duration::ZERO, at(2000));
        assert_eq!(liveness.poll_expired(at(2600)).len(), 1);
    }

    #[test]
    fn time_in_which_nobody_could_be_heard_is_given_again_to_everybody() {
        let (mut liveness, node) = watched();
        let other = NodeId::from_u128(2);
        liveness.watch(other, SessionEpoch(6), Duration::from_secs(1), at(0));
        liveness.on_stalled(Duration::from_millis(5000));
        assert_eq!(liveness.poll_timeout(), Some(Duration::from_millis(7600)));
        assert!(liveness.poll_expired(at(7599)).is_empty());
        assert_eq!(liveness.poll_expired(at(7600)), [(node, SessionEpoch(5))]);
        assert!(liveness.poll_expired(at(8599)).is_empty());
        assert_eq!(liveness.poll_expired(at(8600)), [(other, SessionEpoch(6))]);
    }

    #[test]
    fn a_node_that_is_put_back_has_all_of_its_time_and_can_be_heard() {
        let (mut liveness, node) = watched();
        assert_eq!(liveness.poll_expired(at(2600)).len(), 1);
        liveness.put_back(node, SessionEpoch(5), at(3000));
        assert!(liveness.poll_expired(at(5599)).is_empty());
        liveness.heard(node, SessionEpoch(5), Duration::ZERO, at(5599));
        assert!(liveness.poll_expired(at(8198)).is_empty());
        assert_eq!(liveness.poll_expired(at(8199)), [(node, SessionEpoch(5))]);
    }

    #[test]
    fn no_lease_counts_from_a_node_whose_expiry_may_still_be_written() {
        let (mut liveness, node) = watched();
        let (old, new) = (SessionEpoch(5), SessionEpoch(6));
        let hear = |liveness: &mut Liveness, epoch, ms| {
            liveness.heard_through(1, node, epoch, Duration::ZERO, at(ms))
        };
        assert!(hear(&mut liveness, old, 100));
        assert_eq!(liveness.poll_expired(at(2700)).len(), 1);
        assert!(!hear(&mut liveness, old, 2800), "it is not watched");
        liveness.put_back(node, old, at(3000));
        assert!(liveness.is_in_doubt());
        assert!(!hear(&mut liveness, old, 3100));
        assert!(
            liveness.poll_expired(at(5699)).is_empty(),
            "it is heard all the same"
        );
        // Another session is none that the entry could end.
        liveness.watch(node, new, Duration::ZERO, at(3200));
        assert!(hear(&mut liveness, new, 3300));
        liveness.settle(|_, epoch| epoch == new);
        assert!(!liveness.is_in_doubt());
        assert!(hear(&mut liveness, new, 4000));
    }

    #[test]
    fn what_became_of_an_expiry_says_whether_its_node_is_watched() {
        for goes_on in [false, true] {
            let (mut liveness, node) = watched();
            let epoch = SessionEpoch(5);
            assert_eq!(liveness.poll_expired(at(2600)).len(), 1);
            liveness.put_back(node, epoch, at(3000));
            liveness.settle(|_, _| goes_on);
            let heard = liveness.heard(node, epoch, Duration::ZERO, at(3100));
            assert_eq!((heard, liveness.len() == 1), (goes_on, goes_on));
        }
    }

    #[test]
    fn what_is_watched_meanwhile_is_newer_than_what_is_put_back() {
        let (mut liveness, node) = watched();
        assert_eq!(liveness.poll_expired(at(2600)).len(), 1);
        // Its session was closed: it may knock for a while.
        liveness.watch(node, SessionEpoch::NONE, Duration::from_secs(60), at(2700));
        liveness.put_back(node, SessionEpoch(5), at(3000));
        let due = Duration::from_millis(65_300);
        assert_eq!(liveness.poll_timeout(), Some(due));
    }

    #[test]
    fn a_node_that_came_back_to_a_new_leader_has_its_time_as_any_other() {
        let (mut liveness, node) = watched();
        let long = Duration::from_secs(17);
        liveness.await_return(node, SessionEpoch(5), long, at(0));
        assert_eq!(liveness.poll_timeout(), Some(Duration::from_millis(19_600)));
        // What another server heard before says that it was well, not that it is.
        liveness.heard(node, SessionEpoch(5), Duration::from_millis(900), at(500));
        assert_eq!(liveness.poll_timeout(), Some(SILENCE + TO_MOVE));
        liveness.heard(node, SessionEpoch(5), Duration::ZERO, at(9_000));
        assert_eq!(liveness.poll_timeout(), Some(Duration::from_millis(11_600)));
    }

    #[test]
    fn a_hello_that_was_answered_too_late_is_no_return() {
        let (mut liveness, node) = watched();
        let (old, new) = (SessionEpoch(5), SessionEpoch(6));
        liveness.await_return(node, old, Duration::from_secs(17), at(0));
        let long = Some(Duration::from_millis(19_600));
        // It hung up long before its session was found.
        liveness.heard(node, old, SILENCE, at(500));
        assert_eq!(liveness.poll_timeout(), long);
        // Nor does it say more that another one was made for it.
        liveness.begin(node, new, TO_MOVE, at(600));
        assert_eq!(liveness.poll_timeout(), long);
        liveness.heard(node, new, Duration::ZERO, at(3_000));
        assert_eq!(liveness.poll_timeout(), Some(Duration::from_millis(5_600)));
    }

    #[test]
    fn a_session_that_begins_has_no_more_time_than_that() {
        let (mut liveness, node) = watched();
        liveness.begin(node, SessionEpoch(6), TO_MOVE, at(1_000));
        let due = Duration::from_millis(1_000) + SILENCE + TO_MOVE;
        assert_eq!(liveness.poll_timeout(), Some(due));
        liveness.begin(node, SessionEpoch(5), Duration::from_secs(9), at(1_000));
        assert_eq!(liveness.poll_timeout(), Some(due));
    }

    #[test]
    fn an_older_report_never_shortens_a_deadline() {
        let (mut liveness, node) = watched();
        liveness.heard(node, SessionEpoch(5), Duration::ZERO, at(1000));
        liveness.heard(node, SessionEpoch(5), Duration::from_millis(900), at(1001));
        assert!(liveness.poll_expired(at(3599)).is_empty());
    }
}
