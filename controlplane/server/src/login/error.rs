//! Why a login is refused, and whose fault that is.

use protocol_access::jwt::{ClaimError, JwtError};

use super::fetch::FetchError;

/// Why a login is refused. No text shows a token, a code or a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginError {
    /// The method has no configuration.
    #[error("auth-method {0:?} has no configuration: update it with -config")]
    NoConfig(String),
    /// The method's secrets cannot be used.
    #[error("the secrets of auth-method {0:?} cannot be used: {1}")]
    Secrets(String, String),
    /// The request names nothing, or too little.
    #[error("invalid login request: {0}")]
    Request(&'static str),
    /// The method is of another type.
    #[error("unsupported auth-method type: {0}")]
    Kind(String),
    /// The redirect is not in the list of the method.
    #[error("unauthorized redirect_uri: {0}")]
    Redirect(String),
    /// The state does not complete this login.
    #[error("invalid state: {0}")]
    State(String),
    /// The provider sent another issuer than its own with the code.
    #[error("the code came from the issuer {found:?}, and the method's provider is {wanted:?}")]
    Issuer {
        /// The issuer of the request.
        found: String,
        /// The provider's.
        wanted: String,
    },
    /// The token is not accepted.
    #[error("unable to validate provided token: {0}")]
    Token(String),
    /// The provider cannot be asked, or its documents are not usable.
    #[error("the provider of auth-method {method:?} ({provider}) failed: {why}")]
    Provider {
        /// The method.
        method: String,
        /// The address that was asked.
        provider: String,
        /// The reason.
        why: String,
    },
    /// The provider did not accept the code.
    #[error("{0}")]
    Code(String),
    /// The claims are not usable by the method's mappings, or by a rule.
    #[error("{0}")]
    Claims(String),
    /// No rule matches, or none with a role or policy that exists.
    #[error("no role or policy bindings matched")]
    NothingBound,
}

/// The status of a [`LoginError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// 400.
    Request,
    /// 401.
    Credential,
    /// 502.
    Provider,
}

impl LoginError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoConfig(_)
            | Self::Secrets(..)
            | Self::Request(_)
            | Self::Kind(_)
            | Self::Redirect(_)
            | Self::State(_)
            | Self::Claims(_)
            | Self::NothingBound => Fault::Request,
            Self::Token(_) | Self::Code(_) | Self::Issuer { .. } => Fault::Credential,
            Self::Provider { .. } => Fault::Provider,
        }
    }

    /// A failure of `provider` for `method`.
    pub(super) fn provider(method: &str, provider: &str, error: &FetchError) -> Self {
        Self::Provider {
            method: method.to_owned(),
            provider: provider.to_owned(),
            why: error.to_string(),
        }
    }
}

impl From<JwtError> for LoginError {
    fn from(error: JwtError) -> Self {
        Self::Token(error.to_string())
    }
}

impl From<ClaimError> for LoginError {
    fn from(error: ClaimError) -> Self {
        Self::Token(error.to_string())
    }
}
