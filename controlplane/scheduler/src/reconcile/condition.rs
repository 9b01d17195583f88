//! What the condition of its node makes of an allocation that neither side is done with: one answer
//! for jobs of every type. What follows from it is theirs.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{NodeRecord, Snapshot};
use protocol_model::{
    Allocation, ClientStatus, EvalId, EvalStatus, NodeStatus, TaskGroup, UnixNanos,
};

/// What a node's condition means for the allocations on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taint {
    /// Nothing: it is there, even if it owes its report.
    None,
    /// They should leave.
    Draining,
    /// It is silent and may return.
    Disconnected,
    /// It is silent for good, or forgotten.
    Gone,
}

impl Taint {
    fn of(node: Option<&Arc<NodeRecord>>) -> Self {
        let Some(node) = node.map(|record| &record.node) else {
            return Self::Gone;
        };
        match node.status {
            NodeStatus::Down => Self::Gone,
            NodeStatus::Disconnected => Self::Disconnected,
            NodeStatus::Ready | NodeStatus::Initializing if node.drain => Self::Draining,
            NodeStatus::Ready | NodeStatus::Initializing => Self::None,
        }
    }

    pub(crate) fn on(snapshot: &Snapshot, alloc: &Allocation) -> Self {
        Self::of(snapshot.node(alloc.node_id))
    }
}

/// What an allocation is, as far as its node goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// Its node is gone, or was silent for longer than the group tolerates.
    Lost,
    /// Its node just fell silent, and it may return.
    Disconnecting,
    /// It may return still: its node is silent, or is back and owes its report.
    Unknown {
        /// When it is given up, if it ever is.
        until: Option<UnixNanos>,
    },
    /// It has to leave its node.
    Migrating,
    /// Its node is draining, and nobody has asked this one to leave yet.
    Draining,
    /// Its node is back, and has said what it does.
    Reconnecting,
    /// It stands.
    Standing,
}

/// What `alloc` is at `now`. Rule (Nomad 1.6, its reconciler's table of allocations on tainted
/// nodes), except that a node that is back says what runs before anything is concluded from its
/// return.
pub(super) fn condition(
    snapshot: &Snapshot,
    group: &TaskGroup,
    alloc: &Allocation,
    now: UnixNanos,
) -> Condition {
    let unknown = alloc.client_status == ClientStatus::Unknown;
    if let Some(wait) = group.lease_wait() {
        return on_lease(snapshot, alloc, wait, now);
    }
    let window = group.disconnect_window();
    let until = window_end(alloc, window);
    if unknown && until.is_some_and(|end| end <= now) {
        return Condition::Lost;
    }
    let stays = !group.replaces_on_disconnect();
    let taint = Taint::on(snapshot, alloc);
    match taint {
        Taint::Gone if stays && unknown => Condition::Unknown { until },
        // Also without a window: what other groups tolerate makes its node no less silent.
        Taint::Gone | Taint::Disconnected
            if stays && alloc.client_status == ClientStatus::Running =>
        {
            Condition::Disconnecting
        }
        Taint::Gone => Condition::Lost,
        Taint::Disconnected | Taint::Draining | Taint::None if unknown => {
            Condition::Unknown { until }
        }
        Taint::Disconnected if window.is_none() || alloc.client_status == ClientStatus::Pending => {
            Condition::Lost
        }
        Taint::Disconnected => Condition::Disconnecting,
        Taint::Draining | Taint::None => heard(taint, alloc),
    }
}

/// What an allocation is whose node is there, and has said what it does.
fn heard(taint: Taint, alloc: &Allocation) -> Condition {
    if alloc.desired_transition.should_migrate() {
        Condition::Migrating
    } else if taint == Taint::Draining {
        Condition::Draining
    } else if alloc.needs_reconnect() {
        Condition::Reconnecting
    } else {
        Condition::Standing
    }
}

/// What an allocation of a group is that stops itself. While its node is silent it may run as long
/// as its lease lasts: of such a group no two run at once, so that nobody takes its place before.
/// A node that is back extends the lease, also while it owes its report.
fn on_lease(snapshot: &Snapshot, alloc: &Allocation, wait: Duration, now: UnixNanos) -> Condition {
    let unknown = alloc.client_status == ClientStatus::Unknown;
    match lease_end(snapshot, alloc, wait) {
        LeaseEnd::Forgotten => Condition::Lost,
        LeaseEnd::At(_) if !unknown => Condition::Disconnecting,
        LeaseEnd::At(end) if end <= now => Condition::Lost,
        LeaseEnd::At(end) => Condition::Unknown { until: Some(end) },
        LeaseEnd::Extended if unknown => Condition::Unknown { until: None },
        LeaseEnd::Extended => heard(Taint::on(snapshot, alloc), alloc),
    }
}

/// When nothing of an allocation can run any more, though its node says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LeaseEnd {
    /// Its node is not known any more.
    Forgotten,
    /// Then.
    At(UnixNanos),
    /// Its node is there, and extends the lease.
    Extended,
}

/// The end of a lease of which the node fell silent, `wait` later.
pub(super) fn lease_end(snapshot: &Snapshot, alloc: &Allocation, wait: Duration) -> LeaseEnd {
    let Some(node) = snapshot.node(alloc.node_id) else {
        return LeaseEnd::Forgotten;
    };
    match Taint::on(snapshot, alloc) {
        Taint::Gone | Taint::Disconnected => {
            // In whole seconds, rounded down: the next one is not too early.
            let silent_since = node.node.status_updated_at.saturating_add(1);
            let silent_since = UnixNanos(silent_since.saturating_mul(1_000_000_000));
            LeaseEnd::At(silent_since.saturating_add(wait))
        }
        Taint::Draining | Taint::None => LeaseEnd::Extended,
    }
}

/// When a silent allocation's window is over; `None` where it has none or never fell silent.
pub(super) fn window_end(alloc: &Allocation, window: Option<Duration>) -> Option<UnixNanos> {
    let since = alloc
        .alloc_states
        .iter()
        .rev()
        .find(|state| state.value == ClientStatus::Unknown)
        .map(|state| state.time);
    Some(since?.saturating_add(window?))
}

/// Whether an evaluation that was made to look at `alloc` again is still to come. The one that is
/// being decided is not: a wall clock that was set back makes it come before its time, and then
/// another one is owed.
pub(super) fn awaited(snapshot: &Snapshot, alloc: &Allocation, deciding: EvalId) -> bool {
    alloc
        .followup_eval_id
        .filter(|id| *id != deciding)
        .and_then(|id| snapshot.eval(id))
        .is_some_and(|eval| eval.status == EvalStatus::Pending)
}
