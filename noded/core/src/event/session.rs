//! What happens in a session: what the server says, and that the connection comes and goes.

use std::sync::Arc;
use std::time::Duration;

use protocol_model::{AllocId, Allocation, Job, SpecHash};

use crate::effect::UpdateClass;
use crate::key::{SessionEpoch, Watermark};

/// What happens in a session.
#[derive(Clone, PartialEq, Debug)]
pub enum SessionEvent {
    /// The connection stands, mutually authenticated.
    Connected,
    /// The connection could not be made, or ended.
    Disconnected {
        /// Why, for logs.
        reason: String,
        /// Its meaning for the choice of the next server.
        ending: Ending,
    },
    /// The server made or resumed the session.
    Welcome(Welcome),
    /// The server made none.
    Refused(Refused),
    /// The complete report is committed.
    SyncAck {
        /// The session.
        epoch: SessionEpoch,
        /// The log index that did it.
        index: u64,
    },
    /// The facts that were sent last are committed.
    FactsAck {
        /// The session.
        epoch: SessionEpoch,
    },
    /// The server heard a heartbeat.
    HeartbeatAck(HeartbeatAck),
    /// A batch is committed, or refused item by item.
    BatchAck(BatchAck),
    /// A batch could not be sent, or its fate is unknown, while the session goes on.
    BatchFailed {
        /// Its class.
        class: UpdateClass,
        /// Its number.
        seq: u64,
    },
    /// A part of the complete map, first on every watch.
    WatchMap(WatchMap),
    /// A change of desired state.
    WatchDelta(WatchDelta),
}

/// The state of a server, as the end of a connection shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ending {
    /// It is there, and has no time for us now.
    Busy,
    /// It said nothing at all.
    Silence,
    /// Nothing, or something that makes no difference.
    #[default]
    Otherwise,
}

/// The server's answer to a Hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The session.
    pub epoch: SessionEpoch,
    /// Whether it goes on as it was: no sync is owed.
    pub resumed: bool,
    /// The last urgent batch that was applied.
    pub applied_urgent_seq: u64,
    /// The last typical batch that was applied.
    pub applied_typical_seq: u64,
    /// From one heartbeat to the next, where anything is in doubt.
    pub heartbeat_interval: Duration,
    /// From one heartbeat to the next, where every answer came in time for a while; one that is
    /// below the other interval stands for it.
    pub calm_interval: Duration,
    /// How long typical updates may gather.
    pub typical_interval: Duration,
    /// How long urgent updates may gather.
    pub urgent_delay: Duration,
    /// How long to wait before another attempt.
    pub retry_interval: Duration,
    /// The server's history and how far it has applied it.
    pub applied: Watermark,
    /// How many servers the shell knows now: the answer's list replaces the earlier one.
    pub servers: usize,
    /// Of a session that goes on: whether the server lacks what it does not get from the log, the
    /// events of tasks and the versions that the node acts on.
    pub newcomer: bool,
}

/// The server's refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub reason: RefusedReason,
    /// Why, for people.
    pub message: String,
    /// How long to wait before another attempt.
    pub retry_interval: Duration,
    /// How many servers the shell knows now; zero = the list is as before.
    pub servers: usize,
}

/// Why a server made no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedReason {
    /// There is no leader.
    NoLeader,
    /// It is behind the node's watermark: another server may do.
    Behind,
    /// Another host uses this node's id.
    WrongSecret,
    /// The join token is missing or wrong.
    JoinToken,
    /// No protocol version in common.
    Protocol,
    /// The node was purged, or never known: the next Hello says everything.
    Unregistered,
    /// Too much to do.
    Overloaded,
    /// Our message made no sense to it.
    Malformed,
    /// The session is over.
    NotInSession,
    /// Something that this release does not know.
    Other,
}

/// The server's answer to a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatAck {
    /// Which heartbeat.
    pub tick: u64,
    /// How long typical updates may gather from now on; zero = unchanged.
    pub typical_interval: Duration,
    /// Sending time (`CLOCK_BOOTTIME` nanoseconds) of the newest heartbeat that the leader
    /// confirmed.
    pub confirmed_sent_nanos: u64,
    /// Whether the server has not reached the leader for a while: another one may.
    pub cut_off: bool,
    /// The shortest time between two heartbeats that the server can bear now; zero = any.
    pub pace: Duration,
}

/// The server's answer to a batch, made from the result of applying it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchAck {
    /// The class.
    pub class: UpdateClass,
    /// The batch.
    pub seq: u64,
    /// The log index that applied it.
    pub index: u64,
    /// The result of each item, in the batch's order.
    pub results: Vec<ItemResult>,
}

/// What became of one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemResult {
    /// It is recorded.
    Applied,
    /// A newer one is recorded already.
    Superseded,
    /// The session is over: the update comes back in the next one's sync.
    NotInSession,
    /// The state does not know the allocation.
    UnknownAlloc,
}

/// A part of the complete map of what the node should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchMap {
    /// The index that the map is about.
    pub at: Watermark,
    /// The part's number, from 0.
    pub part: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// Allocations and the version of what is wanted of them.
    pub allocs: Vec<(AllocId, u64)>,
}

/// A change of desired state.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchDelta {
    /// The index that it goes on from.
    pub previous_index: u64,
    /// The index that it leads to.
    pub index: u64,
    /// Job specifications that were not sent before in this session.
    pub specs: Vec<(SpecHash, Arc<Job>)>,
    /// Allocations, new or changed, without their jobs.
    pub changed: Vec<DesiredAlloc>,
    /// Allocations that the state does not know any more.
    pub removed: Vec<AllocId>,
}

/// What is wanted of one allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct DesiredAlloc {
    /// The version: the allocation's `alloc_modify_index`.
    pub version: u64,
    /// The specification of its job.
    pub spec: SpecHash,
    /// The allocation, `job` left out.
    pub alloc: Allocation,
    /// The number of the root key that signs its identities; 0 = none.
    pub root_key: u32,
}
