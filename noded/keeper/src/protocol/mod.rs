//! The words that noded and keeper say to each other, as data.
//!
//! ```text
//!   noded                         keeper
//!     | -- Hello ------------------> |   first, always in version 1
//!     | <------------- Welcome ----- |
//!     | -- List -------------------> |   what runs, what ended unseen
//!     | <-- Listing (more: true) --- |
//!     | <-- Listing (more: false) -- |
//!     | -- Spawn + descriptors ----> |
//!     | <------------ Accepted ----- |   or Refused, and then no event follows
//!     | <------- event Started ----- |   or SpawnFailed, which ends the run
//!     | <-------- event Exited ----- |
//!     | -- Acknowledge ------------> |   only now is the outcome forgotten
//! ```
//!
//! Variants are only ever appended (postcard writes a variant as its position), and fields never
//! change. A packet carries the version in which its message came to be, so that what both sides
//! knew before keeps its bytes; what a peer does not know is not sent to it. `tests/golden/` holds
//! the bytes of every message, one folder for each version.
//!
//! | version | brought |
//! |---|---|
//! | 1 | everything that is not named below |
//! | 2 | `Upgrade`, leases, and what may come of them |
//! | 3 | `Hold`, `Take`, `Drop`, and what may come of them |

mod clock;
mod event;
mod key;
mod packet;
mod plan;
mod report;
mod request;
mod response;
mod since;

use serde::{Deserialize, Serialize};

pub use clock::{BootNanos, UnixNanos};
pub use event::{Event, Exit, ExitCause, ExitStatus, OomKill, Remains, SpawnFailure};
pub(crate) use key::is_alloc_id;
pub use key::{AllocAndTask, KeyError, TASK_NAME_BYTES_MAX, TaskKey};
pub use packet::{
    DESCRIPTORS_MAX, PACKET_BYTES_MAX, PacketError, decode_from_client, decode_from_keeper,
    encode_for_client, encode_for_keeper,
};
pub use plan::{PlanBytesError, decode_plan, encode_plan};
pub use report::{TaskPhase, TaskReport};
pub use request::{Lease, Request, SpawnRequest, StdioSource};
pub use response::{Refusal, Response, StopMethod};

/// The newest version that this code speaks.
pub const PROTOCOL_VERSION: u8 = 3;

/// All versions that this code speaks, for `Hello`.
pub const PROTOCOL_VERSIONS: VersionRange = VersionRange {
    lowest: 1,
    highest: PROTOCOL_VERSION as u32,
};

/// Leases in one [`Request::ExtendLeases`]; the longest has under 64 bytes, so they stay far below
/// [`PACKET_BYTES_MAX`].
pub const LEASES_PER_REQUEST_MAX: usize = 512;

/// Entries in one [`Response::Listing`]; the longest entry is under 400 bytes, so a page stays far
/// below [`PACKET_BYTES_MAX`].
pub const LISTING_ENTRIES_MAX: usize = 100;

/// Sockets in one [`Response::Held`]: as many descriptors as a packet carries. The longest entry is
/// under 240 bytes.
pub const HELD_PER_PAGE_MAX: usize = DESCRIPTORS_MAX;

/// An inclusive range of versions that one side can speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    pub lowest: u32,
    pub highest: u32,
}

impl VersionRange {
    /// The highest version that both ranges hold, if there is one.
    #[must_use]
    pub fn best_common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

/// Names a request on one connection, so that its response can be told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u32);

/// A signal number as the kernel counts them (1..=64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OsSignal(pub i32);

/// One packet from keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Response { call: CallId, response: Response },
    Event(Event),
}
