//! `PUT /v1/operator/snapshot`: a file takes the state's place.
//!
//! ```text
//!   body --> a file without a name, hashed --> read as a state (a bad one ends here: 400)
//!        --> restoring::restore, through the log, wherever the leader is --> 200, empty
//! ```
//!
//! Once the file is known to be good it goes on without its client: half a restore helps nobody.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use controlplane_keyring::{KekId, KeyringError, RootKeys};
use controlplane_state::checkpoint::{RESTORE_RECORDS_BYTES_MAX, Unpacked};
use controlplane_state::{ClientTokens, Digest, RESTORE_BYTES_MAX, Refusal, State};
use http_body_util::BodyExt;
use protocol_error_chain::chain;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use crate::restoring::{self, Upload};

/// How long a client may send nothing.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(60);

pub(super) async fn serve(ask: &Ask) -> Answered {
    let Ok(turn) = Arc::clone(&ask.api.restoring).try_lock_owned() else {
        let busy = "this server is restoring another snapshot";
        return Err(HttpError::new(StatusCode::CONFLICT, busy));
    };
    let force = ask.query.flag("force")?;
    let client_tokens = match ask.query.flag("without_tokens")? {
        true => ClientTokens::LeftOut,
        false => ClientTokens::Restored,
    };
    // Said before the whole file is sent; the log decides again.
    if let Some(pending) = ask.api.cluster.snapshot().pending_restore()
        && !pending.is_over(ask.now())
    {
        let (received, bytes) = (pending.received, pending.bytes);
        return Err(Refusal::RestoreInProgress { received, bytes }.into());
    }
    let body = ask.stream.lock().take();
    let body = body.ok_or_else(|| HttpError::bad_request("the request has no body"))?;
    let upload = receive(body, &ask.api.config.data_dir).await?;
    let verified = tokio::task::spawn_blocking(move || verified(upload)).await;
    let Verified {
        upload,
        keys,
        level,
    } = verified.map_err(|error| HttpError::internal(error.to_string()))??;
    // An older server would refuse the last entry, and go on with another state than the others.
    if let Some(old) = ask.api.cluster.known_too_old(level) {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(HttpError::new(status, old.to_string()));
    }
    if !force {
        opens(ask, &keys).await?;
    }
    let cluster = ask.api.cluster.clone();
    let restored = tokio::spawn(async move {
        let restored = restoring::restore(&cluster, upload, client_tokens).await;
        drop(turn);
        restored
    });
    let index = restored
        .await
        .map_err(|error| HttpError::internal(error.to_string()))??;
    let mut response = StatusCode::OK.into_response();
    ask.put_headers(response.headers_mut(), index);
    Ok(response)
}

/// Writes the body into a file that has no name any more: whatever ends this, nothing is left.
async fn receive(mut body: Body, directory: &Path) -> Result<Upload, HttpError> {
    let failed = |error: std::io::Error| {
        HttpError::internal(format!("the snapshot cannot be kept on disk: {error}"))
    };
    let mut file = nameless(directory)
        .map(tokio::fs::File::from_std)
        .map_err(failed)?;
    let (mut bytes, mut digest) = (0_u64, Sha256::new());
    loop {
        let frame = timeout(BODY_SILENCE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| {
            let text = format!("nothing of the snapshot came for {BODY_SILENCE_MAX:?}");
            HttpError::new(StatusCode::REQUEST_TIMEOUT, text)
        })?;
        let Some(frame) = frame else { break };
        let frame = frame
            .map_err(|error| HttpError::bad_request(format!("cannot read the body: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        bytes += data.len() as u64;
        if bytes > RESTORE_BYTES_MAX {
            let bytes_max = RESTORE_BYTES_MAX;
            return Err(Refusal::RestoreTooLarge { bytes, bytes_max }.into());
        }
        digest.update(&data);
        file.write_all(&data).await.map_err(failed)?;
    }
    if bytes == 0 {
        return Err(HttpError::bad_request("the request has no body"));
    }
    file.flush().await.map_err(failed)?;
    Ok(Upload {
        file: file.into_std().await,
        bytes,
        sha256: Digest(digest.finalize().into()),
    })
}

fn nameless(directory: &Path) -> std::io::Result<File> {
    let name = format!("restore-{}.partial", uuid::Uuid::new_v4());
    let path = directory.join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// A state whose secrets stay shut is restored only by force.
async fn opens(ask: &Ask, keys: &RootKeys) -> Result<(), HttpError> {
    let keyring = &ask.api.keyring;
    if keyring.opens(keys).is_ok() {
        return Ok(());
    }
    // The operator may have put the KEK there a moment ago.
    ask.api.keks.look_again().await;
    let Err(error) = keyring.opens(keys) else {
        return Ok(());
    };
    let own: Vec<String> = keyring.keks().iter().map(KekId::to_string).collect();
    let why = match error {
        KeyringError::Missing { kek } => format!(
            "its secrets open with KEK {kek}, which this server lacks (it has: {}); copy {kek}.kek \
             into the keyring directory of this server first, or use force, which leaves the \
             secrets shut",
            own.join(", ")
        ),
        other => format!("{other}; use force, which leaves its secrets shut"),
    };
    Err(Refusal::BadCheckpoint(why).into())
}

/// A file that is a state.
struct Verified {
    upload: Upload,
    keys: RootKeys,
    /// The lowest command level of the servers that read it.
    level: u32,
}

/// The file, if it is a state: found out here, before a byte of it is in the log.
fn verified(mut upload: Upload) -> Result<Verified, HttpError> {
    let bad = |why: String| HttpError::from(Refusal::BadCheckpoint(why));
    let rewound = |file: &mut File| file.seek(SeekFrom::Start(0)).map(drop);
    rewound(&mut upload.file).map_err(|error| HttpError::internal(error.to_string()))?;
    let limit = Unpacked::AtMost(RESTORE_RECORDS_BYTES_MAX);
    let state = State::restore_at_most(BufReader::new(&upload.file), limit)
        .map_err(|error| bad(chain(&error)))?;
    if state.tables().cluster().incarnation.is_none() {
        return Err(bad("it is of a cluster before its first entry".to_owned()));
    }
    rewound(&mut upload.file).map_err(|error| HttpError::internal(error.to_string()))?;
    Ok(Verified {
        upload,
        keys: RootKeys::of(&state.snapshot()),
        level: state.tables().checkpoint_level(),
    })
}
