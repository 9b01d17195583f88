//! The answer of a token endpoint (RFC 6749, sections 5.1 and 5.2).

use serde::Deserialize;

/// The longest text of a provider that an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// A successful exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenAnswer {
    /// The signed id token.
    pub id_token: String,
    /// The key to the user info; empty where there is none.
    pub access_token: String,
}

impl std::fmt::Debug for TokenAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Both open something.
        f.debug_struct("TokenAnswer").finish_non_exhaustive()
    }
}

/// Why an exchange yields no token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenAnswerError {
    /// The provider refused the code.
    #[error("the provider refused the code: {0}")]
    Refused(String),
    /// The answer is not JSON of the right shape.
    #[error("the token endpoint answered status {status} and no token")]
    Malformed {
        /// The status of the answer.
        status: u16,
    },
    /// There is no id token.
    #[error("the token endpoint answered without an id_token: the client needs the scope openid")]
    NoIdToken,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Document {
    id_token: Option<String>,
    access_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl TokenAnswer {
    /// Reads an answer. Texts of the provider are cut and freed of control characters.
    ///
    /// # Errors
    /// See [`TokenAnswerError`].
    pub fn parse(status: u16, bytes: &[u8]) -> Result<Self, TokenAnswerError> {
        let read: Document =
            serde_json::from_slice(bytes).map_err(|_| TokenAnswerError::Malformed { status })?;
        if let Some(error) = read.error {
            let words = match read.error_description {
                Some(words) => format!("{error}: {words}"),
                None => error,
            };
            let shown = words.chars().filter(|sign| !sign.is_control());
            let shown = shown.take(SHOWN_CHARS_MAX).collect();
            return Err(TokenAnswerError::Refused(shown));
        }
        if status != 200 {
            return Err(TokenAnswerError::Malformed { status });
        }
        let id_token = read.id_token.filter(|token| !token.is_empty());
        Ok(Self {
            id_token: id_token.ok_or(TokenAnswerError::NoIdToken)?,
            access_token: read.access_token.unwrap_or_default(),
        })
    }
}
