//! `/v1/acl/auth-methods` and `/v1/acl/auth-method`.

use controlplane_state::command::AclAuthMethods;
use controlplane_state::{AclAuthMethod, AuthMethodKind, Snapshot, Table, TokenLocality};
use protocol_access::method::{MethodSecrets, check_auth_method};
use protocol_api::acl::{
    AuthMethodRequest, CreateAuthMethod, DeleteAuthMethod, ListAuthMethods, ReadAuthMethod,
    UpdateAuthMethod,
};
use protocol_model::{
    AUTH_METHOD_OIDC, AuthMethod, AuthMethodConfig, AuthMethodStub, TOKEN_GLOBAL, TOKEN_NAME_FORMAT,
};

use super::secrets::{open_method, seal_method};
use super::written::{apply, removed_meanwhile};
use crate::http::Api;
use crate::http::ask::Ask;
use crate::http::error::{Answered, HttpError};
use crate::http::route::{Routes, routes};

pub(super) const ROUTES: Routes = routes![
    ListAuthMethods => list,
    CreateAuthMethod => create,
    ReadAuthMethod => read,
    UpdateAuthMethod => update,
    DeleteAuthMethod => remove,
];

async fn list(ask: &Ask) -> Answered {
    ask.read(&[Table::AclAuthMethods], |snapshot| {
        let methods = snapshot.auth_methods().map(|row| {
            let method = without_config(row);
            AuthMethodStub::from(&method)
        });
        Ok(methods.collect::<Vec<_>>())
    })
    .await
}

async fn read(ask: &Ask) -> Answered {
    let name = ask.parameter("name");
    ask.read(&[Table::AclAuthMethods], |snapshot| {
        let row = snapshot.auth_method(name);
        let row = row.ok_or_else(|| HttpError::not_found("ACL auth method not found"))?;
        shown(row)
    })
    .await
}

async fn create(ask: &Ask) -> Answered {
    let request: AuthMethodRequest = ask.json()?;
    write(ask, request).await
}

async fn update(ask: &Ask) -> Answered {
    let mut request: AuthMethodRequest = ask.json()?;
    let name = ask.parameter("name");
    if request.name.is_empty() {
        name.clone_into(&mut request.name);
    }
    if request.name != name {
        return Err(HttpError::bad_request(
            "ACL auth method name does not match request path",
        ));
    }
    write(ask, request).await
}

/// Writes a method: a new one, or a stored one with the fields that the request names.
async fn write(ask: &Ask, request: AuthMethodRequest) -> Answered {
    let snapshot = ask.consistent().await?;
    let name = request.name.clone();
    let row = checked(&ask.api, &snapshot, request).await?;
    let methods = vec![row];
    let applied = apply(ask, AclAuthMethods::Upsert { methods }.into()).await?;
    let row = applied.snapshot.auth_method(&name);
    let row = row.ok_or_else(|| removed_meanwhile("auth method"))?;
    ask.answer(&shown(row)?, applied.index)
}

async fn remove(ask: &Ask) -> Answered {
    let names = vec![ask.parameter("name").to_owned()];
    let applied = apply(ask, AclAuthMethods::Delete { names }.into()).await?;
    ask.done(applied.index)
}

/// The row of a request.
///
/// # Errors
/// 400 with every fault; 503 where secrets cannot be sealed or opened here.
async fn checked(
    api: &Api,
    snapshot: &Snapshot,
    request: AuthMethodRequest,
) -> Result<AclAuthMethod, HttpError> {
    let before = snapshot.auth_method(&request.name);
    let (mut method, config_before) = match before {
        Some(row) => (without_config(row), config(row)?),
        None => (AuthMethod::default(), None),
    };
    let or_before = |text: String, before: String| if text.is_empty() { before } else { text };
    method.name = request.name;
    method.kind = or_before(request.kind, method.kind);
    method.token_locality = or_before(request.token_locality, method.token_locality);
    method.token_name_format = or_before(request.token_name_format, method.token_name_format);
    if method.token_name_format.is_empty() {
        TOKEN_NAME_FORMAT.clone_into(&mut method.token_name_format);
    }
    if !request.max_token_ttl.is_zero() {
        method.max_token_ttl = request.max_token_ttl;
    }
    method.default = request.default.unwrap_or(method.default);
    let stored = before.and_then(|row| row.sealed.as_ref());
    let is_changed = request.config.is_some();
    method.config = request.config.or(config_before);
    let mut sealed = stored.cloned();
    if let Some(config) = method.config.as_mut().filter(|_| is_changed) {
        let known = match stored {
            Some(stored) => {
                let bytes = open_method(api, &method.name, stored)?;
                MethodSecrets::from_bytes(&bytes).map_err(refused)?
            }
            None => MethodSecrets::default(),
        };
        known.put_back(config).map_err(refused)?;
        let faults = check_auth_method(&method, api.config.token_lifetimes);
        refuse(&faults)?;
        // The check is done: the secrets leave the configuration.
        if let Some(config) = method.config.as_mut() {
            let secrets = MethodSecrets::take(config);
            if secrets.is_empty() {
                sealed = None;
            } else if secrets != known {
                sealed = Some(seal_method(api, &method.name, &secrets.to_bytes()).await?);
            }
        }
    } else {
        refuse(&check_auth_method(&method, api.config.token_lifetimes))?;
    }
    row(method, sealed)
}

fn refused(error: impl std::fmt::Display) -> HttpError {
    HttpError::bad_request(format!("auth method 0 invalid: invalid Config: {error}"))
}

fn refuse(faults: &[impl std::fmt::Display]) -> Result<(), HttpError> {
    if faults.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Err(HttpError::bad_request(format!(
        "auth method 0 invalid: {}",
        texts.join("; ")
    )))
}

/// A checked method as the state keeps it, its secrets taken out.
fn row(
    method: AuthMethod,
    sealed: Option<controlplane_state::Sealed>,
) -> Result<AclAuthMethod, HttpError> {
    let config = method.config.as_ref().map(serde_json::to_string);
    let config = config.transpose().map_err(|error| {
        HttpError::internal(format!("the configuration cannot be written: {error}"))
    })?;
    Ok(AclAuthMethod {
        name: method.name,
        kind: match method.kind.as_str() {
            AUTH_METHOD_OIDC => AuthMethodKind::Oidc,
            _ => AuthMethodKind::Jwt,
        },
        locality: match method.token_locality.as_str() {
            TOKEN_GLOBAL => TokenLocality::Global,
            _ => TokenLocality::Local,
        },
        token_name_format: method.token_name_format,
        max_token_ttl: method.max_token_ttl,
        default: method.default,
        config,
        sealed,
        ..AclAuthMethod::default()
    })
}

/// The stored method in the shape of the API, without its configuration.
fn without_config(row: &AclAuthMethod) -> AuthMethod {
    AuthMethod {
        name: row.name.clone(),
        kind: row.kind.as_str().to_owned(),
        token_locality: row.locality.as_str().to_owned(),
        token_name_format: row.token_name_format.clone(),
        max_token_ttl: row.max_token_ttl,
        default: row.default,
        config: None,
        create_time: row.create_time,
        modify_time: row.modify_time,
        create_index: row.create_index,
        modify_index: row.modify_index,
    }
}

/// The stored configuration, its secrets redacted.
fn config(row: &AclAuthMethod) -> Result<Option<AuthMethodConfig>, HttpError> {
    let read = row.config.as_deref().map(serde_json::from_str).transpose();
    read.map_err(|error| {
        let name = &row.name;
        HttpError::internal(format!(
            "the configuration of {name} cannot be read: {error}"
        ))
    })
}

/// The stored method in the shape of the API, its secrets redacted.
pub(super) fn shown(row: &AclAuthMethod) -> Result<AuthMethod, HttpError> {
    Ok(AuthMethod {
        config: config(row)?,
        ..without_config(row)
    })
}
