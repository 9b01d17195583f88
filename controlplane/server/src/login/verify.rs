//! A signed token and a method: the claims, once signature, time, issuer and audience are right.

use protocol_access::jwt::{ClaimRules, JwtError, UnverifiedJwt, VerifyingKey};
use protocol_access::method::signing_algorithms;
use protocol_model::UnixNanos;
use serde_json::{Map, Value};

use super::error::LoginError;
use super::fetch::Deadline;
use super::providers::Age;
use super::{Logins, UsableMethod};

impl Logins {
    /// The claims of a token by the rules of `method`. Nothing is fetched for a token that is
    /// malformed or signed with an algorithm that the method does not accept.
    ///
    /// # Errors
    /// [`LoginError::Token`] where the token is refused, [`LoginError::Provider`] where its keys
    /// cannot be had.
    pub(super) async fn verified(
        &self,
        token: &str,
        method: &UsableMethod,
        rules: &ClaimRules,
        now: UnixNanos,
        deadline: Deadline,
    ) -> Result<Map<String, Value>, LoginError> {
        let accepted = signing_algorithms(&method.config);
        let parse = || UnverifiedJwt::parse(token);
        // Refuses what no key could make good.
        match parse()?.signed_by(&[], &accepted) {
            Err(JwtError::UnknownKey(_) | JwtError::NoKey(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(JwtError::Signature.into()),
        }
        let claims = match configured_keys(method) {
            Some(keys) => parse()?.signed_by(&keys, &accepted)?,
            None => {
                let keys = |age| self.providers.keys(&self.fetcher, method, age, deadline);
                let kept = keys(Age::Kept).await?;
                match parse()?.signed_by(&kept, &accepted) {
                    // The provider may have changed its keys.
                    Err(JwtError::UnknownKey(_)) => {
                        parse()?.signed_by(&keys(Age::Newer).await?, &accepted)?
                    }
                    read => read?,
                }
            }
        };
        rules.check(&claims, now)?;
        Ok(claims)
    }
}

/// The keys of the configuration; `None` where the provider publishes them.
fn configured_keys(method: &UsableMethod) -> Option<Vec<VerifyingKey>> {
    let texts = &method.config.jwt_validation_pub_keys;
    if texts.is_empty() {
        return None;
    }
    let keys = texts
        .iter()
        .filter_map(|text| VerifyingKey::from_pem(text).ok());
    Some(keys.collect())
}
