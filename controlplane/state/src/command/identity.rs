//! The command of workload identities. No signed token is ever in the log: `apply` notes the key
//! that signs the identities of an allocation, and servers sign when a node asks.

use protocol_model::AllocId;
use serde::{Deserialize, Serialize};

use super::{AccessCommand, Command};

/// The level of the first release that stamps allocations with the key of their identities.
pub const IDENTITY_LEVEL: u32 = 4;

/// The most allocations that one entry moves to another key.
pub const RESIGN_ALLOCS_MAX: usize = 5000;

/// Moves allocations to the active root key: their nodes ask for new identities.
///
/// The first of these commands begins identities: only from then on is a placement stamped with
/// the active key. Servers of older releases stamp nothing, and could not have read this command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AllocsResign {
    /// The number of the active key that the proposer saw. Refused where another one is active.
    pub key: u32,
    /// The allocations, at most [`RESIGN_ALLOCS_MAX`]. Allocations that are unknown, over for their
    /// client or signed with this key already are passed over.
    pub allocs: Vec<AllocId>,
}

impl From<AllocsResign> for Command {
    fn from(command: AllocsResign) -> Self {
        Self::Access(AccessCommand::AllocsResign(command))
    }
}
