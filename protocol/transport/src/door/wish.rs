//! The purpose of a node's connection, how long the node has wanted it, and how long it waits for
//! an answer. It tells them with its first packet, before any cryptography.
//!
//! ```text
//!   destination connection id of the first packet (RFC 9000 section 7.2: unpredictable, 8 bytes
//!   or more; a server reads it before it decides anything)
//!
//!    0        8      12    13        15         17       20
//!    | random | tag  | kind | waited | patience | random |
//!                             units of 100 ms, big endian
//! ```
//!
//! Nothing is proved when this is read. A stranger who lies about its age is served
//! earlier than a node, once for each address that it can receive packets at; what it is served is
//! a handshake that fails.

use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator as _};
use quinn_proto::RandomConnectionIdGenerator;

/// A connection id that carries a wish; the last byte is the version of this layout.
const TAG: [u8; 4] = [0xd7, 0x05, 0x1e, 0x01];
const BYTES: usize = 20;
/// The unit of `waited` and `patience`.
const UNIT: Duration = Duration::from_millis(100);

/// The purpose of a connection. The kinds are served in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WishKind {
    /// A session: without one the node is silent.
    Session,
    /// Calls of operators, in a session that it has.
    Calls,
    /// To be able to move its session.
    Standby,
}

/// The wish of a node: what for, since when, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The purpose.
    pub kind: WishKind,
    /// How long it has wanted that: through all attempts that came to nothing.
    pub waited: Duration,
    /// How long it waits for the first answer to this attempt.
    pub patience: Duration,
}

impl Wish {
    /// A wish that arises now and waits for two seconds.
    pub const fn new(kind: WishKind) -> Self {
        Self {
            kind,
            waited: Duration::ZERO,
            patience: Duration::from_secs(2),
        }
    }

    /// A connection id that tells it, and that nobody can guess.
    pub(crate) fn connection_id(self) -> ConnectionId {
        let random = RandomConnectionIdGenerator::new(BYTES).generate_cid();
        let mut bytes = [0; BYTES];
        bytes[..random.len()].copy_from_slice(&random);
        ConnectionId::new(&self.encode(bytes))
    }

    /// The connection id that tells it. Both times are rounded down to [`UNIT`], and told as an
    /// hour and 49 minutes where they are longer.
    pub(crate) fn encode(self, random: [u8; BYTES]) -> [u8; BYTES] {
        let units = |span: Duration| {
            let units = span.as_millis() / UNIT.as_millis();
            u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes()
        };
        let mut bytes = random;
        bytes[8..12].copy_from_slice(&TAG);
        bytes[12] = match self.kind {
            WishKind::Session => 0,
            WishKind::Calls => 1,
            WishKind::Standby => 2,
        };
        bytes[13..15].copy_from_slice(&units(self.waited));
        bytes[15..17].copy_from_slice(&units(self.patience));
        bytes
    }

    /// The wish that a connection id tells; `None` = it tells none.
    pub(crate) fn decode(id: &[u8]) -> Option<Self> {
        let bytes: [u8; BYTES] = id.try_into().ok()?;
        if bytes[8..12] != TAG {
            return None;
        }
        let kind = match bytes[12] {
            0 => WishKind::Session,
            1 => WishKind::Calls,
            2 => WishKind::Standby,
            _ => return None,
        };
        let span = |at: usize| UNIT * u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        Some(Self {
            kind,
            waited: span(13),
            patience: span(15),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish {
        kind: WishKind::Standby,
        waited: Duration::from_millis(12_345),
        patience: Duration::from_millis(4_500),
    };

    #[test]
    fn the_bytes_of_a_wish_are_frozen() {
        let bytes = WISH.encode([0xaa; BYTES]);
        let frozen = [
            0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xd7, 0x05, 0x1e, 0x01, 2, 0, 123, 0,
            45, 0xaa, 0xaa, 0xaa,
        ];
        assert_eq!(bytes, frozen);
        let read = Wish::decode(&bytes).expect("a wish");
        assert_eq!(read.waited, Duration::from_millis(12_300));
        assert_eq!((read.kind, read.patience), (WISH.kind, WISH.patience));
    }

    #[test]
    fn a_time_longer_than_the_field_is_told_as_the_longest() {
        let wish = Wish {
            waited: Duration::from_secs(1_000_000),
            ..WISH
        };
        let read = Wish::decode(&wish.encode([0; BYTES])).expect("a wish");
        assert_eq!(read.waited, UNIT * u32::from(u16::MAX));
    }

    #[test]
    fn another_connection_id_tells_nothing() {
        let bytes = WISH.encode([7; BYTES]);
        let mut kind = bytes;
        kind[12] = 3;
        let mut version = bytes;
        version[11] = 2;
        for other in [&kind[..], &version, &bytes[..19], &[0; 8], &[]] {
            assert_eq!(Wish::decode(other), None);
        }
    }
}
