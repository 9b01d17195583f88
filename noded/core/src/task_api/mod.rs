//! The Task API's decisions: which bytes are a request, and which requests are let through.
//!
//! ```text
//!  connection --Guard::open--> bytes --head::check--> request --Guard::begin--> Verdict
//!     | 65th: closed             | bad: 400                        | 401, 403, 429, Forward
//! ```
//!
//! Each task's socket has a [`Guard`] of its own. A flood of one task takes neither the requests
//! of another one nor the credentials' look-ups of the servers.

mod bucket;
mod guard;
pub mod head;
pub mod peer;

pub use guard::{Guard, Judged, Limit, Shown, SocketLimits, TokenDigest, Verdict};

#[cfg(test)]
mod tests;
