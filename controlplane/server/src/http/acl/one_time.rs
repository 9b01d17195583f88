//! `/v1/acl/token/onetime`: tokens that are exchanged once for the token that they stand for.

use controlplane_state::command::OneTimeTokens;
use controlplane_state::{Outcome, Snapshot};
use protocol_api::acl::{
    CreateOneTimeToken, ExchangeOneTimeToken, ExchangeRequest, ExchangedToken, OneTimeToken,
    OneTimeTokenMade,
};
use protocol_model::{SecretText, UnixNanos};
use uuid::Uuid;

use super::secrets::open_token;
use super::token_view::shown;
use super::written::{apply, is_uuid, removed_meanwhile};
use crate::access::Caller;
use crate::gateway;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    CreateOneTimeToken => create,
    ExchangeOneTimeToken => exchange,
];

async fn create(ask: &Ask) -> Answered {
    let Caller::Token { accessor_id, .. } = ask.caller() else {
        return Err(HttpError::permission_denied());
    };
    let secret = SecretText::new(Uuid::new_v4().to_string());
    let digest = gateway::digest(secret.reveal().as_bytes());
    let command = OneTimeTokens::Make {
        digest,
        accessor_id: accessor_id.to_string(),
    };
    let applied = apply(ask, command.into()).await?;
    let made = applied.snapshot.one_time_token(&digest);
    let made = made.ok_or_else(|| removed_meanwhile("one-time token"))?;
    let answer = OneTimeTokenMade {
        one_time_token: OneTimeToken {
            one_time_secret_id: secret,
            accessor_id: made.accessor_id.clone(),
            expires_at: made.expires,
            create_index: made.create_index,
            modify_index: made.create_index,
        },
        index: applied.index,
    };
    ask.answer(&answer, applied.index)
}

/// Anybody may ask this: an exchange that would be refused makes no log entry. Of several that find
/// the token at a time, the state lets one use it.
async fn exchange(ask: &Ask) -> Answered {
    let request: ExchangeRequest = ask.json()?;
    let secret = request.one_time_secret_id;
    if !is_uuid(secret.reveal()) {
        return Err(HttpError::permission_denied());
    }
    let digest = gateway::digest(secret.reveal().as_bytes());
    let snapshot = ask.consistent().await?;
    let now = ask.now();
    let stands_for = |snapshot: &Snapshot, now: UnixNanos| {
        let now = now.max(snapshot.now());
        let one_time = snapshot.one_time_token(&digest)?;
        let token = snapshot.acl_token(&one_time.accessor_id)?.clone();
        (!one_time.is_expired(now) && !token.is_expired(now)).then_some(token)
    };
    let token = stands_for(&snapshot, now).ok_or_else(HttpError::permission_denied)?;
    // Its one use would be lost where the secret cannot be shown.
    let secret_id = open_token(&ask.api, &token);
    if secret_id.is_empty() {
        return Err(HttpError::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            "this server cannot show the token's secret: ask another server, or make another token",
        ));
    }
    let applied = apply(ask, OneTimeTokens::Exchange { digest }.into()).await?;
    let Outcome::OneTimeTokenExchanged { accessor_id } = applied.outcome else {
        return Err(HttpError::internal("the exchange has another outcome"));
    };
    let token = applied.snapshot.acl_token(&accessor_id);
    let token = token.ok_or_else(HttpError::permission_denied)?;
    let answer = ExchangedToken {
        token: shown(&applied.snapshot, token, secret_id),
        index: applied.index,
    };
    ask.answer(&answer, applied.index)
}
