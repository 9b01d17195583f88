//! One message, one packet: a version byte and a postcard body. The socket keeps packet borders, so
//! there is no length field.

use super::{CallId, Message, PROTOCOL_VERSION, Request};
use serde::{Serialize, de::DeserializeOwned};

/// Larger packets are neither sent nor read. Plans, which may be larger, travel in a memfd.
pub const PACKET_BYTES_MAX: usize = 64 * 1024;

/// Descriptors in one packet: the plan and its slots. The kernel's own limit is 253 (unix(7)).
pub const DESCRIPTORS_MAX: usize = 64;

/// Why a packet could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    #[error("the packet is empty")]
    Empty,
    #[error("the packet has version {version}, only 1 to {PROTOCOL_VERSION} are spoken")]
    Version { version: u8 },
    #[error("the message is of version {since}, but its packet says {version}")]
    Misnamed { version: u8, since: u8 },
    #[error("the packet has {bytes} bytes, at most {PACKET_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("{bytes} bytes follow the message")]
    TrailingBytes { bytes: usize },
    #[error("the message could not be encoded")]
    Encode(#[source] postcard::Error),
    #[error("the message could not be decoded")]
    Decode(#[source] postcard::Error),
}

/// # Errors
/// Where the message would not fit a packet.
pub fn encode_for_keeper(call: CallId, request: &Request) -> Result<Vec<u8>, PacketError> {
    encode(request.since(), &(call, request))
}

/// # Errors
/// Where the message would not fit a packet.
pub fn encode_for_client(message: &Message) -> Result<Vec<u8>, PacketError> {
    encode(message.since(), message)
}

/// # Errors
/// Where the bytes are not exactly one request in a known version.
pub fn decode_from_client(packet: &[u8]) -> Result<(CallId, Request), PacketError> {
    decode(packet, |(_, request): &(CallId, Request)| request.since())
}

/// # Errors
/// Where the bytes are not exactly one message in a known version.
pub fn decode_from_keeper(packet: &[u8]) -> Result<Message, PacketError> {
    decode(packet, Message::since)
}

fn encode<T: Serialize>(version: u8, message: &T) -> Result<Vec<u8>, PacketError> {
    let packet = postcard::to_extend(message, vec![version]).map_err(PacketError::Encode)?;
    if packet.len() > PACKET_BYTES_MAX {
        return Err(PacketError::TooLarge {
            bytes: packet.len(),
        });
    }
    Ok(packet)
}

fn decode<T: DeserializeOwned>(
    packet: &[u8],
    since: impl FnOnce(&T) -> u8,
) -> Result<T, PacketError> {
    if packet.len() > PACKET_BYTES_MAX {
        return Err(PacketError::TooLarge {
            bytes: packet.len(),
        });
    }
    let (&version, body) = packet.split_first().ok_or(PacketError::Empty)?;
    if !(1..=PROTOCOL_VERSION).contains(&version) {
        return Err(PacketError::Version { version });
    }
    let (message, rest) = postcard::take_from_bytes(body).map_err(PacketError::Decode)?;
    if !rest.is_empty() {
        return Err(PacketError::TrailingBytes { bytes: rest.len() });
    }
    // One spelling for one message, as the sender's own check of what may be sent relies on it.
    match since(&message) {
        since if since == version => Ok(message),
        since => Err(PacketError::Misnamed { version, since }),
    }
}
