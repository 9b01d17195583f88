//! The name of a token that a login makes.

use protocol_model::{AuthMethod, TOKEN_NAME_FORMAT};

use crate::binding::{NameTemplate, TemplateError};
use crate::claims::MappedClaims;

/// Why a token has no name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the TokenNameFormat of the method cannot be filled: {0}")]
pub struct TokenNameError(TemplateError);

/// The name of a token of `method` for a login with `claims`: `TokenNameFormat`, filled.
///
/// # Errors
/// Where the format refers to a claim that the login does not have.
pub fn token_name(method: &AuthMethod, claims: &MappedClaims) -> Result<String, TokenNameError> {
    let format = match method.token_name_format.as_str() {
        "" => TOKEN_NAME_FORMAT,
        format => format,
    };
    let template = NameTemplate::parse(format).map_err(TokenNameError)?;
    let filled = template.fill(|reference| match reference {
        "auth_method_type" => Some(method.kind.clone()),
        "auth_method_name" => Some(method.name.clone()),
        other => claims.value.get(other.strip_prefix("value.")?).cloned(),
    });
    filled.map_err(TokenNameError)
}

/// Why a format is refused when its method is stored.
pub(super) fn format_fault(format: &str) -> Option<String> {
    let template = match NameTemplate::parse(format) {
        Ok(template) => template,
        Err(error) => return Some(error.to_string()),
    };
    let is_known = |reference: &&str| {
        matches!(*reference, "auth_method_type" | "auth_method_name")
            || reference
                .strip_prefix("value.")
                .is_some_and(|name| !name.is_empty())
    };
    let unknown = template
        .references()
        .find(|reference| !is_known(reference))?;
    Some(format!(
        "${{{unknown}}} is unknown: use ${{auth_method_type}}, ${{auth_method_name}} or \
         ${{value.NAME}}"
    ))
}
