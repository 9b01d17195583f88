//! `/v1/operator/snapshot`: the whole state as a file, verified before its first byte is sent.

use std::io::Read;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controlplane_keyring::KekId;
use controlplane_raft::Checkpoint;
use controlplane_state::checkpoint;
use protocol_access::budget::Place;
use protocol_error_chain::chain;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::Api;
use super::ask::Ask;
use super::error::{Answered, HttpError};

/// Bytes of one part of the answer.
const PART_BYTES: usize = 256 * 1024;
/// Parts between the disk and a slow client.
const PARTS_MAX: usize = 4;

/// Everything that was acknowledged before the request, unless `?stale`.
pub(super) async fn save(ask: &Ask) -> Answered {
    let place = ask.gate.enter(&ask.api, Place::Stream)?;
    if !ask.query.switch("stale") {
        ask.consistent().await?;
    }
    let checkpoint = ask
        .api
        .cluster
        .raft()
        .checkpoint()
        .await
        .map_err(|error| HttpError::internal(chain(&error)))?;
    log_kek(&ask.api);
    let bytes = checkpoint.bytes();
    let verified = tokio::task::spawn_blocking(move || verified(checkpoint));
    let (checkpoint, digest, index) = verified
        .await
        .map_err(|error| HttpError::internal(error.to_string()))?
        .map_err(HttpError::internal)?;
    let (sender, receiver) = mpsc::channel(PARTS_MAX);
    tokio::task::spawn_blocking(move || {
        send(checkpoint, &sender);
        drop(place);
    });
    let parts = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|part| (part, receiver))
    });
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    let mut response: Response = (kind, Body::from_stream(parts)).into_response();
    let digest = format!("sha-256={}", STANDARD.encode(digest));
    if let Ok(value) = HeaderValue::from_str(&digest) {
        response.headers_mut().insert("digest", value);
    }
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    ask.put_headers(response.headers_mut(), index);
    Ok(response)
}

/// The snapshot's secrets open with this KEK alone, which is not in it.
fn log_kek(api: &Api) {
    let snapshot = api.cluster.snapshot();
    for key in snapshot.root_keys() {
        let kek = KekId::from(key.kek_id);
        tracing::info!(
            root_key = %key.id,
            %kek,
            "a snapshot is saved: keep a copy of its KEK file, apart from it"
        );
    }
}

/// The checkpoint, read once to its end: what a backup is worth is found out now, not when it is
/// needed.
/// Answers the state's index too.
fn verified(mut checkpoint: Checkpoint) -> Result<(Checkpoint, [u8; 32], u64), String> {
    let mut digest = Sha256::new();
    let summary = {
        let reader = checkpoint.reader().map_err(|error| error.to_string())?;
        let mut hashed = Hashed {
            inner: reader,
            digest: &mut digest,
        };
        checkpoint::inspect(&mut hashed).map_err(|error| chain(&error))?
    };
    Ok((checkpoint, digest.finalize().into(), summary.index))
}

struct Hashed<'a, R> {
    inner: R,
    digest: &'a mut Sha256,
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.digest.update(&buffer[..count]);
        Ok(count)
    }
}

fn send(mut checkpoint: Checkpoint, sender: &mpsc::Sender<std::io::Result<Bytes>>) {
    let mut reader = match checkpoint.reader() {
        Ok(reader) => reader,
        Err(error) => {
            let _ = sender.blocking_send(Err(error));
            return;
        }
    };
    loop {
        let mut part = Vec::with_capacity(PART_BYTES);
        let limit = u64::try_from(PART_BYTES).unwrap_or(u64::MAX);
        let read = reader.by_ref().take(limit).read_to_end(&mut part);
        let part = match read {
            Ok(0) => return,
            Ok(_) => Ok(Bytes::from(part)),
            Err(error) => Err(error),
        };
        let broken = part.is_err();
        // A client that went away needs no more.
        if sender.blocking_send(part).is_err() || broken {
            return;
        }
    }
}
