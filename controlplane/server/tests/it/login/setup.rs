//! Methods, rules and the way of a user through a provider.

use std::time::Duration;

use controlplane_server::login::{
    Begin, BindingState, Complete, Issued, LoginError, Logins, UsableMethod,
};
use hack_testkit::{CLIENT_ID, CLIENT_SECRET, Provider, now_s};
use protocol_access::method::MethodSecrets;
use protocol_access::oidc::PendingLogin;
use protocol_model::{AuthMethod, AuthMethodConfig, BindingRule, SecretText, UnixNanos};
use serde_json::json;

pub(crate) const REDIRECT: &str = "http://localhost:4649/oidc/callback";
pub(crate) const NONCE: &str = "nonce of the client";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// The rules and names of a cluster.
#[derive(Debug, Default)]
pub(super) struct Rules(pub(super) Vec<BindingRule>);

impl BindingState for Rules {
    fn rules(&self, _: &str) -> Vec<BindingRule> {
        self.0.clone()
    }

    fn has_policy(&self, name: &str) -> bool {
        name == "readers"
    }

    fn role_id(&self, name: &str) -> Option<String> {
        (name == "team-ops").then(|| "id of team-ops".to_owned())
    }
}

pub(super) fn rule(selector: &str, bind_type: &str, bind_name: &str) -> BindingRule {
    BindingRule {
        id: "rule".to_owned(),
        selector: selector.to_owned(),
        bind_type: bind_type.to_owned(),
        bind_name: bind_name.to_owned(),
        ..BindingRule::default()
    }
}

pub(crate) fn provider() -> Provider {
    Provider::start(json!({"team": "Ops", "groups": ["dev"]}))
}

/// Rules that bind something of each user of [`provider`].
pub(super) fn rules() -> Rules {
    Rules(vec![
        rule("dev in list.groups", "policy", "readers"),
        rule("", "role", "team-${value.team}"),
        rule("", "policy", "absent"),
    ])
}

pub(super) fn config() -> AuthMethodConfig {
    AuthMethodConfig {
        signing_algs: vec!["ES256".to_owned()],
        claim_mappings: [("team".to_owned(), "team".to_owned())].into(),
        list_claim_mappings: [("groups".to_owned(), "groups".to_owned())].into(),
        ..AuthMethodConfig::default()
    }
}

pub(super) fn jwt(provider: &Provider) -> UsableMethod {
    let config = AuthMethodConfig {
        jwks_url: provider.jwks_url(),
        bound_audiences: vec![CLIENT_ID.to_owned()],
        ..config()
    };
    method("JWT", config)
}

pub(super) fn oidc(provider: &Provider) -> UsableMethod {
    let config = AuthMethodConfig {
        oidc_discovery_url: provider.issuer(),
        oidc_client_id: CLIENT_ID.to_owned(),
        oidc_client_secret: SecretText::new("redacted"),
        allowed_redirect_uris: vec![REDIRECT.to_owned()],
        ..config()
    };
    method("OIDC", config)
}

pub(super) fn method(kind: &str, config: AuthMethodConfig) -> UsableMethod {
    let method = AuthMethod {
        name: "sso".to_owned(),
        kind: kind.to_owned(),
        token_locality: "local".to_owned(),
        max_token_ttl: Duration::from_secs(600),
        config: Some(config),
        modify_index: 7,
        ..AuthMethod::default()
    };
    let secrets = MethodSecrets {
        client_secret: SecretText::new(CLIENT_SECRET),
        ..MethodSecrets::default()
    };
    UsableMethod::new(method, &secrets).expect("a usable method")
}

pub(super) fn now() -> UnixNanos {
    UnixNanos(i64::try_from(now_s()).expect("a time") * 1_000_000_000)
}

/// A token that the rules of [`jwt`] accept.
pub(super) fn token(provider: &Provider) -> String {
    provider.token(json!({
        "sub": "robot", "aud": CLIENT_ID, "exp": now_s() + 600, "team": "Ops", "groups": "dev",
    }))
}

/// The first half of a login. The state is not sealed here.
pub(super) async fn begin(logins: &Logins, method: &UsableMethod) -> Result<String, LoginError> {
    let begin = Begin {
        redirect_uri: REDIRECT,
        client_nonce: NONCE,
        verifier: VERIFIER,
    };
    let bare = |pending: &PendingLogin| Ok(String::from_utf8(pending.to_bytes()).expect("JSON"));
    logins.begin(method, begin, bare, now()).await
}

/// Both halves, with the user's way between them.
pub(super) async fn log_in(
    logins: &Logins,
    method: &UsableMethod,
    provider: &Provider,
) -> Result<Issued, LoginError> {
    let url = begin(logins, method).await?;
    let back = provider.log_in(&url);
    let pending = PendingLogin::from_bytes(back.state.as_bytes()).expect("a state");
    let complete = Complete {
        pending: &pending,
        redirect_uri: REDIRECT,
        client_nonce: NONCE,
        code: &back.code,
        issuer: &back.iss,
    };
    logins.complete(method, complete, &rules(), now()).await
}
