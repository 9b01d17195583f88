//! Calls between servers: one stream per call, so that a lost packet of one delays no other.
//!
//! ```text
//!   caller                          callee
//!   StreamKind::Raft, Call frame -->
//!   [chunk frames of a snapshot] -->
//!                               <-- Answer frame | Refusal frame
//! ```

pub(crate) mod addresses;
pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod reach;
pub(crate) mod server;

pub use server::ServeError;
