//! Auth methods: identity providers that people and programs log in with.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::UnixNanos;
use protocol_model::nullable::{self, or_default};
use protocol_model::rfc3339_always;
use serde::{Deserialize, Serialize};

use super::duration_text;

/// The body of [`super::CreateAuthMethod`] and [`super::UpdateAuthMethod`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodRequest {
    /// Its name: letters, digits, hyphens, 128 bytes at most. Empty = the path's.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `OIDC` or `JWT`; empty = unchanged.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub kind: String,
    /// `local` or `global`: what its tokens' `Global` is. Empty = unchanged.
    #[serde(deserialize_with = "or_default")]
    pub token_locality: String,
    /// How its tokens are named; empty = unchanged, `${auth_method_type}-${auth_method_name}` at
    /// first.
    #[serde(deserialize_with = "or_default")]
    pub token_name_format: String,
    /// How long its tokens live; zero = unchanged.
    #[serde(rename = "MaxTokenTTL", with = "duration_text::unsigned")]
    pub max_token_ttl: Duration,
    /// Whether it is the one of a login that names none; absent = unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// How its tokens are verified; absent = unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<AuthMethodConfig>,
}

/// An auth method.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethod {
    pub name: String,
    /// `OIDC` or `JWT`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// `local` or `global`.
    pub token_locality: String,
    pub token_name_format: String,
    /// How long its tokens live.
    #[serde(rename = "MaxTokenTTL", with = "duration_text::unsigned")]
    pub max_token_ttl: Duration,
    pub default: bool,
    /// How its tokens are verified; `null` where it was made without.
    pub config: Option<AuthMethodConfig>,
    /// SHA-256 of what is written, base64.
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    #[serde(with = "rfc3339_always")]
    pub create_time: UnixNanos,
    #[serde(with = "rfc3339_always")]
    pub modify_time: UnixNanos,
    pub create_index: u64,
    pub modify_index: u64,
}

/// An auth method in lists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodStub {
    pub name: String,
    /// `OIDC` or `JWT`.
    #[serde(rename = "Type")]
    pub kind: String,
    pub default: bool,
    /// As in [`AuthMethod`].
    #[serde(deserialize_with = "or_default")]
    pub hash: String,
    pub create_index: u64,
    pub modify_index: u64,
}

/// How the tokens of an identity provider are verified, and what is read from them. Lists and maps
/// that are empty are written as `null`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodConfig {
    /// Public keys, PEM.
    #[serde(rename = "JWTValidationPubKeys", with = "nullable")]
    pub jwt_validation_pub_keys: Vec<String>,
    /// The address of the provider's keys.
    #[serde(rename = "JWKSURL", deserialize_with = "or_default")]
    pub jwks_url: String,
    /// The authority of that address, PEM.
    #[serde(rename = "JWKSCACert", deserialize_with = "or_default")]
    pub jwks_ca_cert: String,
    /// The provider's address, without `/.well-known/openid-configuration`.
    #[serde(rename = "OIDCDiscoveryURL", deserialize_with = "or_default")]
    pub oidc_discovery_url: String,
    /// Authorities of the provider, PEM.
    #[serde(with = "nullable")]
    pub discovery_ca_pem: Vec<String>,
    /// The name under which the provider knows this cluster.
    #[serde(rename = "OIDCClientID", deserialize_with = "or_default")]
    pub oidc_client_id: String,
    /// The secret that goes with it. Reads as `redacted`; `redacted` keeps it.
    #[serde(rename = "OIDCClientSecret", deserialize_with = "or_default")]
    pub oidc_client_secret: String,
    /// Whether PKCE is used; absent = yes.
    #[serde(rename = "OIDCEnablePKCE")]
    pub oidc_enable_pkce: Option<bool>,
    /// Whether claims come from the id token alone.
    #[serde(rename = "OIDCDisableUserInfo", deserialize_with = "or_default")]
    pub oidc_disable_user_info: bool,
    /// Scopes to ask for beside `openid`.
    #[serde(rename = "OIDCScopes", with = "nullable")]
    pub oidc_scopes: Vec<String>,
    /// A signed statement instead of the client's secret.
    #[serde(rename = "OIDCClientAssertion")]
    pub oidc_client_assertion: Option<ClientAssertion>,
    /// Audiences of which a token needs one; empty = any.
    #[serde(with = "nullable")]
    pub bound_audiences: Vec<String>,
    /// Issuers of which a token needs one; empty = any.
    #[serde(with = "nullable")]
    pub bound_issuer: Vec<String>,
    /// Addresses that a login by OIDC may return to, byte for byte.
    #[serde(rename = "AllowedRedirectURIs", with = "nullable")]
    pub allowed_redirect_uris: Vec<String>,
    /// Algorithms of signatures; empty = `RS256`.
    #[serde(with = "nullable")]
    pub signing_algs: Vec<String>,
    /// Nanoseconds; 0 = 150 s, negative = none.
    #[serde(with = "duration_text::signed")]
    pub expiration_leeway: i64,
    /// Nanoseconds; 0 = 150 s, negative = none.
    #[serde(with = "duration_text::signed")]
    pub not_before_leeway: i64,
    /// Nanoseconds; 0 = 60 s, negative = none.
    #[serde(with = "duration_text::signed")]
    pub clock_skew_leeway: i64,
    /// Claims, by key or JSON pointer, and the names that rules know them by: `value.<name>`.
    #[serde(with = "nullable")]
    pub claim_mappings: BTreeMap<String, String>,
    /// The same for claims that are lists: `list.<name>`.
    #[serde(with = "nullable")]
    pub list_claim_mappings: BTreeMap<String, String>,
    /// Whether the claims of a login are logged.
    #[serde(deserialize_with = "or_default")]
    pub verbose_logging: bool,
}

/// A statement that the client signs instead of showing its secret (RFC 7523).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ClientAssertion {
    /// `nomad`, `private_key` or `client_secret`.
    #[serde(deserialize_with = "or_default")]
    pub key_source: String,
    /// Its audience; empty = the provider.
    #[serde(with = "nullable")]
    pub audience: Vec<String>,
    /// The algorithm; empty = `RS256`, `HS256` with `client_secret`.
    #[serde(deserialize_with = "or_default")]
    pub key_algorithm: String,
    /// The key where `KeySource` is `private_key`.
    pub private_key: Option<ClientAssertionKey>,
    /// More of its header.
    #[serde(with = "nullable")]
    pub extra_headers: BTreeMap<String, String>,
}

/// A key of a client.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ClientAssertionKey {
    /// The key, PEM. Reads as `redacted`; `redacted` keeps it.
    #[serde(deserialize_with = "or_default")]
    pub pem_key: String,
    /// A file with it on each server.
    #[serde(deserialize_with = "or_default")]
    pub pem_key_file: String,
    /// Its certificate, PEM.
    #[serde(deserialize_with = "or_default")]
    pub pem_cert: String,
    /// A file with it on each server.
    #[serde(deserialize_with = "or_default")]
    pub pem_cert_file: String,
    /// The header that names the key: `kid`, `x5t` or `x5t#S256`.
    #[serde(rename = "KeyIDHeader", deserialize_with = "or_default")]
    pub key_id_header: String,
    /// The key's name.
    #[serde(rename = "KeyID", deserialize_with = "or_default")]
    pub key_id: String,
}
