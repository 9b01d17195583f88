//! Verified claims to the rights of a token.

use protocol_access::binding::{Bound, bind};
use protocol_access::claims::MappedClaims;
use protocol_access::jwt::ClaimRules;
use protocol_access::method::token_name;
use protocol_model::{AUTH_METHOD_JWT, BindingRule, TOKEN_GLOBAL, UnixNanos};
use serde_json::{Map, Value};
use std::time::Duration;

use super::error::LoginError;
use super::fetch::Deadline;
use super::{Logins, UsableMethod};

/// The token that a login yields; ids, secret and times are the proposer's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// Its name.
    pub name: String,
    /// Its rights.
    pub rights: Rights,
    /// Whether it is valid in every region.
    pub global: bool,
    /// How long it is valid.
    pub ttl: Duration,
}

/// The rights of a token that a login makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rights {
    /// Everything.
    Management,
    /// The rights of these policies and roles, at least one in all.
    Client {
        /// Names of policies that exist.
        policies: Vec<String>,
        /// Ids of roles.
        roles: Vec<String>,
    },
}

/// The parts of the state that a login reads.
pub trait BindingState {
    /// The binding rules of a method.
    fn rules(&self, method: &str) -> Vec<BindingRule>;
    /// Whether a policy exists.
    fn has_policy(&self, name: &str) -> bool;
    /// The id of a role.
    fn role_id(&self, name: &str) -> Option<String>;
}

impl Logins {
    /// A login by a method of type JWT.
    ///
    /// # Errors
    /// See [`LoginError`].
    pub async fn jwt(
        &self,
        method: &UsableMethod,
        token: &str,
        state: &impl BindingState,
        now: UnixNanos,
    ) -> Result<Issued, LoginError> {
        if method.method.kind != AUTH_METHOD_JWT {
            return Err(LoginError::Kind(method.method.kind.clone()));
        }
        let rules = ClaimRules::of(&method.config);
        let deadline = Deadline::after(self.time_max);
        let claims = self.verified(token, method, &rules, now, deadline).await?;
        issue(method, &claims, state)
    }
}

/// The token for verified claims. A role or policy that does not exist binds nothing.
///
/// # Errors
/// Where the claims cannot be mapped, a rule's name cannot be computed, or nothing is bound.
pub(super) fn issue(
    method: &UsableMethod,
    claims: &Map<String, Value>,
    state: &impl BindingState,
) -> Result<Issued, LoginError> {
    let refused = |error: &dyn std::error::Error| LoginError::Claims(error.to_string());
    if method.config.verbose_logging {
        // Names alone: values may be secret.
        let names: Vec<_> = claims.keys().map(String::as_str).collect();
        tracing::info!(method = method.method.name, claims = ?names, "login");
    }
    let mapped = MappedClaims::of(claims, &method.config).map_err(|error| refused(&error))?;
    let rules = state.rules(&method.method.name);
    let rights = match bind(&rules, &mapped).map_err(|error| refused(&error))? {
        Bound::Management => Rights::Management,
        Bound::Client { policies, roles } => {
            let policies: Vec<_> = policies
                .into_iter()
                .filter(|name| state.has_policy(name))
                .collect();
            let roles: Vec<_> = roles
                .iter()
                .filter_map(|name| state.role_id(name))
                .collect();
            if policies.is_empty() && roles.is_empty() {
                return Err(LoginError::NothingBound);
            }
            Rights::Client { policies, roles }
        }
    };
    Ok(Issued {
        name: token_name(&method.method, &mapped).map_err(|error| refused(&error))?,
        rights,
        global: method.method.token_locality == TOKEN_GLOBAL,
        ttl: method.method.max_token_ttl,
    })
}
