//! One-time tokens: exchanged once for the access token that they stand for.

use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use crate::record::Digest;

/// The most one-time tokens that a cluster keeps.
pub const ONE_TIME_TOKENS_MAX: usize = 10_000;
/// How long a one-time token can be exchanged.
pub const ONE_TIME_TOKEN_TTL: Duration = Duration::from_secs(600);

/// A one-time token. An access token has at most one: the next one replaces it, as in Nomad.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OneTimeToken {
    /// SHA-256 of its secret.
    pub digest: Digest,
    /// The access token that it stands for.
    pub accessor_id: String,
    /// The time from which it is refused.
    pub expires: UnixNanos,
    /// The log index of its creation.
    pub create_index: u64,
}

impl OneTimeToken {
    /// Whether it is expired at `now`.
    pub fn is_expired(&self, now: UnixNanos) -> bool {
        self.expires <= now
    }
}
