//! A verified snapshot's way through the log: announced, sent piece by piece, committed.
//!
//! Every step may be said twice without harm, so an answer that was lost with a leader is asked for
//! again, and any server can do this for the leader.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::{
    ClientTokens, Command, Digest, RESTORE_CHUNK_BYTES_MAX, RESTORE_SILENCE, Refusal,
};
use protocol_model::Incarnation;
use tokio::time::{Instant, sleep};

use crate::cluster::{ChangeError, Changed, Cluster};

/// The pause before a step is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How long the last step may take: every server reads a whole state then.
const COMMIT_MAX: Duration = Duration::from_secs(600);
/// A line in the log for so many pieces.
const PIECES_PER_LINE: u64 = 32;

/// A snapshot on this server's disk, from its beginning.
#[derive(Debug)]
pub(crate) struct Upload {
    /// The file.
    pub(crate) file: File,
    /// Its length.
    pub(crate) bytes: u64,
    /// SHA-256 of it.
    pub(crate) sha256: Digest,
}

/// Replaces the cluster's state by the upload's, and answers the index from which on it is so; this
/// server has applied it then.
///
/// # Errors
/// When the state refuses it, or there is no leader for too long. After [`ChangeError::Refused`]
/// and [`ChangeError::NoLeader`] nothing has changed.
pub(crate) async fn restore(
    cluster: &Cluster,
    upload: Upload,
    client_tokens: ClientTokens,
) -> Result<u64, ChangeError> {
    let incarnation = Incarnation(uuid::Uuid::new_v4());
    let Upload {
        file,
        bytes,
        sha256,
    } = upload;
    tracing::warn!(%incarnation, bytes, "restoring the state from a snapshot");
    let begin = Command::RestoreBegin {
        incarnation,
        bytes,
        sha256,
        client_tokens,
    };
    insist(cluster, begin, RESTORE_SILENCE).await?;
    let done = match send(cluster, incarnation, file, bytes).await {
        Ok(()) => insist(cluster, Command::RestoreCommit { incarnation }, COMMIT_MAX).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(changed) => {
            let deadline = Instant::now() + COMMIT_MAX;
            cluster.at_least(changed.index, deadline).await?;
            tracing::warn!(%incarnation, index = changed.index, "the state was restored");
            Ok(changed.index)
        }
        Err(error) => {
            tracing::warn!(%incarnation, %error, "the state was not restored");
            // Without this, another restore would have to wait until this one counts as given up.
            let _ = cluster.change(Command::RestoreDrop { incarnation }).await;
            Err(error)
        }
    }
}

async fn send(
    cluster: &Cluster,
    incarnation: Incarnation,
    mut file: File,
    bytes: u64,
) -> Result<(), ChangeError> {
    let (mut offset, mut pieces) = (0, 0);
    loop {
        let read = tokio::task::spawn_blocking(move || piece(&mut file).map(|read| (file, read)));
        let read = read.await.map_err(|error| error.to_string());
        let read = read.and_then(|read| read.map_err(|error| error.to_string()));
        let piece;
        (file, piece) = read.map_err(|error| {
            ChangeError::Stopped(format!("the snapshot cannot be read back: {error}"))
        })?;
        if piece.is_empty() {
            return Ok(());
        }
        let length = piece.len() as u64;
        let chunk = Command::RestoreChunk {
            incarnation,
            offset,
            bytes: piece,
        };
        insist(cluster, chunk, RESTORE_SILENCE).await?;
        offset += length;
        pieces += 1;
        if pieces % PIECES_PER_LINE == 0 {
            tracing::info!(%incarnation, sent = offset, bytes, "restoring");
        }
    }
}

fn piece(file: &mut File) -> std::io::Result<Bytes> {
    let mut piece = Vec::new();
    let limit = RESTORE_CHUNK_BYTES_MAX as u64;
    file.take(limit).read_to_end(&mut piece)?;
    Ok(piece.into())
}

/// Proposes until the state has answered.
async fn insist(
    cluster: &Cluster,
    command: Command,
    patience: Duration,
) -> Result<Changed, ChangeError> {
    let deadline = Instant::now() + patience;
    loop {
        match cluster.change(command.clone()).await {
            Err(
                ChangeError::OutcomeUnknown
                | ChangeError::NoLeader(_)
                // A leader that was replaced, with a state older than what it is asked about.
                | ChangeError::Refused(Refusal::NotInitialized),
            ) if Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
            done => return done,
        }
    }
}
