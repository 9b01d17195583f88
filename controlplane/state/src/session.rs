//! The relation of a node and the control plane as a table: which event does what in which phase.
//!
//! ```text
//!                 Register (facts, join token)
//!  unregistered ------------------------------> initializing <--------------------+
//!                                                 |     ^                         |
//!                                      NodeSynced |     | Hello, not resumable    | Hello
//!                                                 v     |                         |
//!                                                 ready-+                         |
//!                          HeartbeatMissed:       |  (initializing too)            |
//!                          an allocation tolerates it?                            |
//!                               yes |                | no                         |
//!                                   v                v                            |
//!                              disconnected ------> down -------------------------+
//!                                   | WindowExpired                               |
//!                                   +---------------------------------------------+
//! ```
//!
//! The promise behind it: a node is ready only after the control plane knows everything the node
//! knows. So every way to `ready` goes through `initializing` and a complete report.

use protocol_model::NodeStatus;

use crate::applied::WelcomeKind;

/// Where a node is, its absence included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NodePhase {
    /// Never seen, or purged.
    Unregistered,
    /// In a session, owes its complete report.
    Initializing,
    /// Everything it knows is known.
    Ready,
    /// Silent, and some allocation tolerates that.
    Disconnected,
    /// Silent for good, as far as anyone can tell.
    Down,
}

impl From<NodeStatus> for NodePhase {
    fn from(status: NodeStatus) -> Self {
        match status {
            NodeStatus::Initializing => Self::Initializing,
            NodeStatus::Ready => Self::Ready,
            NodeStatus::Disconnected => Self::Disconnected,
            NodeStatus::Down => Self::Down,
        }
    }
}

/// How a node's knock relates to the session that the state knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Knock {
    /// It has nothing to do with it.
    Fresh,
    /// It is the knock that made it, heard again.
    Repeated,
    /// It names its epoch and boot, and the daemon is the same process.
    Resumable,
}

/// Whether an allocation on the node still tolerates its silence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tolerance {
    /// At least one has an open disconnect window.
    Window,
    /// None has.
    None,
}

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NodeEvent {
    /// A knock with facts, by a node without a session.
    Register(Knock),
    /// Any other knock.
    Hello(Knock),
    /// Live reports.
    StatusBatch,
    /// New facts.
    Facts,
    /// The complete report.
    NodeSynced,
    /// A complete report that makes no sense.
    SyncRejected,
    /// The complete report is overdue.
    SyncDeadline,
    /// Nothing was heard for a detection period.
    HeartbeatMissed(Tolerance),
    /// No window is open any more.
    WindowExpired,
    /// It has not accepted in time what was placed on it.
    PendingExpired,
    /// An operator or garbage collection forgets the node.
    Purge,
}

/// Whether an event names the session that the state knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EpochMatch {
    /// It does, or the event has none to name.
    Same,
    /// It names another: it is late, or someone else's.
    Other,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// A new epoch; the node owes its complete report.
    NewSession,
    /// The session that there is.
    SameSession(WelcomeKind),
    /// Take it in.
    Accept,
    /// Another status, with the evaluations it causes.
    Become(NodeStatus),
    /// Stay, and count it.
    CountRejection,
    /// Stay, and take the session away.
    CloseSession,
    /// Remove the node.
    Forget,
    /// Right, but there is nothing to do.
    NoOp,
    /// Turned away: the complete report comes first.
    OwesSync,
    /// Turned away: not in this session.
    NotInSession,
    /// Turned away: the node is not registered.
    Unregistered,
}

/// The table. Every cell is written; *no-op* and *turned away* are different answers.
pub fn transition(phase: NodePhase, event: NodeEvent, epoch: EpochMatch) -> Verdict {
    if epoch == EpochMatch::Other {
        return of_another_epoch(event);
    }
    match phase {
        NodePhase::Unregistered => unregistered(event),
        NodePhase::Initializing => initializing(event),
        NodePhase::Ready => ready(event),
        NodePhase::Disconnected => silent(event, Verdict::Become(NodeStatus::Down)),
        NodePhase::Down => silent(event, Verdict::NoOp),
    }
}

/// Decisions that were made for another session are void; messages of another session are refused.
/// Knocks and purges name no session that could be another.
fn of_another_epoch(event: NodeEvent) -> Verdict {
    match event {
        NodeEvent::StatusBatch
        | NodeEvent::Facts
        | NodeEvent::NodeSynced
        | NodeEvent::SyncRejected => Verdict::NotInSession,
        NodeEvent::SyncDeadline
        | NodeEvent::HeartbeatMissed(_)
        | NodeEvent::WindowExpired
        | NodeEvent::PendingExpired => Verdict::NoOp,
        NodeEvent::Register(_) | NodeEvent::Hello(_) => Verdict::NewSession,
        NodeEvent::Purge => Verdict::Forget,
    }
}

fn unregistered(event: NodeEvent) -> Verdict {
    match event {
        NodeEvent::Register(_) => Verdict::NewSession,
        NodeEvent::Hello(_) | NodeEvent::Purge => Verdict::Unregistered,
        NodeEvent::StatusBatch
        | NodeEvent::Facts
        | NodeEvent::NodeSynced
        | NodeEvent::SyncRejected => Verdict::NotInSession,
        NodeEvent::SyncDeadline
        | NodeEvent::HeartbeatMissed(_)
        | NodeEvent::WindowExpired
        | NodeEvent::PendingExpired => Verdict::NoOp,
    }
}

fn initializing(event: NodeEvent) -> Verdict {
    match event {
        // A connection lost in the middle of a sync begins a new one: what the gateway held of the
        // old one is gone.
        NodeEvent::Register(Knock::Fresh | Knock::Resumable)
        | NodeEvent::Hello(Knock::Fresh | Knock::Resumable) => Verdict::NewSession,
        NodeEvent::Register(Knock::Repeated) | NodeEvent::Hello(Knock::Repeated) => {
            Verdict::SameSession(WelcomeKind::Repeated)
        }
        NodeEvent::StatusBatch => Verdict::OwesSync,
        NodeEvent::Facts => Verdict::Accept,
        NodeEvent::NodeSynced => Verdict::Become(NodeStatus::Ready),
        NodeEvent::SyncRejected => Verdict::CountRejection,
        NodeEvent::SyncDeadline => Verdict::CloseSession,
        NodeEvent::HeartbeatMissed(tolerance) => missed(tolerance),
        NodeEvent::WindowExpired | NodeEvent::PendingExpired => Verdict::NoOp,
        NodeEvent::Purge => Verdict::Forget,
    }
}

fn ready(event: NodeEvent) -> Verdict {
    match event {
        NodeEvent::Register(Knock::Fresh | Knock::Resumable) | NodeEvent::Hello(Knock::Fresh) => {
            Verdict::NewSession
        }
        NodeEvent::Register(Knock::Repeated) | NodeEvent::Hello(Knock::Repeated) => {
            Verdict::SameSession(WelcomeKind::Repeated)
        }
        NodeEvent::Hello(Knock::Resumable) => Verdict::SameSession(WelcomeKind::Resumed),
        NodeEvent::StatusBatch | NodeEvent::Facts => Verdict::Accept,
        // A second report of one session: the first one's entry was long on its way, and says what
        // was true then.
        NodeEvent::NodeSynced => Verdict::Accept,
        NodeEvent::SyncRejected | NodeEvent::SyncDeadline => Verdict::NoOp,
        NodeEvent::HeartbeatMissed(tolerance) => missed(tolerance),
        NodeEvent::WindowExpired => Verdict::NoOp,
        NodeEvent::PendingExpired => Verdict::Accept,
        NodeEvent::Purge => Verdict::Forget,
    }
}

/// Disconnected and down differ in one cell.
fn silent(event: NodeEvent, window_expired: Verdict) -> Verdict {
    match event {
        NodeEvent::Register(_) | NodeEvent::Hello(_) => Verdict::NewSession,
        NodeEvent::StatusBatch
        | NodeEvent::Facts
        | NodeEvent::NodeSynced
        | NodeEvent::SyncRejected => Verdict::NotInSession,
        NodeEvent::SyncDeadline | NodeEvent::HeartbeatMissed(_) | NodeEvent::PendingExpired => {
            Verdict::NoOp
        }
        NodeEvent::WindowExpired => window_expired,
        NodeEvent::Purge => Verdict::Forget,
    }
}

fn missed(tolerance: Tolerance) -> Verdict {
    match tolerance {
        Tolerance::Window => Verdict::Become(NodeStatus::Disconnected),
        Tolerance::None => Verdict::Become(NodeStatus::Down),
    }
}
