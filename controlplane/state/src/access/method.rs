//! Auth methods: where a login's identity comes from.

use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use super::{Sealed, is_acl_name};

/// The most auth methods that a cluster keeps.
pub const AUTH_METHODS_MAX: usize = 64;
/// The longest configuration of an auth method, in bytes of JSON.
pub const AUTH_CONFIG_BYTES_MAX: usize = 256 * 1024;

/// An auth method.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AclAuthMethod {
    /// Its name.
    pub name: String,
    /// How an identity is proved.
    pub kind: AuthMethodKind,
    /// Where its tokens are valid.
    pub locality: TokenLocality,
    /// The names of its tokens, with references to fill.
    pub token_name_format: String,
    /// How long its tokens live.
    pub max_token_ttl: Duration,
    /// Whether a login that names no method uses it. At most one is.
    pub default: bool,
    /// Its configuration as JSON text, without secrets; `None` where it was stored without one: it
    /// refuses logins. The state does not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The secrets of its configuration, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// The time of its creation.
    pub create_time: UnixNanos,
    /// The time of its last change.
    pub modify_time: UnixNanos,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of its last change.
    pub modify_index: u64,
}

/// How an identity is proved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum AuthMethodKind {
    /// By a signed token that its holder has already.
    #[default]
    #[serde(rename = "JWT")]
    Jwt,
    /// By a login at a provider, in a browser.
    #[serde(rename = "OIDC")]
    Oidc,
}

impl AuthMethodKind {
    /// The kind as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jwt => "JWT",
            Self::Oidc => "OIDC",
        }
    }
}

/// Where the tokens of an auth method are valid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenLocality {
    /// In this region.
    #[default]
    Local,
    /// In all regions.
    Global,
}

impl TokenLocality {
    /// The locality as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
        }
    }
}

/// Why an auth method is not written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum AuthMethodFault {
    /// Its name is none.
    #[error("invalid name '{0}'")]
    Name(String),
    /// Its configuration is too long.
    #[error("config has {bytes} bytes: at most {AUTH_CONFIG_BYTES_MAX} are allowed")]
    ConfigTooLong {
        /// Its length.
        bytes: usize,
    },
}

impl AclAuthMethod {
    /// The first fault of an auth method that is to be written. The configuration is not read here.
    pub fn fault(&self) -> Option<AuthMethodFault> {
        if !is_acl_name(&self.name) {
            return Some(AuthMethodFault::Name(self.name.clone()));
        }
        let bytes = self.config.as_ref().map_or(0, String::len);
        (bytes > AUTH_CONFIG_BYTES_MAX).then_some(AuthMethodFault::ConfigTooLong { bytes })
    }
}
