//! A checkpoint on its way into the state: an operator's file, sent through the log in pieces, so
//! that every server, and every later member, comes to the same state.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf, Bytes};
use imbl::Vector;
use protocol_model::{Incarnation, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::record::Digest;

/// The largest checkpoint that is restored, as a file. Every server holds it in memory until the
/// last piece has come, and every log keeps it until it is compacted; a larger one is refused.
pub const RESTORE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The largest piece: a log entry of moderate size, so that others' entries are not held up.
pub const RESTORE_CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// A restore of which nothing came for so long was given up by its sender: it is dropped, and
/// another one may begin.
pub const RESTORE_SILENCE: Duration = Duration::from_secs(60);

/// Whether a restore brings the client tokens of the checkpoint back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientTokens {
    /// With all tokens of the checkpoint.
    #[default]
    Restored,
    /// Without client tokens: an old checkpoint has some that were revoked since.
    LeftOut,
}

impl ClientTokens {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// As much of a checkpoint as has come. It is part of checkpoints itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PendingRestore {
    /// The incarnation that it will begin: the name of this restore.
    pub incarnation: Incarnation,
    /// How long the whole is.
    pub bytes: u64,
    /// SHA-256 of the whole.
    pub sha256: Digest,
    /// How much has come.
    pub received: u64,
    /// When the last piece came.
    pub touched: UnixNanos,
    /// Whether it brings client tokens back.
    #[serde(default, skip_serializing_if = "ClientTokens::is_default")]
    pub client_tokens: ClientTokens,
    #[serde(skip)]
    chunks: Vector<Bytes>,
}

impl PendingRestore {
    pub(crate) fn new(
        incarnation: Incarnation,
        bytes: u64,
        sha256: Digest,
        client_tokens: ClientTokens,
        now: UnixNanos,
    ) -> Self {
        Self {
            incarnation,
            bytes,
            sha256,
            received: 0,
            touched: now,
            client_tokens,
            chunks: Vector::new(),
        }
    }

    pub(crate) fn push(&mut self, chunk: Bytes, now: UnixNanos) {
        self.received += chunk.len() as u64;
        self.touched = now;
        self.chunks.push_back(chunk);
    }

    /// A piece that a checkpoint kept; [`Self::received`] counts it already.
    pub(crate) fn refill(&mut self, chunk: &[u8]) {
        self.chunks.push_back(Bytes::copy_from_slice(chunk));
    }

    /// Whether the pieces are as long as is said.
    pub(crate) fn adds_up(&self) -> bool {
        let found: u64 = self.chunks().map(|chunk| chunk.len() as u64).sum();
        found == self.received && self.received <= self.bytes
    }

    /// Whether its sender has been silent for too long at `now`.
    pub fn is_over(&self, now: UnixNanos) -> bool {
        now > self.touched.saturating_add(RESTORE_SILENCE)
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.chunks.iter()
    }

    /// What has come, from its beginning.
    pub(crate) fn reader(&self) -> impl Read {
        Pieces {
            rest: self.chunks.clone(),
        }
    }
}

struct Pieces {
    rest: Vector<Bytes>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut piece) = self.rest.pop_front() {
            if piece.is_empty() {
                continue;
            }
            let count = piece.len().min(buffer.len());
            piece.copy_to_slice(&mut buffer[..count]);
            if !piece.is_empty() {
                self.rest.push_front(piece);
            }
            return Ok(count);
        }
        Ok(0)
    }
}
