//! `/v1/acl`: the first management token, and whose token this is.

use std::time::Duration;

use controlplane_state::{AclToken, AclTokenKind, Command, Refusal};
use protocol_api::acl::{Bootstrap, BootstrapRequest, OwnToken, Token};
use protocol_model::{SecretText, UnixNanos};
use uuid::Uuid;

use crate::gateway;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

/// The file below the data directory that allows another bootstrap: it names the index that the
/// refusal told.
const RESET_FILE: &str = "acl-bootstrap-reset";

/// The token in the shape of the API. The secret is known only to its holder: the state keeps its
/// digest.
fn shown(token: &AclToken, secret_id: SecretText) -> Token {
    let AclToken {
        accessor_id,
        secret_hash: _,
        sealed: _,
        name,
        kind,
        policies: _,
        roles: _,
        global,
        expiration: _,
        ttl: _,
        create_time,
        create_index,
        modify_index,
    } = token.clone();
    Token {
        accessor_id,
        secret_id,
        name,
        kind: kind.as_str().to_owned(),
        policies: Vec::new(),
        roles: Vec::new(),
        global,
        hash: String::new(),
        create_time,
        expiration_time: None,
        expiration_ttl: Duration::ZERO,
        create_index,
        modify_index,
    }
}

pub(super) const ROUTES: Routes = routes![Bootstrap => bootstrap, OwnToken => own];

/// The secret that is asked for, as it is, or a new one.
fn secret(request: BootstrapRequest) -> Result<SecretText, HttpError> {
    let BootstrapRequest { bootstrap_secret } = request;
    if bootstrap_secret.is_empty() {
        return Ok(SecretText::new(Uuid::new_v4().to_string()));
    }
    // The only form that clients send: the parser takes three shorter and longer ones, too.
    let text = bootstrap_secret.reveal();
    let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    if !hyphenated || Uuid::try_parse(text).is_err() {
        return Err(HttpError::bad_request("invalid acl token"));
    }
    Ok(bootstrap_secret)
}

async fn bootstrap(ask: &Ask) -> Answered {
    let request: BootstrapRequest = ask.json_or_default()?;
    let secret = secret(request)?;
    let token = AclToken {
        accessor_id: Uuid::new_v4().to_string(),
        secret_hash: gateway::digest(secret.reveal().as_bytes()),
        name: "Bootstrap Token".to_owned(),
        kind: AclTokenKind::Management,
        sealed: None,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let accessor_id = token.accessor_id.clone();
    let reset_index = reset_index(ask).await;
    // Anybody may ask this: what would be refused is not worth a log entry.
    let done_at = ask.consistent().await?.acl_bootstrap_index();
    if done_at != 0 && done_at != reset_index {
        let refusal = Refusal::AclBootstrapped {
            reset_index: done_at,
        };
        return Err(refusal.into());
    }
    let changed = ask
        .change(Command::AclBootstrap { token, reset_index })
        .await?;
    // It is on a majority; wait until it is here too, so that the secret works at once.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    let snapshot = ask.api.cluster.at_least(changed.index, deadline).await?;
    let token = snapshot
        .acl_token(&accessor_id)
        .ok_or_else(|| HttpError::internal("the token was made and is gone already"))?;
    ask.answer(&shown(token, secret), changed.index)
}

/// What the operator wrote to allow another bootstrap; 0 where nothing was written.
async fn reset_index(ask: &Ask) -> u64 {
    let path = ask.api.config.data_dir.join(RESET_FILE);
    let text = tokio::fs::read_to_string(&path).await.unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

async fn own(ask: &Ask) -> Answered {
    let accessor_id = ask.accessor_id();
    ask.read(&[controlplane_state::Table::AclTokens], |snapshot| {
        let token = snapshot.acl_token(&accessor_id);
        let token = token.ok_or_else(|| HttpError::not_found("ACL token not found"))?;
        Ok(shown(token, SecretText::default()))
    })
    .await
}
