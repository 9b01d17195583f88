//! `/v1/acl/login` and `/v1/acl/oidc`: an access token for a credential of an identity provider.
//!
//! The rules are in `protocol-access`, the requests to providers in [`crate::login`]. Here: the
//! method and its rules from the state, the sealed state of a login, and the token's entry.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use controlplane_keyring::{
    KeyringError, Purpose, fresh_nonce, sealed_from_bytes, sealed_to_bytes,
};
use controlplane_state::command::{AclTokens, IDENTITY_LEVEL};
use controlplane_state::{AclAuthMethod, AclToken, AclTokenKind, Snapshot};
use protocol_access::jwt::UnverifiedJwt;
use protocol_access::method::MethodSecrets;
use protocol_access::oidc::{PendingError, PendingLogin};
use protocol_api::acl::{
    AuthUrl, AuthUrlRequest, CompleteAuthRequest, CompleteOidcLogin, Login, LoginRequest,
    StartOidcLogin,
};
use protocol_model::{BindingRule, SecretText, UnixNanos};
use uuid::Uuid;

use super::secrets::{open_method, seal_token};
use super::written::{apply, removed_meanwhile};
use super::{auth_methods, binding_rules, token_view};
use crate::gateway;
use crate::http::Api;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};
use crate::login::{
    Begin, BindingState, Complete, Fault, Issued, LoginError, Rights, UsableMethod,
};

/// The longest sealed state, in characters: base64url of a pending login.
const STATE_CHARS_MAX: usize = 16 * 1024;

pub(super) const ROUTES: Routes = routes![
    Login => by_token,
    StartOidcLogin => begin,
    CompleteOidcLogin => complete,
];

async fn by_token(ask: &Ask) -> Answered {
    let request: LoginRequest = ask.json()?;
    let token = request.login_token.reveal();
    if token.is_empty() {
        return Err(LoginError::Request("missing login token").into());
    }
    // Rubbish costs no look at the newest state.
    UnverifiedJwt::parse(token).map_err(LoginError::from)?;
    let (snapshot, method) = method(ask, &request.auth_method_name).await?;
    let state = StateRules(&snapshot);
    let made = ask.api.logins.jwt(&method, token, &state, ask.now()).await;
    issue(ask, &method, made).await
}

async fn begin(ask: &Ask) -> Answered {
    let request: AuthUrlRequest = ask.json()?;
    let (snapshot, method) = method(ask, &request.auth_method_name).await?;
    let verifier = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let begin = Begin {
        redirect_uri: &request.redirect_uri,
        client_nonce: request.client_nonce.reveal(),
        verifier: &verifier,
    };
    let seal = |pending: &PendingLogin| seal(&ask.api, pending);
    let auth_url = ask
        .api
        .logins
        .begin(&method, begin, seal, ask.now())
        .await?;
    ask.answer(&AuthUrl { auth_url }, snapshot.index())
}

async fn complete(ask: &Ask) -> Answered {
    let request: CompleteAuthRequest = ask.json()?;
    let (snapshot, method) = method(ask, &request.auth_method_name).await?;
    let pending = open(&ask.api, &method.method().name, &request.state)?;
    let complete = Complete {
        pending: &pending,
        redirect_uri: &request.redirect_uri,
        client_nonce: request.client_nonce.reveal(),
        code: request.code.reveal(),
        issuer: &request.iss,
    };
    let (state, now) = (StateRules(&snapshot), ask.now());
    let logins = &ask.api.logins;
    let made = logins.complete(&method, complete, &state, now).await;
    issue(ask, &method, made).await
}

/// The method of this name, or the default one, as the newest state has it.
///
/// # Errors
/// 400 where there is none, or none that can be used; 503 where its secrets cannot be opened here.
async fn method(ask: &Ask, name: &str) -> Result<(Snapshot, UsableMethod), HttpError> {
    let snapshot = ask.consistent().await?;
    let found = match name {
        "" => snapshot.default_auth_method(),
        name => snapshot.auth_method(name),
    };
    let Some(row) = found.cloned() else {
        let shown: String = name.chars().take(128).collect();
        return Err(HttpError::bad_request(match name {
            "" => "no auth-method is the default: name one".to_owned(),
            _ => format!("auth-method {shown:?} not found"),
        }));
    };
    let secrets = secrets(&ask.api, &row)?;
    let method = UsableMethod::new(auth_methods::shown(&row)?, &secrets)?;
    Ok((snapshot, method))
}

fn secrets(api: &Api, row: &AclAuthMethod) -> Result<MethodSecrets, HttpError> {
    let Some(sealed) = &row.sealed else {
        return Ok(MethodSecrets::default());
    };
    let bytes = open_method(api, &row.name, sealed)?;
    MethodSecrets::from_bytes(&bytes).map_err(|error| HttpError::internal(error.to_string()))
}

/// Makes the token of a login, and shows it with its secret.
async fn issue(ask: &Ask, method: &UsableMethod, made: Result<Issued, LoginError>) -> Answered {
    let name = &method.method().name;
    let issued = made.inspect_err(|error| match error.fault() {
        Fault::Provider => tracing::warn!(method = name, %error, "login failed"),
        Fault::Request | Fault::Credential => {
            tracing::debug!(method = name, %error, "login refused");
        }
    })?;
    let (kind, policies, roles) = match issued.rights {
        Rights::Management => (AclTokenKind::Management, Vec::new(), Vec::new()),
        Rights::Client { policies, roles } => (AclTokenKind::Client, policies, roles),
    };
    let accessor_id = Uuid::new_v4().to_string();
    let secret = SecretText::new(Uuid::new_v4().to_string());
    let token = AclToken {
        secret_hash: gateway::digest(secret.reveal().as_bytes()),
        sealed: Some(seal_token(&ask.api, &accessor_id, &secret).await?),
        accessor_id: accessor_id.clone(),
        name: issued.name,
        kind,
        policies,
        roles,
        global: issued.global,
        expiration: None,
        ttl: Some(issued.ttl),
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let applied = apply(ask, command(ask, method, token).into()).await?;
    let found = applied.snapshot.acl_token(&accessor_id);
    let found = found.ok_or_else(|| removed_meanwhile("token"))?;
    tracing::info!(
        target: "audit",
        method = name,
        accessor_id,
        token = found.name,
        kind = kind.as_str(),
        "login"
    );
    ask.answer(
        &token_view::shown(&applied.snapshot, found, secret),
        applied.index,
    )
}

/// The command that makes the token of a login. While a server of an older release is a member, it
/// is the one that does not look at the method again.
fn command(ask: &Ask, method: &UsableMethod, token: AclToken) -> AclTokens {
    if ask.api.cluster.too_old(IDENTITY_LEVEL).is_some() {
        let tokens = vec![token];
        return AclTokens::Create { tokens };
    }
    let method = method.method();
    AclTokens::Login {
        token: Box::new(token),
        method: method.name.clone(),
        method_index: method.modify_index,
    }
}

/// The state of a pending login: it opens only on these servers, and only for its method.
fn seal(api: &Api, pending: &PendingLogin) -> Result<String, HttpError> {
    let place = pending.method.as_bytes();
    let bytes = pending.to_bytes();
    let sealed = api
        .keyring
        .seal(Purpose::Logins, place, &bytes, fresh_nonce());
    let sealed = sealed.map_err(unavailable)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed_to_bytes(&sealed)))
}

fn open(api: &Api, method: &str, state: &str) -> Result<PendingLogin, HttpError> {
    let refused = |error: PendingError| LoginError::State(error.to_string());
    if state.len() > STATE_CHARS_MAX {
        return Err(refused(PendingError::Malformed).into());
    }
    let sealed = URL_SAFE_NO_PAD.decode(state).ok();
    let sealed = sealed.and_then(|bytes| sealed_from_bytes(&bytes).ok());
    let sealed = sealed.ok_or_else(|| refused(PendingError::Malformed))?;
    let opened = api
        .keyring
        .open(Purpose::Logins, method.as_bytes(), &sealed);
    let bytes = opened.map_err(|error| match error.is_unavailable() {
        true => unavailable(error),
        false => refused(PendingError::Malformed).into(),
    })?;
    Ok(PendingLogin::from_bytes(&bytes).map_err(refused)?)
}

fn unavailable(error: KeyringError) -> HttpError {
    HttpError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// Rules, policies and roles of one state.
struct StateRules<'s>(&'s Snapshot);

impl BindingState for StateRules<'_> {
    fn rules(&self, method: &str) -> Vec<BindingRule> {
        let rules = self.0.binding_rules_of(method);
        rules.map(|row| binding_rules::shown(row)).collect()
    }

    fn has_policy(&self, name: &str) -> bool {
        self.0.acl_policy(name).is_some()
    }

    fn role_id(&self, name: &str) -> Option<String> {
        self.0.acl_role_by_name(name).map(|role| role.id.clone())
    }
}

impl From<LoginError> for HttpError {
    fn from(error: LoginError) -> Self {
        let status = match error.fault() {
            Fault::Request => StatusCode::BAD_REQUEST,
            Fault::Credential => StatusCode::UNAUTHORIZED,
            Fault::Provider => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error.to_string())
    }
}
