//! Checks of a binding rule before it is stored. The texts are those that Nomad's users know.

use protocol_model::filter::{Filter, FilterError};
use protocol_model::{BIND_MANAGEMENT, BIND_POLICY, BIND_ROLE, BindingRule};

use super::is_acl_name;
use super::template::{NameTemplate, TemplateError};

/// The longest selector or bind name, in bytes.
pub const BINDING_TEXT_BYTES_MAX: usize = 4096;
/// The longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 256;

/// Why a binding rule is not stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindingRuleFault {
    /// It names no auth method.
    #[error("auth method is missing")]
    NoAuthMethod,
    /// It has no type.
    #[error("bind type is missing")]
    NoBindType,
    /// It has an unknown type.
    #[error("bind type {0:?} is unknown: use role, policy or management")]
    BindType(String),
    /// It binds a role or policy without a name.
    #[error("bind name is missing")]
    NoBindName,
    /// It binds management, which has no name.
    #[error("bind name should be empty")]
    BindName,
    /// Its name is no template.
    #[error("bind name is invalid: {0}")]
    Template(TemplateError),
    /// Its name refers to something other than a mapped value.
    #[error("bind name is invalid: ${{{0}}} is unknown: use ${{value.NAME}}")]
    Reference(String),
    /// Its name is no name, whatever the claims are.
    #[error(
        "bind name is invalid: {0:?} is no name: 1 to 128 letters, digits and hyphens are allowed"
    )]
    Name(String),
    /// Its selector is no expression.
    #[error("selector is invalid: {0}")]
    Selector(FilterError),
    /// Its description is too long.
    #[error("description longer than {DESCRIPTION_BYTES_MAX}")]
    Description,
    /// Its selector or bind name is too long.
    #[error("{field} has {found} bytes: at most {BINDING_TEXT_BYTES_MAX} are stored")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        found: usize,
    },
}

/// Every fault of a binding rule, its id and whether its auth method exists aside.
pub fn check_binding_rule(rule: &BindingRule) -> Vec<BindingRuleFault> {
    let mut faults = Vec::new();
    if rule.auth_method.is_empty() {
        faults.push(BindingRuleFault::NoAuthMethod);
    }
    if rule.description.len() > DESCRIPTION_BYTES_MAX {
        faults.push(BindingRuleFault::Description);
    }
    let texts = [("selector", &rule.selector), ("bind name", &rule.bind_name)];
    let too_long = texts
        .into_iter()
        .filter(|(_, text)| text.len() > BINDING_TEXT_BYTES_MAX);
    faults.extend(too_long.map(|(field, text)| BindingRuleFault::TooLong {
        field,
        found: text.len(),
    }));
    if !faults.is_empty() {
        return faults;
    }
    if !rule.selector.trim().is_empty()
        && let Err(error) = Filter::parse(&rule.selector)
    {
        faults.push(BindingRuleFault::Selector(error));
    }
    let has_name = !rule.bind_name.is_empty();
    match (rule.bind_type.as_str(), has_name) {
        ("", _) => faults.push(BindingRuleFault::NoBindType),
        (BIND_MANAGEMENT, true) => faults.push(BindingRuleFault::BindName),
        (BIND_ROLE | BIND_POLICY, false) => faults.push(BindingRuleFault::NoBindName),
        (BIND_ROLE | BIND_POLICY, true) => faults.extend(name_fault(&rule.bind_name)),
        (BIND_MANAGEMENT, false) => {}
        (other, _) => faults.push(BindingRuleFault::BindType(other.to_owned())),
    }
    faults
}

fn name_fault(name: &str) -> Option<BindingRuleFault> {
    let template = match NameTemplate::parse(name) {
        Ok(template) => template,
        Err(error) => return Some(BindingRuleFault::Template(error)),
    };
    let is_value = |reference: &&str| {
        let name = reference.strip_prefix("value.");
        name.is_some_and(|name| !name.is_empty())
    };
    if let Some(unknown) = template.references().find(|name| !is_value(name)) {
        return Some(BindingRuleFault::Reference(unknown.to_owned()));
    }
    // A claim of one letter stands for all: what is invalid around it stays invalid.
    let example = template.fill(|_| Some("x".to_owned())).unwrap_or_default();
    (!is_acl_name(&example)).then(|| BindingRuleFault::Name(name.to_owned()))
}
