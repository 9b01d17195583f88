//! Between messages and domain types. What comes from a peer is checked here: a wrong length or an
//! unknown enum value is an error that names the field, never a default.
//!
//! Here: fields of fixed length. `report`: what nodes report of allocations.

mod report;

pub use report::{REPORT_TASKS_MAX, alloc_report_messages, alloc_reports, without_events};

use bytes::Bytes;
use protocol_model::{AllocId, Incarnation, NodeId, SpecHash};

/// A message that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// A field of fixed length has another.
    #[error("{field}: {found} bytes instead of {wanted}")]
    Length {
        /// The field.
        field: &'static str,
        /// Its length.
        wanted: usize,
        /// What came.
        found: usize,
    },
    /// A number that stands for nothing.
    #[error("{field}: unknown value {value}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// What came.
        value: i32,
    },
    /// A list that is longer than it may be.
    #[error("{field}: {found} items, at most {max} are allowed")]
    TooMany {
        /// The field.
        field: &'static str,
        /// The limit.
        max: usize,
        /// What came.
        found: usize,
    },
}

/// The 16 bytes of a field.
pub fn bytes16(field: &'static str, bytes: &[u8]) -> Result<[u8; 16], ConvertError> {
    bytes.try_into().map_err(|_| ConvertError::Length {
        field,
        wanted: 16,
        found: bytes.len(),
    })
}

/// The 32 bytes of a field.
pub fn bytes32(field: &'static str, bytes: &[u8]) -> Result<[u8; 32], ConvertError> {
    bytes.try_into().map_err(|_| ConvertError::Length {
        field,
        wanted: 32,
        found: bytes.len(),
    })
}

/// A node's id in 16 wire bytes.
pub fn node_id(field: &'static str, bytes: &[u8]) -> Result<NodeId, ConvertError> {
    Ok(NodeId::from_u128(u128::from_be_bytes(bytes16(
        field, bytes,
    )?)))
}

/// An allocation's id in 16 wire bytes.
pub fn alloc_id(field: &'static str, bytes: &[u8]) -> Result<AllocId, ConvertError> {
    Ok(AllocId::from_u128(u128::from_be_bytes(bytes16(
        field, bytes,
    )?)))
}

/// An incarnation in 16 wire bytes; empty = never heard of any.
pub fn incarnation(field: &'static str, bytes: &[u8]) -> Result<Option<Incarnation>, ConvertError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Incarnation::from_u128(u128::from_be_bytes(bytes16(
        field, bytes,
    )?))))
}

/// A specification's hash in 32 wire bytes.
pub fn spec_hash(field: &'static str, bytes: &[u8]) -> Result<SpecHash, ConvertError> {
    Ok(SpecHash(bytes32(field, bytes)?))
}

/// The wire bytes of an id.
pub fn id_bytes(bytes: &[u8; 16]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
