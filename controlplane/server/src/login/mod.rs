//! Logins: a credential of another system in, an access token out.
//!
//! ```text
//!   POST acl/login {LoginToken} ----------------------------.
//!   POST acl/oidc/auth-url ----> oidc::begin: address        |
//!   POST acl/oidc/complete-auth -> oidc::complete: id token -+--> verify: claims
//!                                                            |       |
//!        providers: documents and keys, cached <-- fetch <---'       v
//!                                                 issue: mapped claims, binding rules, a token
//! ```
//!
//! - [`Logins`]: the entry point of the handlers; clones share the cache and the limits.
//! - `fetch`: the only connections that a server opens to strangers.
//! - `providers`: discovery documents and key sets, for five minutes.
//!
//! Every decision is in `protocol-access`; the parts here fetch, look up and propose.

mod error;
mod fetch;
mod issue;
mod oidc;
mod providers;
mod verify;

use std::time::Duration;

use protocol_access::method::MethodSecrets;
use protocol_model::{AuthMethod, AuthMethodConfig};

pub use error::{Fault, LoginError};
pub use fetch::{FetchError, LOGIN_TIME_MAX};
pub use issue::{BindingState, Issued, Rights};
pub use oidc::{Begin, Complete};

use fetch::Fetcher;
use providers::Providers;

/// Logins of one server.
#[derive(Clone, Debug)]
pub struct Logins {
    fetcher: Fetcher,
    providers: Providers,
    /// How long all requests of one login may take.
    time_max: Duration,
}

impl Default for Logins {
    fn default() -> Self {
        Self::new(LOGIN_TIME_MAX)
    }
}

impl Logins {
    /// Logins that fail after `time_max` of waiting for a provider.
    pub fn new(time_max: Duration) -> Self {
        Self {
            fetcher: Fetcher::default(),
            providers: Providers::default(),
            time_max,
        }
    }
}

/// An auth method that a login uses: stored with a configuration, its secrets opened.
#[derive(Clone, Debug)]
pub struct UsableMethod {
    /// The method, without configuration.
    method: AuthMethod,
    /// Its configuration.
    config: AuthMethodConfig,
}

impl UsableMethod {
    /// A method with the secrets of its configuration put back.
    ///
    /// # Errors
    /// Where it has no configuration, or a secret is missing.
    pub fn new(mut method: AuthMethod, secrets: &MethodSecrets) -> Result<Self, LoginError> {
        let Some(mut config) = method.config.take() else {
            return Err(LoginError::NoConfig(method.name));
        };
        secrets
            .put_back(&mut config)
            .map_err(|error| LoginError::Secrets(method.name.clone(), error.to_string()))?;
        Ok(Self { method, config })
    }

    /// The stored method.
    pub fn method(&self) -> &AuthMethod {
        &self.method
    }
}
