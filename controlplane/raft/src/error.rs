//! Why an operation on the log did not succeed, one family per operation. Each says whether the
//! caller should go to the leader, wait, give up, or stop the process.

use std::time::Duration;

use crate::engine::{Fatal, Forward};
use crate::member::{Leader, ServerId};

/// This server takes no further part in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoppedError {
    /// Disk or machine failed: the process must exit, and say this.
    #[error("storage failed, the server must stop: {0}")]
    Storage(String),
    /// A bug; the process must exit.
    #[error("the log's driver panicked")]
    Panicked,
    #[error("the server is shutting down")]
    ShutDown,
}

impl StoppedError {
    pub(crate) fn from_fatal(fatal: &Fatal) -> Self {
        match fatal {
            Fatal::StorageError(error) => Self::Storage(error.to_string()),
            Fatal::Panicked => Self::Panicked,
            Fatal::Stopped => Self::ShutDown,
        }
    }
}

/// Why a command has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Another server leads: send it there. Nothing was written.
    #[error("not the leader")]
    NotLeader { leader: Leader },
    /// No leader could be found, or it has no majority. Nothing was written.
    #[error("no leader with a majority within {waited:?}")]
    Unavailable { waited: Duration },
    /// Too many proposals wait already. Nothing was written.
    #[error("too many proposals are waiting")]
    Overloaded,
    #[error("a command of {bytes} bytes is above the cap of {bytes_max}")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// The command was written and may or may not take effect: only a repeat that cannot do harm
    /// may follow.
    #[error("the outcome of the command is not known")]
    OutcomeUnknown,
    #[error("the log has stopped")]
    Stopped(#[source] StoppedError),
}

/// Why local state could not be brought up to date for a read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("not the leader")]
    NotLeader { leader: Leader },
    #[error("no leader with a majority within {waited:?}")]
    Unavailable { waited: Duration },
    #[error("the log has stopped")]
    Stopped(#[source] StoppedError),
}

/// Why the membership was not changed, or the leadership not transferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("not the leader")]
    NotLeader { leader: Leader },
    #[error("no leader with a majority within {waited:?}")]
    Unavailable { waited: Duration },
    #[error("another change of the membership is under way")]
    InProgress,
    #[error("server {0} is not a member")]
    UnknownServer(ServerId),
    #[error("server {0} does not vote")]
    NotVoter(ServerId),
    #[error("server {0} is the last voter")]
    LastVoter(ServerId),
    #[error("server {id} is a member at {address:?} already")]
    AddressTaken { id: ServerId, address: String },
    #[error("the membership already has {0} servers")]
    TooManyServers(usize),
    #[error("the change was refused: {0}")]
    Refused(String),
    #[error("the outcome of the change is not known")]
    OutcomeUnknown,
    #[error("the log has stopped")]
    Stopped(#[source] StoppedError),
}

/// Why there is no checkpoint to read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("there is no snapshot: nothing was applied yet")]
    Empty,
    #[error("no snapshot was finished within {0:?}")]
    Timeout(Duration),
    #[error("opening the snapshot")]
    Open(#[source] std::io::Error),
    #[error("the log has stopped")]
    Stopped(#[source] StoppedError),
}

/// Where a refused operation should go, if that is known.
pub(crate) fn forwarded_leader(forward: &Forward) -> Option<Leader> {
    forward.leader_id.map(|id| Leader {
        id: ServerId::from_u64(id),
        info: forward.leader_node.clone(),
    })
}
