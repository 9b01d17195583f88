//! What the condition of its node makes of an allocation that neither side is done with: one answer
//! for jobs of every type. What follows from it is theirs.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::{LeaseEnd, NodeRecord, Snapshot};
use protocol_model::{Allocation, ClientStatus, EvalStatus, NodeStatus, TaskGroup, UnixNanos};

use super::Subject;

/// What a node's condition means for the allocations on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taint {
    /// Nothing: it is there, even if it owes its report.
    None,
    /// It is silent and may return.
    Disconnected,
    /// It is silent for good, as far as anyone can tell.
    Gone,
    /// Nobody knows it any more: it was purged.
    Forgotten,
}

impl Taint {
    fn of(node: Option<&Arc<NodeRecord>>) -> Self {
        let Some(node) = node.map(|record| &record.node) else {
            return Self::Forgotten;
        };
        match node.status {
            NodeStatus::Down => Self::Gone,
            NodeStatus::Disconnected => Self::Disconnected,
            NodeStatus::Ready | NodeStatus::Initializing => Self::None,
        }
    }

    pub(crate) fn on(snapshot: &Snapshot, alloc: &Allocation) -> Self {
        Self::of(snapshot.node(alloc.node_id))
    }

    /// Whether nobody hears the node, nor knows when somebody will.
    pub(crate) fn is_final(self) -> bool {
        match self {
            Self::Gone | Self::Forgotten => true,
            Self::None | Self::Disconnected => false,
        }
    }
}

/// What its group does while one is silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// It counts, and nobody takes its place.
    Waits,
    /// Somebody takes its place meanwhile.
    IsReplaced,
}

/// What an allocation is, as far as its node goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// Its node is gone, or was silent for longer than the group tolerates.
    Lost,
    /// Its node just fell silent, and it may return.
    Disconnecting(Silence),
    /// It may return still: its node is silent, or is back and owes its report.
    Unknown {
        silence: Silence,
        /// When it is given up, if it ever is.
        until: Option<UnixNanos>,
    },
    /// It was asked to leave its node, by a drain or an operator.
    Migrating,
    /// Its node is back, and has said what it does.
    Reconnecting,
    /// It stands.
    Standing,
}

/// The group of the version that `alloc` runs. All that concerns silence goes by it (as in Nomad):
/// its node, which goes on by itself meanwhile, hears of no newer one.
pub(super) fn own_group<'a>(
    snapshot: &'a Snapshot,
    group: &'a TaskGroup,
    alloc: &Allocation,
) -> &'a TaskGroup {
    snapshot.group_of_alloc(alloc).unwrap_or(group)
}

/// What `alloc` of `group` is at `now`. Rule (Nomad 1.6, its reconciler's table of allocations on
/// tainted nodes), except that a node that is back says what runs before anything is concluded from
/// its return.
pub(super) fn condition(
    snapshot: &Snapshot,
    group: &TaskGroup,
    alloc: &Allocation,
    now: UnixNanos,
) -> Condition {
    let taint = Taint::on(snapshot, alloc);
    let unknown = alloc.client_status == ClientStatus::Unknown;
    match taint {
        Taint::None if !unknown => return heard(alloc),
        Taint::None | Taint::Disconnected | Taint::Gone | Taint::Forgotten => {}
    }
    let group = own_group(snapshot, group, alloc);
    match snapshot.lease_end(alloc) {
        LeaseEnd::NoLease => unheard(taint, group, alloc, now),
        // A node that is back extends the lease, also while it owes its report.
        LeaseEnd::Extended => Condition::Unknown {
            silence: Silence::Waits,
            until: None,
        },
        LeaseEnd::At(end) => on_lease(taint, group, alloc, end, now),
    }
}

/// What one is that is silent, or whose node is back and owes its report.
fn unheard(taint: Taint, group: &TaskGroup, alloc: &Allocation, now: UnixNanos) -> Condition {
    let unknown = alloc.client_status == ClientStatus::Unknown;
    let window = group.disconnect_window();
    let until = window_end(alloc, window);
    if unknown && until.is_some_and(|end| end <= now) {
        return Condition::Lost;
    }
    // An operator does not want to wait for it.
    if unknown && alloc.desired_transition.should_migrate() {
        return Condition::Migrating;
    }
    let stays = !group.replaces_on_disconnect();
    // What takes its place within its window is a rescheduled one (Nomad #16515).
    let silence = if stays || (window.is_some() && group.is_never_rescheduled()) {
        Silence::Waits
    } else {
        Silence::IsReplaced
    };
    match taint {
        // It does not return, whatever its group would tolerate.
        Taint::Forgotten => Condition::Lost,
        Taint::Gone if stays && unknown => Condition::Unknown { silence, until },
        // Also without a window: what other groups tolerate makes its node no less silent.
        Taint::Gone | Taint::Disconnected
            if stays && alloc.client_status == ClientStatus::Running =>
        {
            Condition::Disconnecting(silence)
        }
        Taint::Gone => Condition::Lost,
        Taint::Disconnected if unknown => Condition::Unknown { silence, until },
        Taint::None => Condition::Unknown { silence, until },
        Taint::Disconnected if window.is_none() || alloc.client_status == ClientStatus::Pending => {
            Condition::Lost
        }
        Taint::Disconnected => Condition::Disconnecting(silence),
    }
}

/// What a silent one of a group is that stops itself. It may run as long as its lease lasts, also
/// where nobody has said that it started: of such a group no two run at once, so that nobody takes
/// its place before.
fn on_lease(
    taint: Taint,
    group: &TaskGroup,
    alloc: &Allocation,
    end: UnixNanos,
    now: UnixNanos,
) -> Condition {
    let silence = Silence::Waits;
    let until = is_given_up(taint, group, alloc).then_some(end);
    if alloc.client_status != ClientStatus::Unknown {
        Condition::Disconnecting(silence)
    } else if until.is_some_and(|end| end <= now) {
        Condition::Lost
    } else {
        Condition::Unknown { silence, until }
    }
}

/// Whether somebody takes the place of a silent one when its lease is over: where its group wants
/// that, or an operator, and where it does not return.
fn is_given_up(taint: Taint, group: &TaskGroup, alloc: &Allocation) -> bool {
    group.replaces_on_disconnect()
        || alloc.desired_transition.should_migrate()
        || taint == Taint::Forgotten
}

/// For how long one that just fell silent may stay so; nothing where it is for as long as it takes.
pub(crate) fn tolerated(
    snapshot: &Snapshot,
    group: &TaskGroup,
    alloc: &Allocation,
) -> Option<Duration> {
    let group = own_group(snapshot, group, alloc);
    match group.lease_over_after() {
        Some(over_after) => {
            is_given_up(Taint::on(snapshot, alloc), group, alloc).then_some(over_after)
        }
        None => group.disconnect_window(),
    }
}

/// What an allocation is whose node is there, and has said what it does.
fn heard(alloc: &Allocation) -> Condition {
    if alloc.desired_transition.should_migrate() {
        Condition::Migrating
    } else if alloc.needs_reconnect() {
        Condition::Reconnecting
    } else {
        Condition::Standing
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
/// another one is owed. Nor is one that is due: the broker may have dropped it for this very one,
/// which came later and sees as much.
pub(super) fn awaited(subject: &Subject<'_>, alloc: &Allocation) -> bool {
    alloc
        .followup_eval_id
        .filter(|id| *id != subject.eval)
        .and_then(|id| subject.snapshot.eval(id))
        .filter(|eval| eval.status == EvalStatus::Pending)
        .is_some_and(|eval| eval.wait_until.is_some_and(|at| at > subject.now))
}
