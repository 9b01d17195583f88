//! A login between its two halves: sealed, it travels as `state` through the browser.
//!
//! The bytes are JSON with a version; a test freezes them. A server of the next release must
//! complete a login that one of this release began.

use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How long a user may take at the provider.
pub const PENDING_LOGIN_TTL: Duration = Duration::from_secs(5 * 60);
/// The version of the bytes.
const VERSION: u8 = 1;
/// The longest opened state, in bytes: a method's name, a redirect of 2 KiB, fixed parts.
const BYTES_MAX: usize = 8 * 1024;

/// A login that was begun.
#[derive(Clone, PartialEq, Eq)]
pub struct PendingLogin {
    /// The name of the auth method.
    pub method: String,
    /// The method's modify index: a method that changed since completes no login.
    pub modify_index: u64,
    /// The address that the user was sent back to.
    pub redirect_uri: String,
    /// SHA-256 of the client's nonce.
    pub nonce_digest: [u8; 32],
    /// The verifier of PKCE; `None` where the method has it off.
    pub verifier: Option<String>,
    /// When the login can no longer be completed.
    pub expires: UnixNanos,
}

/// Shows no verifier.
impl std::fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingLogin")
            .field("method", &self.method)
            .field("modify_index", &self.modify_index)
            .field("redirect_uri", &self.redirect_uri)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// Why a state completes no login.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PendingError {
    /// It is not one of this release.
    #[error("the state is not one that these servers made")]
    Malformed,
    /// It is for another method.
    #[error("the state is for another auth method")]
    Method,
    /// The method changed in between.
    #[error("the auth method was changed since the login began: begin again")]
    Changed,
    /// It is for another redirect.
    #[error("the state is for another redirect URI")]
    Redirect,
    /// It is for another client.
    #[error("the state is for another client nonce")]
    Nonce,
    /// It is too old.
    #[error("the login took longer than 5 minutes: begin again")]
    Expired,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    v: u8,
    method: String,
    index: u64,
    redirect: String,
    nonce: Vec<u8>,
    verifier: Option<String>,
    expires: i64,
}

/// The digest of a client's nonce, as [`PendingLogin`] keeps it.
pub fn nonce_digest(nonce: &str) -> [u8; 32] {
    Sha256::digest(nonce.as_bytes()).into()
}

impl PendingLogin {
    /// The bytes that are sealed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self {
            method,
            modify_index,
            redirect_uri,
            nonce_digest,
            verifier,
            expires,
        } = self.clone();
        let bytes = Bytes {
            v: VERSION,
            method,
            index: modify_index,
            redirect: redirect_uri,
            nonce: nonce_digest.to_vec(),
            verifier,
            expires: expires.0,
        };
        // Texts and numbers: nothing in it can fail.
        serde_json::to_vec(&bytes).unwrap_or_default()
    }

    /// Reads opened bytes.
    ///
    /// # Errors
    /// [`PendingError::Malformed`] where they are none of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PendingError> {
        if bytes.len() > BYTES_MAX {
            return Err(PendingError::Malformed);
        }
        let read: Bytes = serde_json::from_slice(bytes).map_err(|_| PendingError::Malformed)?;
        let nonce_digest = read.nonce.try_into().map_err(|_| PendingError::Malformed)?;
        if read.v != VERSION {
            return Err(PendingError::Malformed);
        }
        Ok(Self {
            method: read.method,
            modify_index: read.index,
            redirect_uri: read.redirect,
            nonce_digest,
            verifier: read.verifier,
            expires: UnixNanos(read.expires),
        })
    }

    /// Whether this login is the one that a client completes.
    ///
    /// # Errors
    /// Where method, redirect or nonce differ, or the time is over.
    pub fn check(
        &self,
        method: (&str, u64),
        redirect_uri: &str,
        client_nonce: &str,
        now: UnixNanos,
    ) -> Result<(), PendingError> {
        let (name, modify_index) = method;
        if self.method != name {
            return Err(PendingError::Method);
        }
        if self.redirect_uri != redirect_uri {
            return Err(PendingError::Redirect);
        }
        if self.nonce_digest != nonce_digest(client_nonce) {
            return Err(PendingError::Nonce);
        }
        if self.expires <= now {
            return Err(PendingError::Expired);
        }
        if self.modify_index != modify_index {
            return Err(PendingError::Changed);
        }
        Ok(())
    }
}
