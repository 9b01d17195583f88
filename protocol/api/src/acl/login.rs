//! Logins through an identity provider.

use protocol_model::SecretText;
use protocol_model::nullable::or_default;
use serde::{Deserialize, Serialize};

/// The body of [`super::Login`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LoginRequest {
    /// The auth method; empty = the default one.
    #[serde(deserialize_with = "or_default")]
    pub auth_method_name: String,
    /// The provider's token, a JWT.
    #[serde(deserialize_with = "or_default")]
    pub login_token: SecretText,
}

/// The body of [`super::StartOidcLogin`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthUrlRequest {
    /// The auth method; empty = the default one.
    #[serde(deserialize_with = "or_default")]
    pub auth_method_name: String,
    /// The address that the browser returns to: one of the method's `AllowedRedirectURIs`.
    #[serde(rename = "RedirectURI", deserialize_with = "or_default")]
    pub redirect_uri: String,
    /// Random text of the client, which it shows again when it ends the login.
    #[serde(deserialize_with = "or_default")]
    pub client_nonce: SecretText,
}

/// The answer of [`super::StartOidcLogin`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthUrl {
    /// The address to open in a browser.
    #[serde(rename = "AuthURL")]
    pub auth_url: String,
}

/// The body of [`super::CompleteOidcLogin`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CompleteAuthRequest {
    /// As in [`AuthUrlRequest`].
    #[serde(deserialize_with = "or_default")]
    pub auth_method_name: String,
    /// As in [`AuthUrlRequest`].
    #[serde(deserialize_with = "or_default")]
    pub client_nonce: SecretText,
    /// The provider's `state`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// The provider's `code`.
    #[serde(deserialize_with = "or_default")]
    pub code: SecretText,
    /// As in [`AuthUrlRequest`].
    #[serde(rename = "RedirectURI", deserialize_with = "or_default")]
    pub redirect_uri: String,
    /// The provider's `iss` (RFC 9207); empty = it sent none.
    #[serde(deserialize_with = "or_default")]
    pub iss: String,
}
