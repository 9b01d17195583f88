//! Large hot commands, compressed. Reports are alike, and so are placements: a report of a start is
//! 26 bytes in a storm of them instead of 60, and the complete report of tens of thousands of
//! allocations fits into one entry.

use bytes::Bytes;
use prost::Message as _;
use protocol_wire::compression::{compress, decompress};
use protocol_wire::log;
use protocol_wire::log::envelope::Command as Message;

use super::{DOCUMENT_BYTES_MAX, DecodeError, EncodeError};

/// Below this, a command is written as it is: what a calm cluster writes is seldom larger, and its
/// time is the disk's.
const PACK_BYTES_MIN: usize = 1024;

/// The message as it is written: packed where that makes it smaller.
///
/// # Errors
/// When it is longer than would be read, or cannot be compressed.
pub(super) fn pack(message: Message) -> Result<Message, EncodeError> {
    if !matches!(
        message,
        Message::AllocUpdates(_) | Message::NodeSynced(_) | Message::Plan(_)
    ) {
        return Ok(message);
    }
    let envelope = log::Envelope {
        command: Some(message),
        ..log::Envelope::default()
    };
    let bytes = envelope.encoded_len();
    if bytes >= PACK_BYTES_MIN {
        let length = u32::try_from(bytes)
            .ok()
            .filter(|length| *length <= DOCUMENT_BYTES_MAX)
            .ok_or(EncodeError::DocumentTooLong { length: bytes })?;
        let packed = compress(&envelope.encode_to_vec()).map_err(EncodeError::Compress)?;
        if packed.len() < bytes {
            return Ok(Message::Packed(log::Packed {
                envelope_zstd: Bytes::from(packed),
                length,
            }));
        }
    }
    match envelope.command {
        Some(message) => Ok(message),
        None => unreachable!("it was put there above"),
    }
}

/// The message that was written.
///
/// # Errors
/// When a packed one makes no sense, or holds another packed one.
pub(super) fn unpack(message: Message) -> Result<Message, DecodeError> {
    let Message::Packed(packed) = message else {
        return Ok(message);
    };
    let log::Packed {
        envelope_zstd,
        length,
    } = packed;
    if length > DOCUMENT_BYTES_MAX {
        return Err(DecodeError::DocumentTooLong { length });
    }
    let bytes = decompress(&envelope_zstd, length as usize).map_err(DecodeError::Decompress)?;
    if bytes.len() != length as usize {
        return Err(DecodeError::DocumentLength {
            said: length,
            found: bytes.len(),
        });
    }
    let envelope = log::Envelope::decode(Bytes::from(bytes)).map_err(DecodeError::Message)?;
    match envelope.command {
        None | Some(Message::Packed(_)) => Err(DecodeError::NoCommand),
        Some(message) => Ok(message),
    }
}
