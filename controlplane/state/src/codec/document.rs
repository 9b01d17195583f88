//! JSON within a message, compressed where that makes it smaller.

use bytes::Bytes;
use protocol_wire::compression::{compress, decompress};
use protocol_wire::log;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{DOCUMENT_BYTES_MAX, DecodeError, EncodeError};

/// Below this, compressing costs more than it saves: a sync writes whole blocks, and most entries
/// of a calm cluster have theirs to themselves.
const COMPRESS_BYTES_MIN: usize = 4096;

pub(super) fn to_document<T: Serialize>(value: &T) -> Result<log::Document, EncodeError> {
    let json = serde_json::to_vec(value).map_err(EncodeError::Json)?;
    let length = u32::try_from(json.len())
        .ok()
        .filter(|length| *length <= DOCUMENT_BYTES_MAX)
        .ok_or(EncodeError::DocumentTooLong { length: json.len() })?;
    if json.len() >= COMPRESS_BYTES_MIN {
        let compressed = compress(&json).map_err(EncodeError::Compress)?;
        if compressed.len() < json.len() {
            let form = Some(log::document::Form::JsonZstd(Bytes::from(compressed)));
            return Ok(log::Document { form, length });
        }
    }
    Ok(log::Document {
        form: Some(log::document::Form::Json(Bytes::from(json))),
        length,
    })
}

pub(super) fn from_document<T: DeserializeOwned>(
    document: log::Document,
) -> Result<T, DecodeError> {
    let log::Document { form, length } = document;
    if length > DOCUMENT_BYTES_MAX {
        return Err(DecodeError::DocumentTooLong { length });
    }
    let json = match form.ok_or(DecodeError::Missing("a document's form"))? {
        log::document::Form::Json(json) => json,
        log::document::Form::JsonZstd(compressed) => {
            let json = decompress(&compressed, length as usize).map_err(DecodeError::Decompress)?;
            Bytes::from(json)
        }
    };
    if json.len() != length as usize {
        return Err(DecodeError::DocumentLength {
            said: length,
            found: json.len(),
        });
    }
    serde_json::from_slice(&json).map_err(DecodeError::Json)
}
