//! Logins by OIDC: the address that a user opens, and the code that comes back.
//!
//! Nothing is remembered between the two: the pending login travels sealed as `state`, so that any
//! server completes it. Sealing is the caller's: it has the keyring.

use std::fmt;

use protocol_access::jwt::ClaimRules;
use protocol_access::oidc::{
    AuthUrl, CodeExchange, Discovery, PENDING_LOGIN_TTL, PendingLogin, TokenAnswer, nonce_digest,
};
use protocol_model::{AUTH_METHOD_OIDC, UnixNanos};
use serde_json::{Map, Value};

use super::error::LoginError;
use super::fetch::{Deadline, Fetch, FetchError};
use super::issue::{BindingState, Issued, issue};
use super::{Logins, UsableMethod};

/// The longest nonce of a client, in bytes: it becomes a part of an address.
const NONCE_BYTES_MAX: usize = 256;

/// A login that begins.
#[derive(Clone, Copy)]
pub struct Begin<'a> {
    /// `RedirectURI`.
    pub redirect_uri: &'a str,
    /// `ClientNonce`.
    pub client_nonce: &'a str,
    /// A fresh verifier of PKCE: 43 to 128 unreserved characters.
    pub verifier: &'a str,
}

/// Shows neither nonce nor verifier.
impl fmt::Debug for Begin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begin")
            .field("redirect_uri", &self.redirect_uri)
            .finish_non_exhaustive()
    }
}

/// A login that is completed.
#[derive(Clone, Copy)]
pub struct Complete<'a> {
    /// The opened state.
    pub pending: &'a PendingLogin,
    /// `RedirectURI`.
    pub redirect_uri: &'a str,
    /// `ClientNonce`.
    pub client_nonce: &'a str,
    /// `Code`.
    pub code: &'a str,
    /// `Iss`; empty where the provider sent none.
    pub issuer: &'a str,
}

/// Shows neither nonce nor code.
impl fmt::Debug for Complete<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Complete")
            .field("pending", &self.pending)
            .field("redirect_uri", &self.redirect_uri)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl Logins {
    /// The address that the user opens; `seal` makes a state of a pending login.
    ///
    /// # Errors
    /// See [`LoginError`]; and those of `seal`.
    pub async fn begin<E: From<LoginError>>(
        &self,
        method: &UsableMethod,
        begin: Begin<'_>,
        seal: impl FnOnce(&PendingLogin) -> Result<String, E>,
        now: UnixNanos,
    ) -> Result<String, E> {
        method.check_oidc(begin.redirect_uri, begin.client_nonce)?;
        let deadline = Deadline::after(self.time_max);
        let document = self.provider(method, deadline).await?;
        let config = &method.config;
        let verifier = config
            .oidc_enable_pkce
            .unwrap_or(true)
            .then_some(begin.verifier);
        let pending = PendingLogin {
            method: method.method.name.clone(),
            modify_index: method.method.modify_index,
            redirect_uri: begin.redirect_uri.to_owned(),
            nonce_digest: nonce_digest(begin.client_nonce),
            verifier: verifier.map(str::to_owned),
            expires: now.saturating_add(PENDING_LOGIN_TTL),
        };
        let url = AuthUrl {
            endpoint: &document.authorization_endpoint,
            client_id: &config.oidc_client_id,
            scopes: &config.oidc_scopes,
            redirect_uri: begin.redirect_uri,
            state: &seal(&pending)?,
            nonce: begin.client_nonce,
            verifier,
        };
        Ok(url.build())
    }

    /// The token of a completed login.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn complete(
        &self,
        method: &UsableMethod,
        complete: Complete<'_>,
        state: &impl BindingState,
        now: UnixNanos,
    ) -> Result<Issued, LoginError> {
        let Complete {
            pending,
            redirect_uri,
            client_nonce,
            code,
            issuer,
        } = complete;
        method.check_oidc(redirect_uri, client_nonce)?;
        if code.is_empty() {
            return Err(LoginError::Request("missing code"));
        }
        let version = (method.method.name.as_str(), method.method.modify_index);
        pending
            .check(version, redirect_uri, client_nonce, now)
            .map_err(|error| LoginError::State(error.to_string()))?;
        let deadline = Deadline::after(self.time_max);
        let document = self.provider(method, deadline).await?;
        // RFC 9207: the code may be another provider's, where a client uses two.
        if issuer != document.issuer && (!issuer.is_empty() || document.sends_issuer) {
            return Err(LoginError::Issuer {
                found: issuer.chars().take(256).collect(),
                wanted: document.issuer.clone(),
            });
        }
        let exchange = CodeExchange {
            code,
            redirect_uri,
            verifier: pending.verifier.as_deref(),
            client_id: &method.config.oidc_client_id,
            client_secret: method.config.oidc_client_secret.reveal(),
        };
        let answer = self
            .exchanged(method, &document, exchange, deadline)
            .await?;
        let rules = id_token_rules(method, &document);
        let mut claims = self
            .verified(&answer.id_token, method, &rules, now, deadline)
            .await?;
        check_bound(method, &document, &claims)?;
        if claims.get("nonce").and_then(Value::as_str) != Some(client_nonce) {
            return Err(LoginError::Token(
                "the nonce of the id token is another one".to_owned(),
            ));
        }
        if !claims.contains_key("exp") {
            return Err(LoginError::Token(
                "the id token has no claim \"exp\"".to_owned(),
            ));
        }
        self.add_user_info(
            method,
            &document,
            &answer.access_token,
            &mut claims,
            deadline,
        )
        .await?;
        issue(method, &claims, state)
    }

    /// The provider's document, with the addresses that logins need.
    async fn provider(
        &self,
        method: &UsableMethod,
        deadline: Deadline,
    ) -> Result<std::sync::Arc<Discovery>, LoginError> {
        let document = self
            .providers
            .document(&self.fetcher, method, deadline)
            .await?;
        let needed = [
            ("authorization_endpoint", &document.authorization_endpoint),
            ("token_endpoint", &document.token_endpoint),
        ];
        let missing = needed.into_iter().find(|(_, url)| url.is_empty());
        if let Some((field, _)) = missing {
            let why = format!("its discovery document has no {field}");
            return Err(method.failed(&FetchError::Document(why)));
        }
        Ok(document)
    }

    async fn exchanged(
        &self,
        method: &UsableMethod,
        document: &Discovery,
        exchange: CodeExchange<'_>,
        deadline: Deadline,
    ) -> Result<TokenAnswer, LoginError> {
        let authorization = exchange.authorization();
        let fetch = Fetch {
            url: &document.token_endpoint,
            authorities: &method.config.discovery_ca_pem,
            form: Some(&exchange.body()),
            authorization: authorization.as_deref(),
        };
        let fetched = self.fetcher.fetch(fetch, deadline).await;
        let fetched = fetched.map_err(|error| method.failed(&error))?;
        TokenAnswer::parse(fetched.status, &fetched.body).map_err(|error| match error {
            protocol_access::oidc::TokenAnswerError::Refused(_) => {
                LoginError::Code(error.to_string())
            }
            _ => method.failed(&FetchError::Document(error.to_string())),
        })
    }

    /// Adds the claims of the user info, where the provider has one. Claims of the signed id token
    /// stay as they are.
    async fn add_user_info(
        &self,
        method: &UsableMethod,
        document: &Discovery,
        access_token: &str,
        claims: &mut Map<String, Value>,
        deadline: Deadline,
    ) -> Result<(), LoginError> {
        let is_there = !document.userinfo_endpoint.is_empty() && !access_token.is_empty();
        if method.config.oidc_disable_user_info || !is_there {
            return Ok(());
        }
        let fetch = Fetch {
            url: &document.userinfo_endpoint,
            authorities: &method.config.discovery_ca_pem,
            form: None,
            authorization: Some(&format!("Bearer {access_token}")),
        };
        let fetched = self.fetcher.document(fetch, deadline).await;
        let bytes = fetched.map_err(|error| method.failed(&error))?;
        let info: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("the user info is not a JSON object: {error}");
            method.failed(&FetchError::Document(why))
        })?;
        // Another subject is another user (OpenID Connect Core, section 5.3.2).
        if info.get("sub").is_none() || info.get("sub") != claims.get("sub") {
            let why = "the user info is about another subject than the id token";
            return Err(LoginError::Token(why.to_owned()));
        }
        for (name, value) in info {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

impl UsableMethod {
    fn check_oidc(&self, redirect_uri: &str, client_nonce: &str) -> Result<(), LoginError> {
        if self.method.kind != AUTH_METHOD_OIDC {
            return Err(LoginError::Kind(self.method.kind.clone()));
        }
        if redirect_uri.is_empty() {
            return Err(LoginError::Request("missing redirect URI"));
        }
        if client_nonce.is_empty() {
            return Err(LoginError::Request("missing client nonce"));
        }
        if client_nonce.len() > NONCE_BYTES_MAX {
            return Err(LoginError::Request(
                "the client nonce has more than 256 bytes",
            ));
        }
        let mut allowed = self.config.allowed_redirect_uris.iter();
        if !allowed.any(|uri| uri == redirect_uri) {
            let shown = redirect_uri.chars().take(256).collect();
            return Err(LoginError::Redirect(shown));
        }
        Ok(())
    }

    fn failed(&self, error: &FetchError) -> LoginError {
        LoginError::provider(&self.method.name, &self.config.oidc_discovery_url, error)
    }
}

/// Rules of the method beside those of [`id_token_rules`].
fn check_bound(
    method: &UsableMethod,
    document: &Discovery,
    claims: &Map<String, Value>,
) -> Result<(), LoginError> {
    let config = &method.config;
    if !config.bound_issuer.is_empty() && !config.bound_issuer.contains(&document.issuer) {
        return Err(LoginError::Token(format!(
            "the issuer {:?} is none of {:?}",
            document.issuer, config.bound_issuer
        )));
    }
    // A token that was made for another client, which names this one among its audiences.
    match claims.get("azp") {
        Some(party) if config.bound_audiences.is_empty() => {
            let is_own = party.as_str() == Some(config.oidc_client_id.as_str());
            let why = "the id token was made for another client (claim \"azp\")";
            is_own
                .then_some(())
                .ok_or_else(|| LoginError::Token(why.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Issuer and audience are always bound: to the provider, and to the configured audiences or this
/// client.
fn id_token_rules(method: &UsableMethod, document: &Discovery) -> ClaimRules {
    let mut rules = ClaimRules::of(&method.config);
    rules.issuers = vec![document.issuer.clone()];
    if rules.audiences.is_empty() {
        rules.audiences = vec![method.config.oidc_client_id.clone()];
    }
    rules
}
