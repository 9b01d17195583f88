//! The messages between nodes and servers, between servers, and in the replicated log.
//!
//! - [`v1`]: messages of the node session, the watch, the bulk connection and the cluster,
//!   generated from `proto/*.proto`. [`log`]: what is written into the replicated log.
//! - [`convert`]: between messages and the domain types of `protocol-model`; [`report`]: what a
//!   node says about an allocation, as a domain type.
//! - [`compression`]: of what is long in messages and in the log.
//! - [`kind`]: which message a frame carries.
//! - [`PROTOCOL_MIN`], [`PROTOCOL_MAX`]: the versions that this release speaks. A server and a node
//!   one release apart work together; `tests/golden/` freezes the bytes of every version.
//!
//! Framing on a stream is `protocol-transport`'s business. Everything here is a pure function of
//! bytes, so that it can be fuzzed.

pub mod compression;
pub mod convert;
pub mod kind;
pub mod report;
mod secrets;

/// The messages between nodes and servers and between servers.
#[allow(clippy::all, clippy::use_self, reason = "generated")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/drover.wire.v1.rs"));
}

/// What is written into the replicated log.
#[allow(clippy::all, clippy::use_self, reason = "generated")]
pub mod log {
    include!(concat!(env!("OUT_DIR"), "/drover.log.v1.rs"));
}

/// The oldest protocol version that this release speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// The newest protocol version that this release speaks.
pub const PROTOCOL_MAX: u32 = 3;
/// From this version on a node attaches its connection for calls when the server asks
/// (`CallsWanted`), and not before. Below it the node attaches as soon as its session is live.
pub const CALLS_ON_DEMAND_MIN: u32 = 2;
/// From this version on a server answers the questions of a node (`QueryRequest`) and the requests
/// of its tasks (`ApiRequest`).
pub const QUERIES_MIN: u32 = 3;
