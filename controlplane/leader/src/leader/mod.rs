//! The parts of a leader, together: what the shell's loop drives.

use std::time::Duration;

use controlplane_state::{SessionEpoch, Signal, Snapshot, VariableKey, VariableRefusal};
use protocol_model::reconnect::time_to_return;
use protocol_model::{EvalId, NodeId, NodeStatus};
use uuid::Uuid;

use crate::drain::Drains;
use crate::evaluations::Evaluations;
use crate::expiries::Expiries;
use crate::gc::{Garbage, GcThresholds};
use crate::liveness::{KNOCK_AGAIN_MAX, Liveness};
use crate::locks::Locks;
use crate::owed_syncs::OwedSyncs;
use crate::part::{Applied, Effect, LeaderPart};
use crate::periodic::PeriodicLaunches;
use crate::rollouts::Rollouts;
use crate::time::Now;
use crate::unaccepted::PendingAllocs;
use crate::windows::DisconnectWindows;

/// Whether a server reads what it receives at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reading {
    /// A heartbeat that has arrived is in its report.
    #[default]
    InTime,
    /// It is behind with its work: heartbeats that arrived may be unread.
    Late,
    /// The same, or nodes wait at its door for a session, or were sent away a moment ago: nodes
    /// that no server hears may be alive.
    Crowded,
}

/// What a leader is told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderConfig {
    /// How long a node may be silent.
    pub silence: Duration,
    /// What is added once after taking over, and for a session that begins: nodes may have to find
    /// another server.
    pub takeover_extra: Duration,
    /// How many servers vote: of some of them nodes may hear nothing while they look for another.
    pub servers: usize,
    /// How long what is over is kept.
    pub gc: GcThresholds,
}

/// Everything that only the leader does, as parts that know nothing of each other. A new leader
/// makes a new one from the state; nothing of it is replicated.
///
/// A part is a field here, a line in `parts!`, and a file.
#[derive(Debug)]
pub struct Leader {
    config: LeaderConfig,
    liveness: Liveness,
    owed: OwedSyncs,
    windows: DisconnectWindows,
    pending: PendingAllocs,
    /// For the scheduler's workers.
    pub evaluations: Evaluations,
    rollouts: Rollouts,
    periodic: PeriodicLaunches,
    drains: Drains,
    expiries: Expiries,
    locks: Locks,
    garbage: Garbage,
}

/// The parts of a leader, in the order in which they are asked for effects.
macro_rules! parts {
    ($leader:expr) => {
        parts!($leader, &)
    };
    (mut $leader:expr) => {
        parts!($leader, &mut)
    };
    ($leader:expr, $($by:tt)+) => {
        [
            $($by)+ $leader.liveness,
            $($by)+ $leader.owed,
            $($by)+ $leader.windows,
            $($by)+ $leader.pending,
            $($by)+ $leader.evaluations,
            $($by)+ $leader.rollouts,
            $($by)+ $leader.periodic,
            $($by)+ $leader.drains,
            $($by)+ $leader.expiries,
            $($by)+ $leader.locks,
            $($by)+ $leader.garbage,
        ]
    };
}

impl Leader {
    /// Takes over: every pending evaluation is enqueued, every blocked one kept, every node in a
    /// session watched. `tenure` is for how long somebody has led
    /// ([`Tenure::lasted`](crate::tenure::Tenure::lasted)): where that is not long, nodes have what
    /// is left of [`time_to_return`].
    pub fn take_over(
        snapshot: &Snapshot,
        config: LeaderConfig,
        tenure: Duration,
        now: Now,
    ) -> Self {
        let mut reconnect = config.takeover_extra;
        // In a new cluster there is nobody to wait for.
        if snapshot.nodes().next().is_some() {
            let left = time_to_return(config.servers).saturating_sub(tenure);
            reconnect = reconnect.max(left);
        }
        let knocks_anew = snapshot.nodes().any(|record| {
            record.node.status == NodeStatus::Disconnected
                && record.session.epoch == SessionEpoch::NONE
        });
        let grace = config.silence + takeover_extra(reconnect, knocks_anew);
        let mut leader = Self {
            config,
            liveness: Liveness::new(config.silence, config.takeover_extra),
            owed: OwedSyncs::default(),
            windows: DisconnectWindows::new(now.monotonic + grace),
            pending: PendingAllocs::default(),
            evaluations: Evaluations::of(snapshot, now),
            rollouts: Rollouts::of(snapshot, now.monotonic + grace, now),
            periodic: PeriodicLaunches::of(snapshot, now),
            drains: Drains::of(snapshot, now),
            expiries: Expiries::of(snapshot, now),
            locks: Locks::of(snapshot, now),
            garbage: Garbage::new(config.gc, now),
        };
        for record in snapshot.nodes() {
            let (node, epoch) = (record.node.id, record.session.epoch);
            let extra = takeover_extra(reconnect, epoch == SessionEpoch::NONE);
            if in_session(record.node.status) {
                leader.liveness.await_return(node, epoch, extra, now);
            }
            match record.node.status {
                // Without a session there is none to take away: liveness sees to it.
                NodeStatus::Initializing if epoch != SessionEpoch::NONE => {
                    leader.owed.watch(node, epoch, extra, now);
                }
                NodeStatus::Disconnected => leader.windows.watch(node, epoch, now),
                NodeStatus::Ready => leader.pending.watch(node, epoch, now),
                NodeStatus::Initializing | NodeStatus::Down => {}
            }
        }
        leader
    }

    fn parts(&mut self) -> [&mut dyn LeaderPart; 11] {
        parts!(mut self)
    }

    /// Something was applied.
    pub fn on_applied(&mut self, index: u64, signals: &[Signal], snapshot: &Snapshot, now: Now) {
        let applied = Applied {
            index,
            signals,
            snapshot,
        };
        for part in self.parts() {
            part.on_applied(applied, now);
        }
    }

    /// The holder of a lock renews it.
    ///
    /// # Errors
    /// Where the caller does not hold the lock, or its time is over.
    pub fn on_renewal(
        &mut self,
        key: &VariableKey,
        id: Uuid,
        snapshot: &Snapshot,
        now: Now,
    ) -> Result<(), VariableRefusal> {
        self.locks.renew(key, id, snapshot, now)
    }

    /// A node was heard, `age` ago.
    pub fn on_heard(&mut self, node: NodeId, epoch: SessionEpoch, age: Duration, now: Now) {
        self.liveness.heard(node, epoch, age, now);
    }

    /// A server reports which nodes it heard, and how long ago; perhaps none. Returns those whose
    /// sessions are not watched (any more): from their heartbeats no lease may count, since what is
    /// leased to them may be given away from now on.
    ///
    /// A node does not expire while the server that it was last heard through is
    /// [`Reading::Late`]: its heartbeats may wait there. No node expires while any server is
    /// [`Reading::Crowded`]: it may wait at that server's door.
    pub fn on_report(
        &mut self,
        server: u64,
        reading: Reading,
        heard: impl IntoIterator<Item = (NodeId, SessionEpoch, Duration)>,
        now: Now,
    ) -> Vec<NodeId> {
        self.liveness.on_report(server, reading, now);
        let mut not_watched = Vec::new();
        for (node, epoch, age) in heard {
            if !self.liveness.heard_through(server, node, epoch, age, now) {
                not_watched.push(node);
            }
        }
        not_watched
    }

    /// How long whoever drives this may sleep: longer, and [`Self::on_woken`] could not tell that
    /// from a stall. `None` where no node is watched.
    pub fn sleep_max(&self) -> Option<Duration> {
        (!self.liveness.is_empty()).then_some(self.config.silence / 4)
    }

    /// Nothing was told for `asleep`. More than half of the silence is no sleep but a stall, of the
    /// process or its host: what nodes said meanwhile may be on its way still, so that they get
    /// that time once more. To be called before anything else is told.
    pub fn on_woken(&mut self, asleep: Duration) {
        if asleep > self.config.silence / 2 {
            self.liveness.on_stalled(asleep);
        }
    }

    /// The leader does not receive what nodes send: no majority of the servers answers it, or it is
    /// behind with what it receives, reports of other servers included. No node expires, owes its
    /// report for too long, fails to accept what is placed or to make progress until that has been
    /// over for a while. Call it again and again.
    pub fn on_unheard(&mut self, now: Now) {
        let silence = self.config.silence;
        for part in self.parts() {
            part.on_unheard(silence, now);
        }
    }

    /// Lets time pass.
    pub fn on_timeout(&mut self, now: Now) {
        self.evaluations.on_timeout(now);
    }

    /// The next thing to do, if there is one. `ids` draws an id for an evaluation that has to be
    /// made. What became of it is told before the next one is asked for ([`Self::on_failed`],
    /// [`Self::on_refused`]); nothing is told where it is done.
    pub fn poll_effect(
        &mut self,
        snapshot: &Snapshot,
        ids: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        let parts = self.parts().into_iter();
        parts
            .filter_map(|part| part.poll(snapshot, ids, now))
            .next()
    }

    /// An effect of [`Self::poll_effect`] did not get into the log, or its outcome is unknown.
    pub fn on_failed(&mut self, effect: &Effect, now: Now) {
        for part in self.parts() {
            part.on_failed(effect, now);
        }
    }

    /// The state, or the log, will never take an effect of [`Self::poll_effect`]; `why` is for
    /// people. Most are refused because somebody else did it already: then nothing follows.
    pub fn on_refused(&mut self, effect: &Effect, why: &str) {
        for part in self.parts() {
            part.on_refused(effect, why);
        }
    }

    /// When there is something to do again, by the monotonic clock.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let parts: [&dyn LeaderPart; 11] = parts!(self);
        parts.iter().filter_map(|part| part.poll_timeout()).min()
    }

    /// How many nodes are watched.
    pub fn nodes_watched(&self) -> usize {
        self.liveness.len()
    }
}

/// What a new leader adds once, for nodes that have to find another server or to knock anew.
fn takeover_extra(reconnect: Duration, knocks_anew: bool) -> Duration {
    if knocks_anew {
        reconnect.max(KNOCK_AGAIN_MAX)
    } else {
        reconnect
    }
}

fn in_session(status: NodeStatus) -> bool {
    matches!(status, NodeStatus::Ready | NodeStatus::Initializing)
}

#[cfg(test)]
mod tests;
