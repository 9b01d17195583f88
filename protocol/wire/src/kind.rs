//! Which message a frame carries. A frame's kind byte is part of the protocol: a number is never
//! used again, and an unknown one is the sender's mistake.

use bytes::Bytes;

use crate::v1;

/// A message that travels in a frame of its own.
pub trait FrameMessage: prost::Message + Default {
    /// Its frame's kind byte.
    const KIND: u8;
}

macro_rules! frames {
    ($($kind:literal => $message:ident),* $(,)?) => {
        $(impl FrameMessage for v1::$message {
            const KIND: u8 = $kind;
        })*

        /// Every kind byte in use, with its message's name.
        pub const KINDS: &[(u8, &str)] = &[$(($kind, stringify!($message))),*];
    };
}

frames! {
    // Sessions.
    1 => Hello,
    2 => Welcome,
    3 => Refused,
    4 => Heartbeat,
    5 => HeartbeatAck,
    6 => WatchAck,
    7 => SyncPart,
    8 => SyncAck,
    9 => StatusBatch,
    10 => BatchAck,
    11 => FactsUpdate,
    12 => AttachBulk,
    13 => Attached,
    14 => StreamHello,
    15 => FactsAck,
    16 => DetailReport,
    17 => CallsWanted,
    // The watch.
    32 => WatchMap,
    33 => WatchDelta,
    34 => WatchKnown,
    // Calls to nodes.
    48 => NodeRequest,
    49 => NodeReply,
    50 => ExecInput,
    // Questions of nodes, and requests of their tasks.
    51 => QueryRequest,
    52 => QueryReply,
    53 => ApiRequest,
    54 => ApiResponse,
    55 => ApiBody,
    // Between servers.
    64 => ProposeRequest,
    65 => ProposeReply,
    66 => LivenessReport,
    67 => LivenessConfirmed,
    68 => RelayRequest,
    69 => Relayed,
    70 => DetailRequest,
    71 => DetailReply,
    72 => MembershipRequest,
    73 => MembershipReply,
    74 => AboutRequest,
    75 => AboutReply,
    76 => KekRequest,
    77 => KekReply,
    78 => KekStore,
    79 => KekProofRequest,
    80 => KekProofReply,
    81 => LockRenewRequest,
    82 => LockRenewReply,
}

/// Why a frame is not the message that was expected. Always the sender's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// Another message, or one that nobody knows.
    #[error("expected a {expected} frame, got kind {got}")]
    Unexpected {
        /// The message that fits here.
        expected: &'static str,
        /// The frame's kind byte.
        got: u8,
    },
    /// The bytes are no such message.
    #[error("malformed {name}")]
    Malformed {
        /// The message.
        name: &'static str,
        /// What is wrong.
        #[source]
        source: prost::DecodeError,
    },
}

/// The kind byte and the body of the frame that carries `message`.
pub fn to_frame<M: FrameMessage>(message: &M) -> (u8, Bytes) {
    (M::KIND, Bytes::from(message.encode_to_vec()))
}

/// The message that a frame carries.
///
/// # Errors
/// When the frame carries another message, or bytes that are none.
pub fn from_frame<M: FrameMessage>(kind: u8, body: Bytes) -> Result<M, MessageError> {
    let name = name_of::<M>();
    if kind != M::KIND {
        return Err(MessageError::Unexpected {
            expected: name,
            got: kind,
        });
    }
    M::decode(body).map_err(|source| MessageError::Malformed { name, source })
}

/// The datagram that carries `message` alone: its kind byte, then its bytes (RFC 9221 frames it).
pub fn to_datagram<M: FrameMessage>(message: &M) -> Bytes {
    let mut datagram = Vec::with_capacity(1 + message.encoded_len());
    datagram.push(M::KIND);
    datagram.extend_from_slice(&message.encode_to_vec());
    datagram.into()
}

/// The message that a datagram carries.
///
/// # Errors
/// When it carries another message, or bytes that are none, or nothing.
pub fn from_datagram<M: FrameMessage>(mut datagram: Bytes) -> Result<M, MessageError> {
    let kind = datagram.split_to(datagram.len().min(1));
    from_frame(kind.first().copied().unwrap_or_default(), datagram)
}

fn name_of<M: FrameMessage>() -> &'static str {
    KINDS
        .iter()
        .find(|(kind, _)| *kind == M::KIND)
        .map_or("unknown", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_kind_is_used_twice() {
        let kinds: BTreeSet<u8> = KINDS.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds.len(), KINDS.len());
    }

    #[test]
    fn a_message_survives_its_frame_and_no_other_fits() {
        let heartbeat = v1::Heartbeat {
            epoch: 7,
            tick: 9,
            sent_boottime_ns: 11,
        };
        let (kind, body) = to_frame(&heartbeat);
        assert_eq!(
            from_frame::<v1::Heartbeat>(kind, body.clone()),
            Ok(heartbeat)
        );
        assert_eq!(
            from_frame::<v1::Hello>(kind, body),
            Err(MessageError::Unexpected {
                expected: "Hello",
                got: 4
            })
        );
        assert!(matches!(
            from_frame::<v1::Heartbeat>(kind, Bytes::from_static(&[0xff])),
            Err(MessageError::Malformed {
                name: "Heartbeat",
                ..
            })
        ));
    }

    #[test]
    fn a_message_survives_its_datagram_and_one_that_is_empty_is_none() {
        let heartbeat = v1::Heartbeat {
            epoch: 7,
            tick: 9,
            sent_boottime_ns: 11,
        };
        let datagram = to_datagram(&heartbeat);
        // Frozen: it crosses versions.
        assert_eq!(&datagram[..], [4, 8, 7, 16, 9, 24, 11]);
        assert_eq!(from_datagram(datagram.clone()), Ok(heartbeat));
        let expected = "HeartbeatAck";
        let other = from_datagram::<v1::HeartbeatAck>(datagram.clone());
        assert_eq!(other, Err(MessageError::Unexpected { expected, got: 4 }));
        let empty = from_datagram::<v1::HeartbeatAck>(Bytes::new());
        assert_eq!(empty, Err(MessageError::Unexpected { expected, got: 0 }));
        from_datagram::<v1::Heartbeat>(datagram.slice(..2)).expect_err("cut short");
    }
}
