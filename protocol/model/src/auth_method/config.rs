//! `Config` of an auth method: keys, issuer, audiences, the mapping of claims.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Leeway, SecretText};
use crate::nullable;
use crate::nullable::or_default;

/// How an auth method checks a credential.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthMethodConfig {
    /// Public keys, PEM. One of three sources of keys for
    /// [`AUTH_METHOD_JWT`](super::AUTH_METHOD_JWT).
    #[serde(rename = "JWTValidationPubKeys", with = "nullable")]
    pub jwt_validation_pub_keys: Vec<String>,
    /// The address of a key set (JWKS), the second source.
    #[serde(rename = "JWKSURL", deserialize_with = "or_default")]
    pub jwks_url: String,
    /// The authority of that address, PEM; empty = the authorities of the host.
    #[serde(rename = "JWKSCACert", deserialize_with = "or_default")]
    pub jwks_ca_cert: String,
    /// The issuer whose discovery document names its keys, the third source. OIDC needs it.
    #[serde(rename = "OIDCDiscoveryURL", deserialize_with = "or_default")]
    pub oidc_discovery_url: String,
    /// The client that the provider knows these servers as.
    #[serde(rename = "OIDCClientID", deserialize_with = "or_default")]
    pub oidc_client_id: String,
    /// The secret of that client. Answers of the API show [`REDACTED`](super::REDACTED).
    #[serde(rename = "OIDCClientSecret", deserialize_with = "or_default")]
    pub oidc_client_secret: SecretText,
    /// A signed assertion in place of the secret.
    #[serde(
        rename = "OIDCClientAssertion",
        skip_serializing_if = "Option::is_none"
    )]
    pub oidc_client_assertion: Option<OidcClientAssertion>,
    /// Whether the code exchange is bound to a verifier (PKCE, S256); absent = yes.
    #[serde(rename = "OIDCEnablePKCE")]
    pub oidc_enable_pkce: Option<bool>,
    /// Whether claims come from the id token alone.
    #[serde(rename = "OIDCDisableUserInfo", deserialize_with = "or_default")]
    pub oidc_disable_user_info: bool,
    /// Scopes beside `openid`.
    #[serde(rename = "OIDCScopes", with = "nullable")]
    pub oidc_scopes: Vec<String>,
    /// Audiences of which a token needs one; empty = any (OIDC: the client id).
    #[serde(with = "nullable")]
    pub bound_audiences: Vec<String>,
    /// Issuers of which a token needs one; empty = any (OIDC: the discovered issuer).
    #[serde(with = "nullable")]
    pub bound_issuer: Vec<String>,
    /// Addresses that a provider may send a user back to, compared byte for byte.
    #[serde(rename = "AllowedRedirectURIs", with = "nullable")]
    pub allowed_redirect_uris: Vec<String>,
    /// Authorities of the discovery address and of the provider's other addresses, PEM; empty =
    /// the authorities of the host.
    #[serde(with = "nullable")]
    pub discovery_ca_pem: Vec<String>,
    /// Algorithms that a token may be signed with; empty = RS256.
    #[serde(with = "nullable")]
    pub signing_algs: Vec<String>,
    /// Leeway for a token whose `exp` is derived; 0 = 150 s, negative = none.
    pub expiration_leeway: Leeway,
    /// How long before `exp` a token with neither `nbf` nor `iat` is valid; 0 = from the start,
    /// negative = none.
    pub not_before_leeway: Leeway,
    /// Leeway for clocks that differ; 0 = 60 s, negative = none.
    pub clock_skew_leeway: Leeway,
    /// Claims (a key or a JSON pointer) to names that selectors and bind names use as `value.NAME`.
    #[serde(with = "nullable")]
    pub claim_mappings: BTreeMap<String, String>,
    /// Claims with lists to names that selectors use as `list.NAME`.
    #[serde(with = "nullable")]
    pub list_claim_mappings: BTreeMap<String, String>,
    /// Whether the names of received claims are logged.
    #[serde(deserialize_with = "or_default")]
    pub verbose_logging: bool,
}

/// How a client proves itself to a provider by a signed assertion.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OidcClientAssertion {
    /// `client_secret`, `private_key` or `nomad`.
    #[serde(deserialize_with = "or_default")]
    pub key_source: String,
    /// The audiences of the assertion.
    #[serde(with = "nullable")]
    pub audience: Vec<String>,
    /// The key, for `private_key`.
    pub private_key: Option<OidcClientAssertionKey>,
    /// Further members of its header.
    #[serde(with = "nullable")]
    pub extra_headers: BTreeMap<String, String>,
    /// The algorithm that signs it.
    #[serde(deserialize_with = "or_default")]
    pub key_algorithm: String,
}

/// The private key of an [`OidcClientAssertion`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OidcClientAssertionKey {
    /// The key, PEM. Answers of the API show [`REDACTED`](super::REDACTED).
    #[serde(deserialize_with = "or_default")]
    pub pem_key: SecretText,
    /// A file of the server with the key.
    #[serde(deserialize_with = "or_default")]
    pub pem_key_file: String,
    /// The certificate, PEM.
    #[serde(deserialize_with = "or_default")]
    pub pem_cert: String,
    /// A file of the server with the certificate.
    #[serde(deserialize_with = "or_default")]
    pub pem_cert_file: String,
    /// The header that names the key.
    #[serde(deserialize_with = "or_default")]
    pub key_id_header: String,
    /// The key's name.
    #[serde(rename = "KeyID", deserialize_with = "or_default")]
    pub key_id: String,
}
