//! Names and descriptions of policies, roles and their like, as Nomad bounds them.

use std::fmt;

/// Longest name of a policy, a role, an auth method or a namespace, in characters.
pub const NAME_CHARS_MAX: usize = 128;

/// Longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 256;

/// Longest name of a token, in characters. It may hold any character.
pub const TOKEN_NAME_CHARS_MAX: usize = 256;

/// A name or description that cannot be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The name is not `^[a-zA-Z0-9-]{1,128}$`.
    Name(String),
    /// The description has more than [`DESCRIPTION_CHARS_MAX`] characters: so many.
    Description(usize),
    /// The name of a token has more than [`TOKEN_NAME_CHARS_MAX`] characters: so many.
    TokenName(usize),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                let shown: String = name.chars().take(NAME_CHARS_MAX + 1).collect();
                let shown = shown.replace(char::is_control, "\u{fffd}");
                write!(
                    f,
                    "invalid name '{shown}': it must match ^[a-zA-Z0-9-]{{1,128}}$"
                )
            }
            Self::Description(chars) => write!(
                f,
                "description longer than {DESCRIPTION_CHARS_MAX} characters: it has {chars}"
            ),
            Self::TokenName(chars) => write!(
                f,
                "token name too long: it has {chars} characters, at most {TOKEN_NAME_CHARS_MAX} are kept"
            ),
        }
    }
}

impl std::error::Error for NameError {}

/// Whether `name` is one for a policy, a role, an auth method or a namespace:
/// `^[a-zA-Z0-9-]{1,128}$`.
pub fn is_name(name: &str) -> bool {
    has_only(name, |byte| byte == b'-')
}

/// Checks the name of a policy, a role or an auth method.
///
/// # Errors
/// [`NameError::Name`].
pub fn check_name(name: &str) -> Result<(), NameError> {
    if is_name(name) {
        return Ok(());
    }
    Err(NameError::Name(name.to_owned()))
}

/// Checks the description of a policy, a role, an auth method or a binding rule.
///
/// # Errors
/// [`NameError::Description`].
pub fn check_description(description: &str) -> Result<(), NameError> {
    let chars = description.chars().count();
    if chars <= DESCRIPTION_CHARS_MAX {
        return Ok(());
    }
    Err(NameError::Description(chars))
}

/// Checks the name of a token, which may be empty.
///
/// # Errors
/// [`NameError::TokenName`].
pub fn check_token_name(name: &str) -> Result<(), NameError> {
    let chars = name.chars().count();
    if chars <= TOKEN_NAME_CHARS_MAX {
        return Ok(());
    }
    Err(NameError::TokenName(chars))
}

/// Whether a text has 1 to [`NAME_CHARS_MAX`] letters, digits and bytes that `also` allows.
pub(crate) fn has_only(text: &str, also: impl Fn(u8) -> bool) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || also(byte);
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_letters_digits_and_dashes() {
        let longest = "a".repeat(NAME_CHARS_MAX);
        for name in ["a", "Web-2", "-", &longest] {
            assert!(is_name(name), "{name}");
        }
        let too_long = "a".repeat(NAME_CHARS_MAX + 1);
        for name in ["", "a b", "a_b", "a*", "ä", "a\n", &too_long] {
            let error = check_name(name).expect_err("no name").to_string();
            assert!(error.contains("invalid name '"), "{error}");
        }
    }

    #[test]
    fn description_and_token_name_end_at_their_limits() {
        let longest = "ä".repeat(256);
        assert_eq!(check_description(&longest), Ok(()));
        assert_eq!(check_token_name(&longest), Ok(()));
        let longer = "ä".repeat(257);
        assert_eq!(check_description(&longer), Err(NameError::Description(257)));
        assert_eq!(check_token_name(&longer), Err(NameError::TokenName(257)));
    }
}
