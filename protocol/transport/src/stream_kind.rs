//! The first byte of every stream: what the rest of it is, and who may open it.

use std::fmt;

use crate::fault::Fault;
use crate::role::Role;

/// What a stream carries. The values are on the wire: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StreamKind {
    /// Server to server: one Raft call, or one call of cluster formation.
    Raft = 1,
    /// Server to server: one request that its receiver, not its sender, must execute.
    Forward = 2,
    /// Node to server: hello, heartbeats and the server's answers, as long as the session lives.
    NodeSession = 16,
    /// Node to server: status batches and their acknowledgements.
    NodeUpdates = 17,
    /// Node to server: the node's desired state, pushed by the server.
    NodeWatch = 18,
    /// Node to server: one request of the node, such as a missing job specification.
    NodeQuery = 19,
    /// Node to server: requests of one of its tasks to the HTTP API, one after the other.
    TaskApi = 20,
    /// Server to node: one request, such as logs, file access, `exec` or a restart.
    NodeCall = 32,
    /// Either way: large data that may wait, in chunks.
    Bulk = 48,
}

/// Why a stream could not be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamKindError {
    #[error("stream kind {0} is unknown")]
    Unknown(u8),
    #[error("a {role} may not open a {kind} stream")]
    NotAllowed { role: Role, kind: StreamKind },
    #[error("the stream ended before it said what it is")]
    Empty,
    #[error("the stream broke before it said what it is")]
    Read(#[source] quinn::ReadError),
}

impl StreamKindError {
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unknown(_) | Self::NotAllowed { .. } | Self::Empty => Fault::Peer,
            Self::Read(_) => Fault::Environment,
        }
    }
}

/// The send priority of a stream of urgent updates, both ways: before the updates that may gather,
/// and before what is wanted.
pub const URGENT_PRIORITY: i32 = StreamKind::NodeUpdates.priority() + 2;

/// The send priority of events that a server was not told: nobody waits for them.
pub const DETAIL_PRIORITY: i32 = StreamKind::NodeUpdates.priority() - 1;

impl StreamKind {
    pub const ALL: [Self; 9] = [
        Self::Raft,
        Self::Forward,
        Self::NodeSession,
        Self::NodeUpdates,
        Self::NodeWatch,
        Self::NodeQuery,
        Self::TaskApi,
        Self::NodeCall,
        Self::Bulk,
    ];

    pub const fn to_byte(self) -> u8 {
        self as u8
    }

    /// # Errors
    /// When no kind has this byte.
    pub fn from_byte(byte: u8) -> Result<Self, StreamKindError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_byte() == byte)
            .ok_or(StreamKindError::Unknown(byte))
    }

    /// Whether a peer of this role may open such a stream.
    pub const fn may_be_opened_by(self, role: Role) -> bool {
        match self {
            Self::Raft | Self::Forward | Self::NodeCall => matches!(role, Role::Server),
            Self::NodeSession
            | Self::NodeUpdates
            | Self::NodeWatch
            | Self::NodeQuery
            | Self::TaskApi => matches!(role, Role::Node),
            Self::Bulk => matches!(role, Role::Server | Role::Node),
        }
    }

    /// The send priority that such a stream starts with. QUIC sends strictly by tier, so what
    /// keeps a cluster alive stands above what carries its data, and bulk below everything.
    pub const fn priority(self) -> i32 {
        match self {
            Self::Raft => 20,
            Self::NodeSession => 15,
            Self::Forward | Self::NodeUpdates | Self::NodeWatch => 10,
            Self::NodeQuery | Self::TaskApi | Self::NodeCall => 5,
            Self::Bulk => -10,
        }
    }

    /// Writes the kind as the first byte of a stream just opened, and sets its priority.
    ///
    /// # Errors
    /// When the stream or its connection is gone.
    pub async fn write(self, stream: &mut quinn::SendStream) -> Result<(), quinn::WriteError> {
        // Fails only on a closed stream, and then the write below says so.
        let _ = stream.set_priority(self.priority());
        stream.write_all(&[self.to_byte()]).await
    }

    /// Reads the first byte of a stream just accepted, and checks that `role` may open it.
    ///
    /// # Errors
    /// When the byte is missing or unknown, or the role may not open such a stream.
    pub async fn read(stream: &mut quinn::RecvStream, role: Role) -> Result<Self, StreamKindError> {
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .await
            .map_err(|error| match error {
                quinn::ReadExactError::FinishedEarly(_) => StreamKindError::Empty,
                quinn::ReadExactError::ReadError(error) => StreamKindError::Read(error),
            })?;
        let kind = Self::from_byte(byte[0])?;
        if kind.may_be_opened_by(role) {
            Ok(kind)
        } else {
            Err(StreamKindError::NotAllowed { role, kind })
        }
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_the_kinds_are_frozen() {
        let bytes: Vec<u8> = StreamKind::ALL
            .into_iter()
            .map(StreamKind::to_byte)
            .collect();
        assert_eq!(bytes, [1, 2, 16, 17, 18, 19, 20, 32, 48]);
    }

    #[test]
    fn every_byte_is_a_kind_or_an_error() {
        for byte in 0..=u8::MAX {
            match StreamKind::from_byte(byte) {
                Ok(kind) => assert_eq!(kind.to_byte(), byte),
                Err(error) => assert_eq!(error, StreamKindError::Unknown(byte)),
            }
        }
    }

    #[test]
    fn what_keeps_a_cluster_alive_is_sent_before_what_somebody_waits_for() {
        use StreamKind as Kind;
        let order = [
            Kind::Raft.priority(),
            Kind::NodeSession.priority(),
            URGENT_PRIORITY,
            Kind::NodeUpdates.priority(),
            DETAIL_PRIORITY,
            Kind::NodeCall.priority(),
            // A stream of whose priority nothing is said has this one.
            0,
            Kind::Bulk.priority(),
        ];
        assert!(
            order.is_sorted_by(|before, after| before > after),
            "{order:?}"
        );
    }

    #[test]
    fn an_operator_opens_no_stream_and_a_node_speaks_no_raft() {
        for kind in StreamKind::ALL {
            assert!(!kind.may_be_opened_by(Role::Cli), "{kind}");
        }
        assert!(!StreamKind::Raft.may_be_opened_by(Role::Node));
        assert!(!StreamKind::NodeSession.may_be_opened_by(Role::Server));
    }
}
