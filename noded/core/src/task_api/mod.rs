//! The Task API's decisions: which bytes are a request, and which requests are let through.
//!
//! ```text
//!  connection --Guard::open--> bytes --head::check--> request --Guard::begin--> Verdict
//!     | 65th: closed             | bad: 400    ^                   | 401, 403, 429, Forward
//!                                              `-- Shown: a workload token by token::SignedToken
//! ```
//!
//! Each task's socket has a [`Guard`] of its own. A flood of one task takes neither the requests
//! of another one nor the credentials' look-ups of the servers.

mod bucket;
mod guard;
pub mod head;
pub mod peer;
mod token;

pub use guard::{Charge, Guard, Judged, Limit, Shown, SocketLimits, TokenDigest, Verdict};
pub use token::{
    ENDED_MAX, EndedAllocs, SIGNED_MAX, SignedToken, SignedTokens, Standing, TokenRefusal,
};

#[cfg(test)]
mod tests;
