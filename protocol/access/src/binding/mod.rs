//! Binding rules: mapped claims in, the rights of a token out.
//!
//! ```text
//!   rules --selector holds for the claims--> matching rules
//!       any of type management ------------> Management, the rest is dropped
//!       else: fill ${value.x}, check name -> Client { policies, roles }, by name
//! ```
//!
//! A name that is filled from a claim is a name of a role or policy, never the type of the right:
//! management comes from a rule's `BindType` alone.

mod check;
mod template;

use std::collections::BTreeSet;

use protocol_model::filter::Filter;
use protocol_model::{BIND_MANAGEMENT, BIND_POLICY, BIND_ROLE, BindingRule};

use crate::claims::MappedClaims;

pub use check::{BINDING_TEXT_BYTES_MAX, BindingRuleFault, check_binding_rule};
pub use template::{NameTemplate, TemplateError};

/// The rights that a login yields, by name. Whether the names exist is decided by the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// A management token.
    Management,
    /// A client token with these links. Both sets may be empty: then nothing is bound.
    Client {
        /// Names of policies.
        policies: BTreeSet<String>,
        /// Names of roles.
        roles: BTreeSet<String>,
    },
}

/// Why a login is refused by a rule that matches it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// The bind name refers to a claim that the login does not have.
    #[error("binding rule {rule}: the bind name cannot be filled: {source}")]
    Fill {
        /// The rule.
        rule: String,
        /// The reason.
        source: TemplateError,
    },
    /// The filled name is no name of a role or policy.
    #[error(
        "binding rule {rule}: the computed bind name {name:?} is no name: 1 to 128 letters, digits \
         and hyphens are allowed"
    )]
    Name {
        /// The rule.
        rule: String,
        /// The beginning of the name.
        name: String,
    },
    /// The rule binds no known kind of right.
    #[error("binding rule {rule}: unknown bind type {kind:?}")]
    Kind {
        /// The rule.
        rule: String,
        /// Its type.
        kind: String,
    },
}

/// The rights that `rules` give to a login with `claims`. A selector that cannot be evaluated
/// matches nothing.
///
/// # Errors
/// Where a rule matches and its name cannot be computed.
pub fn bind<'r>(
    rules: impl IntoIterator<Item = &'r BindingRule>,
    claims: &MappedClaims,
) -> Result<Bound, BindError> {
    let matching: Vec<_> = rules
        .into_iter()
        .filter(|rule| selects(&rule.selector, claims))
        .collect();
    if matching
        .iter()
        .any(|rule| rule.bind_type == BIND_MANAGEMENT)
    {
        return Ok(Bound::Management);
    }
    let (mut policies, mut roles) = (BTreeSet::new(), BTreeSet::new());
    for rule in matching {
        let names = match rule.bind_type.as_str() {
            BIND_POLICY => &mut policies,
            BIND_ROLE => &mut roles,
            kind => {
                return Err(BindError::Kind {
                    rule: rule.id.clone(),
                    kind: kind.to_owned(),
                });
            }
        };
        names.insert(bind_name(rule, claims)?);
    }
    Ok(Bound::Client { policies, roles })
}

fn selects(selector: &str, claims: &MappedClaims) -> bool {
    if selector.trim().is_empty() {
        return true;
    }
    let Ok(filter) = Filter::parse(selector) else {
        return false;
    };
    filter.keeps(claims).unwrap_or(false)
}

fn bind_name(rule: &BindingRule, claims: &MappedClaims) -> Result<String, BindError> {
    let wrong = |source| BindError::Fill {
        rule: rule.id.clone(),
        source,
    };
    let template = NameTemplate::parse(&rule.bind_name).map_err(wrong)?;
    let value = |name: &str| claims.value.get(name).map(|value| value.to_lowercase());
    let name = template.fill(|reference| value(reference.strip_prefix("value.")?));
    let name = name.map_err(wrong)?;
    if !is_acl_name(&name) {
        return Err(BindError::Name {
            rule: rule.id.clone(),
            name: name.chars().take(128).collect(),
        });
    }
    Ok(name)
}

/// Whether a policy, role or auth method may have this name: `^[a-zA-Z0-9-]{1,128}$`.
pub(crate) fn is_acl_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=128).contains(&name.len()) && name.bytes().all(is_allowed)
}
