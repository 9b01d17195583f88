//! `/v1/acl/tokens` and `/v1/acl/token/:accessor`.

use std::time::Duration;

use controlplane_state::command::AclTokens;
use controlplane_state::{AclToken, AclTokenKind, Snapshot, Table};
use protocol_access::method::TokenLifetimes;
use protocol_api::acl::{
    CreateToken, DeleteToken, ListTokens, OwnToken, ReadToken, RoleLink, Token, TokenRequest,
    UpdateToken,
};
use protocol_model::duration::format_go;
use protocol_model::{SecretText, UnixNanos};
use uuid::Uuid;

use super::secrets::{open_token, seal_token};
use super::token_view::{shown, stub};
use super::written::{apply, is_uuid, removed_meanwhile};
use crate::access::Caller;
use crate::gateway;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::filter::Filter;
use crate::http::page::{ByPlainName, page_of_sorted};
use crate::http::route::{Routes, routes};

/// The tables that answers about tokens are made of.
const TABLES: [Table; 2] = [Table::AclTokens, Table::AclRoles];
/// The accessor id and the policy of callers without a token.
const ANONYMOUS: &str = "anonymous";

pub(super) const ROUTES: Routes = routes![
    ListTokens => list,
    CreateToken => create,
    OwnToken => own,
    ReadToken => read,
    UpdateToken => update,
    DeleteToken => remove,
];

async fn list(ask: &Ask) -> Answered {
    let prefix = ask.query.get("prefix").unwrap_or("");
    let global = match ask.query.text("global") {
        Some(_) => Some(ask.query.flag("global")?),
        None => None,
    };
    let filter = Filter::of(&ask.query)?;
    let snapshot = ask.snapshot(&TABLES).await?;
    let wanted = |token: &&std::sync::Arc<AclToken>| global.is_none_or(|it| it == token.global);
    let tokens_from = |from: Option<&ByPlainName>, newest_first: bool| {
        let tokens = snapshot.acl_tokens_with_prefix(prefix).filter(wanted);
        let from = from.map(|ByPlainName(accessor_id)| accessor_id.clone());
        let tokens = tokens.filter(move |token| {
            from.as_ref().is_none_or(|from| match newest_first {
                true => token.accessor_id <= *from,
                false => token.accessor_id >= *from,
            })
        });
        let key = |token: &std::sync::Arc<AclToken>| ByPlainName(token.accessor_id.clone());
        let mut rows: Vec<_> = tokens.map(|token| (key(token), token)).collect();
        if newest_first {
            rows.reverse();
        }
        rows.into_iter()
    };
    let page = page_of_sorted(&ask.query, tokens_from, |token| match &filter {
        None => Ok(true),
        Some(filter) => filter.keeps(&stub(&snapshot, token)),
    })?;
    let items: Vec<_> = page.items.iter().map(|it| stub(&snapshot, it)).collect();
    let index = snapshot.table_index(&TABLES);
    ask.answer_page(&items, index, page.next_token.as_deref())
}

async fn read(ask: &Ask) -> Answered {
    let accessor_id = ask.parameter("accessor");
    if !ask.acl().is_management() && ask.accessor_id() != accessor_id {
        return Err(HttpError::permission_denied());
    }
    ask.read(&TABLES, |snapshot| {
        let token = snapshot.acl_token(accessor_id);
        let token = token.ok_or_else(|| HttpError::not_found("ACL token not found"))?;
        Ok(shown(snapshot, token, open_token(&ask.api, token)))
    })
    .await
}

/// The caller's token. A credential that is refused elsewhere is told its fault here.
async fn own(ask: &Ask) -> Answered {
    if let Some(reason) = ask.rejected() {
        let text = match reason {
            "expired" => "ACL token expired",
            _ => "ACL token not found",
        };
        return Err(HttpError::new(axum::http::StatusCode::FORBIDDEN, text));
    }
    let accessor_id = match ask.caller() {
        Caller::Token { accessor_id, .. } => accessor_id,
        Caller::Workload(_) => return Err(HttpError::not_found("ACL token not found")),
        Caller::Open | Caller::Anonymous { .. } => {
            return ask.read(&TABLES, |_| Ok(anonymous())).await;
        }
    };
    ask.read(&TABLES, |snapshot| {
        let token = snapshot.acl_token(&accessor_id);
        let token = token.ok_or_else(|| {
            HttpError::new(axum::http::StatusCode::FORBIDDEN, "ACL token not found")
        })?;
        Ok(shown(snapshot, token, open_token(&ask.api, token)))
    })
    .await
}

/// The token of callers that show none.
fn anonymous() -> Token {
    Token {
        accessor_id: ANONYMOUS.to_owned(),
        name: "Anonymous Token".to_owned(),
        kind: AclTokenKind::Client.as_str().to_owned(),
        policies: vec![ANONYMOUS.to_owned()],
        ..Token::default()
    }
}

async fn create(ask: &Ask) -> Answered {
    let request: TokenRequest = ask.json()?;
    let snapshot = ask.consistent().await?;
    // As in Nomad, a body with the accessor id of a token changes it.
    if snapshot.acl_token(&request.accessor_id).is_some() && request.secret_id.is_empty() {
        return change(ask, &snapshot, request).await;
    }
    make(ask, &snapshot, request).await
}

/// Makes a token.
async fn make(ask: &Ask, snapshot: &Snapshot, request: TokenRequest) -> Answered {
    let kind = kind(&request.kind)?;
    let (accessor_id, secret) = identity(&request, kind)?;
    let expiration_time = request.expiration_time;
    let ttl = Some(request.expiration_ttl).filter(|ttl| !ttl.is_zero());
    check_lifetime(
        ttl,
        expiration_time,
        ask.api.config.token_lifetimes,
        ask.now(),
    )?;
    let token = AclToken {
        secret_hash: gateway::digest(secret.reveal().as_bytes()),
        sealed: Some(seal_token(&ask.api, &accessor_id, &secret).await?),
        accessor_id: accessor_id.clone(),
        name: request.name,
        kind,
        policies: request.policies,
        roles: role_ids(snapshot, request.roles)?,
        global: request.global.unwrap_or(false),
        expiration: expiration_time,
        ttl,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let tokens = vec![token];
    let applied = apply(ask, AclTokens::Create { tokens }.into()).await?;
    let found = applied.snapshot.acl_token(&accessor_id);
    let found = found.ok_or_else(|| removed_meanwhile("token"))?;
    ask.answer(&shown(&applied.snapshot, found, secret), applied.index)
}

/// The accessor id and the secret of a new token: new ones, or both of the request (an upload).
///
/// # Errors
/// 400 where the request has one without the other, or not in the form of a UUID.
fn identity(request: &TokenRequest, kind: AclTokenKind) -> Result<(String, SecretText), HttpError> {
    let accessor_id = request.accessor_id.as_str();
    if accessor_id.is_empty() {
        let secret = SecretText::new(Uuid::new_v4().to_string());
        return Ok((Uuid::new_v4().to_string(), secret));
    }
    let is_upload =
        kind == AclTokenKind::Client && is_uuid(accessor_id) && is_uuid(request.secret_id.reveal());
    if !is_upload {
        return Err(unknown(accessor_id));
    }
    Ok((accessor_id.to_owned(), request.secret_id.clone()))
}

fn unknown(accessor_id: &str) -> HttpError {
    let shown: String = accessor_id.chars().take(64).collect();
    HttpError::bad_request(format!("cannot find token {shown}"))
}

fn invalid(fault: &str) -> HttpError {
    HttpError::bad_request(format!("token 0 invalid: {fault}"))
}

fn kind(text: &str) -> Result<AclTokenKind, HttpError> {
    match text {
        "client" => Ok(AclTokenKind::Client),
        "management" => Ok(AclTokenKind::Management),
        _ => Err(invalid("token type must be client or management")),
    }
}

/// Refuses a token that would expire too soon or too late.
fn check_lifetime(
    ttl: Option<Duration>,
    expiration_time: Option<UnixNanos>,
    limits: TokenLifetimes,
    now: UnixNanos,
) -> Result<(), HttpError> {
    let Some(length) = expiration_time.map(|at| at.saturating_since(now)).or(ttl) else {
        return Ok(());
    };
    let TokenLifetimes { min, max } = limits;
    let (word, limit) = match length {
        _ if length < min => ("less", min),
        _ if length > max => ("more", max),
        _ => return Ok(()),
    };
    let (limit, length) = (format_go(limit), format_go(length));
    Err(invalid(&format!(
        "expiration time cannot be {word} than {limit} in the future (was {length})"
    )))
}

/// The ids of roles that are named by id or by name. Whether an id is one, the state decides.
///
/// # Errors
/// 400 where no role has a name.
fn role_ids(snapshot: &Snapshot, links: Vec<RoleLink>) -> Result<Vec<String>, HttpError> {
    let id = |link: RoleLink| match link.id.is_empty() {
        false => Ok(link.id),
        true => {
            let role = snapshot.acl_role_by_name(&link.name);
            let unknown = || HttpError::bad_request(format!("cannot find role {}", link.name));
            role.map(|role| role.id.clone()).ok_or_else(unknown)
        }
    };
    links.into_iter().map(id).collect()
}

async fn update(ask: &Ask) -> Answered {
    let mut request: TokenRequest = ask.json()?;
    let accessor_id = ask.parameter("accessor");
    if request.accessor_id.is_empty() {
        accessor_id.clone_into(&mut request.accessor_id);
    }
    if request.accessor_id != accessor_id {
        return Err(HttpError::bad_request(
            "ACL token accessor does not match request path",
        ));
    }
    let snapshot = ask.consistent().await?;
    // As in Nomad, a body with the secret of a token that is not there is an upload.
    if snapshot.acl_token(accessor_id).is_none() && !request.secret_id.is_empty() {
        return make(ask, &snapshot, request).await;
    }
    change(ask, &snapshot, request).await
}

/// Changes a token. Times and mode that the request leaves out stay; others than its own are
/// refused by the state.
async fn change(ask: &Ask, snapshot: &Snapshot, request: TokenRequest) -> Answered {
    let accessor_id = request.accessor_id.clone();
    let before = snapshot.acl_token(&accessor_id);
    let before = before.ok_or_else(|| unknown(&accessor_id))?;
    let ttl = Some(request.expiration_ttl).filter(|ttl| !ttl.is_zero());
    let token = AclToken {
        name: request.name,
        kind: match request.kind.as_str() {
            "" => before.kind,
            text => kind(text)?,
        },
        policies: request.policies,
        roles: role_ids(snapshot, request.roles)?,
        global: request.global.unwrap_or(before.global),
        expiration: request.expiration_time.or(before.expiration),
        ttl: ttl.or(before.ttl),
        ..AclToken::clone(before)
    };
    let tokens = vec![token];
    let applied = apply(ask, AclTokens::Update { tokens }.into()).await?;
    let found = applied.snapshot.acl_token(&accessor_id);
    let found = found.ok_or_else(|| removed_meanwhile("token"))?;
    let secret = open_token(&ask.api, found);
    ask.answer(&shown(&applied.snapshot, found, secret), applied.index)
}

async fn remove(ask: &Ask) -> Answered {
    let accessors = vec![ask.parameter("accessor").to_owned()];
    let applied = apply(ask, AclTokens::Delete { accessors }.into()).await?;
    ask.done(applied.index)
}
