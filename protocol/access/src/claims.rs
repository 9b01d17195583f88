//! The claims of a login under the names that binding rules use.
//!
//! ```text
//!   ClaimMappings     {"email": "user", "/realm/name": "realm"}    -> value.user, value.realm
//!   ListClaimMappings {"groups": "groups"}                         -> list.groups
//! ```
//!
//! A claim is named by its key, or by a JSON pointer (RFC 6901) where the text begins with `/`.

use std::collections::BTreeMap;

use protocol_model::AuthMethodConfig;
use serde::Serialize;
use serde_json::{Map, Value};

/// The most elements of one list.
const LIST_LEN_MAX: usize = 2_000;

/// Why claims cannot be mapped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClaimMappingError {
    /// A value is a list or an object.
    #[error("the claim {0:?} is not a text, a number or a boolean")]
    Value(String),
    /// A list has an element that is a list or an object.
    #[error("the claim {0:?} is not a list of texts, numbers or booleans")]
    List(String),
    /// A list is too long.
    #[error("the claim {claim:?} has {found} elements: at most {LIST_LEN_MAX} are read")]
    TooLong {
        /// The claim.
        claim: String,
        /// Its length.
        found: usize,
    },
}

/// Mapped claims. Selectors read its JSON: `value.NAME`, `list.NAME`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MappedClaims {
    /// Single values, as text.
    pub value: BTreeMap<String, String>,
    /// Lists of values, as text.
    pub list: BTreeMap<String, Vec<String>>,
}

impl MappedClaims {
    /// Maps `claims` as `config` names them. A claim that is absent or `null` is left out.
    ///
    /// # Errors
    /// Where a claim is no plain value, or no list of them.
    pub fn of(
        claims: &Map<String, Value>,
        config: &AuthMethodConfig,
    ) -> Result<Self, ClaimMappingError> {
        let mut mapped = Self::default();
        for (claim, name) in &config.claim_mappings {
            let Some(found) = find(claims, claim) else {
                continue;
            };
            let text = plain(found).ok_or_else(|| ClaimMappingError::Value(claim.clone()))?;
            mapped.value.insert(name.clone(), text);
        }
        for (claim, name) in &config.list_claim_mappings {
            let Some(found) = find(claims, claim) else {
                continue;
            };
            mapped.list.insert(name.clone(), list(claim, found)?);
        }
        Ok(mapped)
    }
}

fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let found = match name.strip_prefix('/') {
        None => claims.get(name),
        Some(rest) => {
            // The first part is a key of the claims, the rest a pointer into its value.
            let (first, behind) = match rest.find('/') {
                None => (rest, ""),
                Some(at) => rest.split_at(at),
            };
            let key = first.replace("~1", "/").replace("~0", "~");
            claims.get(&key).and_then(|value| value.pointer(behind))
        }
    };
    found.filter(|value| !value.is_null())
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A list, or a plain value as a list of one: providers write both for a user with one group.
fn list(claim: &str, value: &Value) -> Result<Vec<String>, ClaimMappingError> {
    let wrong = || ClaimMappingError::List(claim.to_owned());
    let Value::Array(items) = value else {
        return Ok(vec![plain(value).ok_or_else(wrong)?]);
    };
    if items.len() > LIST_LEN_MAX {
        return Err(ClaimMappingError::TooLong {
            claim: claim.to_owned(),
            found: items.len(),
        });
    }
    items
        .iter()
        .map(|item| plain(item).ok_or_else(wrong))
        .collect()
}
