//! Auth methods: how people and programs exchange a credential of another system for a token.
//!
//! The shapes are those of `/v1/acl/auth-method`. The checks are in `protocol-access`.

mod config;
mod leeway;
mod secret_text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::text;
use crate::instant::{UnixNanos, rfc3339_always};
use crate::nullable::or_default;

pub use config::{AuthMethodConfig, OidcClientAssertion, OidcClientAssertionKey};
pub use leeway::Leeway;
pub use secret_text::{REDACTED, SecretText};

/// The `Type` of a method that takes a signed token (JWT).
pub const AUTH_METHOD_JWT: &str = "JWT";
/// The `Type` of a method that sends the user to a provider (OpenID Connect).
pub const AUTH_METHOD_OIDC: &str = "OIDC";
/// The `TokenLocality` of tokens that are valid in one region.
pub const TOKEN_LOCAL: &str = "local";
/// The `TokenLocality` of tokens that are valid in every region.
pub const TOKEN_GLOBAL: &str = "global";
/// The `TokenNameFormat` of a method that names none.
pub const TOKEN_NAME_FORMAT: &str = "${auth_method_type}-${auth_method_name}";

/// A way to log in.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethod {
    /// Its unique name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// [`AUTH_METHOD_JWT`] or [`AUTH_METHOD_OIDC`].
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub kind: String,
    /// Whether its tokens are [`TOKEN_LOCAL`] or [`TOKEN_GLOBAL`].
    #[serde(deserialize_with = "or_default")]
    pub token_locality: String,
    /// The name of its tokens, with `${auth_method_type}`, `${auth_method_name}` and
    /// `${value.NAME}`.
    #[serde(deserialize_with = "or_default")]
    pub token_name_format: String,
    /// How long its tokens are valid. A text in the API.
    #[serde(rename = "MaxTokenTTL", with = "text")]
    pub max_token_ttl: Duration,
    /// Whether a login that names no method uses this one.
    #[serde(deserialize_with = "or_default")]
    pub default: bool,
    /// How credentials are checked. A method without it refuses every login.
    pub config: Option<AuthMethodConfig>,
    /// When it was made.
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    /// When it was changed last.
    #[serde(with = "rfc3339_always")]
    pub modify_time: UnixNanos,
    /// The log index that made it.
    #[serde(deserialize_with = "or_default")]
    pub create_index: u64,
    /// The log index that changed it last.
    #[serde(deserialize_with = "or_default")]
    pub modify_index: u64,
}

/// A row of the list of auth methods: no configuration, so nothing secret.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodStub {
    /// See [`AuthMethod::name`].
    pub name: String,
    /// See [`AuthMethod::kind`].
    #[serde(rename = "Type")]
    pub kind: String,
    /// See [`AuthMethod::default`].
    pub default: bool,
    /// See [`AuthMethod::create_index`].
    pub create_index: u64,
    /// See [`AuthMethod::modify_index`].
    pub modify_index: u64,
}

impl From<&AuthMethod> for AuthMethodStub {
    fn from(method: &AuthMethod) -> Self {
        Self {
            name: method.name.clone(),
            kind: method.kind.clone(),
            default: method.default,
            create_index: method.create_index,
            modify_index: method.modify_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn method_without_config_reads_back_as_it_was_written() {
        let sent = r#"{"Name":"ci","type":"JWT","MaxTokenTTL":"1h","TokenLocality":"local",
            "CreateTime":"0001-01-01T00:00:00Z","ModifyTime":null}"#;
        let read: AuthMethod = json::from_str(sent).expect("a method");
        assert_eq!(read.kind, AUTH_METHOD_JWT);
        assert_eq!(read.max_token_ttl, Duration::from_secs(3600));
        assert_eq!(read.config, None);
        let written = serde_json::to_value(&read).expect("JSON");
        assert_eq!(written["MaxTokenTTL"], "1h0m0s");
        assert_eq!(written["Config"], serde_json::Value::Null);
        let again: AuthMethod = json::from_str(&written.to_string()).expect("a method");
        assert_eq!(again, read);
    }

    #[test]
    fn config_keeps_every_field_and_leeways_may_be_negative() {
        let sent = r#"{"Name":"ci","MaxTokenTTL":3600000000000,"Config":{
            "JWTValidationPubKeys":["k"],"JWKSURL":"u","JWKSCACert":"c","OIDCDiscoveryURL":"d",
            "OIDCClientID":"i","OIDCClientSecret":"s","OIDCEnablePKCE":false,
            "OIDCDisableUserInfo":true,"OIDCScopes":["groups"],"BoundAudiences":["a"],
            "BoundIssuer":["b"],"AllowedRedirectURIs":["r"],"DiscoveryCaPem":["p"],
            "SigningAlgs":["RS256"],"ExpirationLeeway":"-1s","NotBeforeLeeway":2000000000,
            "ClockSkewLeeway":"1m","ClaimMappings":{"x":"y"},"ListClaimMappings":{"g":"groups"},
            "VerboseLogging":true,"OIDCClientAssertion":{"KeySource":"nomad","Audience":["z"]}}}"#;
        let read: AuthMethod = json::from_str(sent).expect("a method");
        let config = read.config.clone().expect("a configuration");
        assert_eq!(config.expiration_leeway, Leeway(-1_000_000_000));
        assert_eq!(config.not_before_leeway, Leeway(2_000_000_000));
        assert_eq!(config.oidc_enable_pkce, Some(false));
        let written = serde_json::to_value(&read).expect("JSON");
        assert_eq!(written["Config"]["ExpirationLeeway"], "-1s");
        assert_eq!(written["Config"]["ClockSkewLeeway"], "1m0s");
        let again: AuthMethod = json::from_str(&written.to_string()).expect("a method");
        assert_eq!(again, read);
    }

    #[test]
    fn debug_output_of_a_config_holds_no_secret() {
        let config = AuthMethodConfig {
            oidc_client_secret: SecretText::new("planted"),
            ..AuthMethodConfig::default()
        };
        assert!(!format!("{config:?}").contains("planted"));
    }
}
