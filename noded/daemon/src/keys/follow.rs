//! Follows the cluster's keys: one question that waits for a change, in every session.

use std::sync::Arc;
use std::time::Duration;

use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;

use super::{KeyStore, PublicKeys};
use crate::queries::{AskError, LiveSession, Queries};

/// How long one question waits for a change before it is asked again: a server that lost it is
/// noticed then.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Between two questions that failed, doubled up to the second.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Keeps `store` as new as the cluster's keys are. Ends never.
pub async fn follow(queries: Arc<Queries>, store: Arc<KeyStore>) {
    let mut sessions = queries.sessions();
    loop {
        let session = sessions.borrow_and_update().clone();
        let following = async {
            match session {
                Some(session) if session.serves_queries() => {
                    follow_in(&queries, &session, &store).await;
                }
                Some(_) | None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = following => {}
            changed = sessions.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// The first question waits for nothing: the indexes of a restored cluster may be lower.
async fn follow_in(queries: &Queries, session: &LiveSession, store: &Arc<KeyStore>) {
    let (mut known, mut pause) = (0, RETRY_MIN);
    loop {
        let query = Query::Keys(v1::KeysQuery { known_index: known });
        match queries.ask_in(session, query, WAIT_MAX).await {
            Ok(Reply::Keys(keys)) => match read(keys) {
                Ok(keys) if keys.index > known => {
                    (known, pause) = (keys.index, RETRY_MIN);
                    let store = Arc::clone(store);
                    // It fails only where the runtime ends.
                    let _ = tokio::task::spawn_blocking(move || store.take(keys)).await;
                    continue;
                }
                Ok(_) => tracing::debug!(known, "the server sent no newer public keys"),
                Err(problem) => tracing::warn!(%problem, "public keys of the server are not used"),
            },
            Err(AskError::Silent { .. }) => continue,
            Ok(_) => tracing::warn!("the server's answer has no public keys"),
            Err(error) => tracing::debug!(%error, "no public keys"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

fn read(keys: v1::PublicKeys) -> Result<PublicKeys, String> {
    let v1::PublicKeys {
        index,
        jwks,
        issuer,
    } = keys;
    let jwks = serde_json::from_slice(&jwks).map_err(|error| error.to_string())?;
    PublicKeys::new(index, issuer, jwks)
}
