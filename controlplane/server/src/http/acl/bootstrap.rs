//! `/v1/acl/bootstrap`: the first management token.

use controlplane_state::{AclToken, AclTokenKind, Command, Refusal};
use protocol_api::acl::{Bootstrap, BootstrapRequest};
use protocol_model::{SecretText, UnixNanos};
use uuid::Uuid;

use super::token_view::shown;
use super::written::{apply, is_uuid, removed_meanwhile};
use crate::gateway;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};
use crate::keyring::seal_first_token;

/// The file below the data directory that allows another bootstrap: it names the index that the
/// refusal told.
const RESET_FILE: &str = "acl-bootstrap-reset";

pub(super) const ROUTES: Routes = routes![Bootstrap => bootstrap];

/// The secret that is asked for, as it is, or a new one.
fn secret(request: BootstrapRequest) -> Result<SecretText, HttpError> {
    let BootstrapRequest { bootstrap_secret } = request;
    if bootstrap_secret.is_empty() {
        return Ok(SecretText::new(Uuid::new_v4().to_string()));
    }
    if !is_uuid(bootstrap_secret.reveal()) {
        return Err(HttpError::bad_request("invalid acl token"));
    }
    Ok(bootstrap_secret)
}

async fn bootstrap(ask: &Ask) -> Answered {
    let request: BootstrapRequest = ask.json_or_default()?;
    let secret = secret(request)?;
    let reset_index = reset_index(ask).await;
    // Anybody may ask this: what would be refused is not worth a log entry.
    let done_at = ask.consistent().await?.acl_bootstrap_index();
    if done_at != 0 && done_at != reset_index {
        let refusal = Refusal::AclBootstrapped {
            reset_index: done_at,
        };
        return Err(refusal.into());
    }
    let accessor_id = Uuid::new_v4().to_string();
    let sealed = seal_first_token(&ask.api.keyring, &accessor_id, secret.reveal()).await;
    let token = AclToken {
        accessor_id: accessor_id.clone(),
        secret_hash: gateway::digest(secret.reveal().as_bytes()),
        name: "Bootstrap Token".to_owned(),
        kind: AclTokenKind::Management,
        sealed,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let command = Command::AclBootstrap { token, reset_index };
    let applied = apply(ask, command).await?;
    let token = applied.snapshot.acl_token(&accessor_id);
    let token = token.ok_or_else(|| removed_meanwhile("token"))?;
    ask.answer(&shown(&applied.snapshot, token, secret), applied.index)
}

/// The index in the file that allows another bootstrap; 0 without the file.
async fn reset_index(ask: &Ask) -> u64 {
    let path = ask.api.config.data_dir.join(RESET_FILE);
    let text = tokio::fs::read_to_string(&path).await.unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
