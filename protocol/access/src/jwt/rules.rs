//! Rules that verified claims have to meet: time, issuer, audience.
//!
//! | claim | rule |
//! |---|---|
//! | `exp`, `nbf`, `iat` | one of them must be there; each is a number of seconds |
//! | no `exp` | it is the later one of `nbf` and `iat`, plus the expiration leeway |
//! | no `nbf` | it is `iat`, else `exp` minus the not-before leeway where one is set, else none |
//! | all three | compared with `now`, the leeway for clocks added in the token's favour |
//! | `iss`, `aud` | one of the bound ones, where any is bound |

use std::time::Duration;

use protocol_model::{AuthMethodConfig, UnixNanos, format_rfc3339};
use serde_json::{Map, Value};

/// The leeway of a derived `exp` where the configuration has 0. Ours: `nbf` is not derived then. A
/// token with `exp` alone is valid until then, where Nomad refuses it up to 150 s before.
const DERIVED_LEEWAY: Duration = Duration::from_secs(150);
/// The leeway for clocks that differ where the configuration has 0.
const CLOCK_LEEWAY: Duration = Duration::from_secs(60);

/// Rules about claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRules {
    /// Issuers of which one must be named; empty = any.
    pub issuers: Vec<String>,
    /// Audiences of which one must be named; empty = any.
    pub audiences: Vec<String>,
    /// See the table.
    pub expiration_leeway: Duration,
    /// See the table; `None` = a token with `exp` alone is valid from the start.
    pub not_before_leeway: Option<Duration>,
    /// See the table.
    pub clock_leeway: Duration,
}

/// Why claims are refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClaimError {
    /// A claim has the wrong type.
    #[error("the claim {0:?} is not {1}")]
    Type(&'static str, &'static str),
    /// No claim about time.
    #[error("the token has none of the claims \"exp\", \"nbf\" and \"iat\": one is needed")]
    NoTime,
    /// It is too late.
    #[error("the token expired at {0}")]
    Expired(String),
    /// It is too early.
    #[error("the token is not valid before {0}")]
    TooEarly(String),
    /// It was made in the future.
    #[error("the token was issued in the future, at {0}: compare the clocks")]
    IssuedLater(String),
    /// Its issuer is not bound.
    #[error("the issuer {found:?} is none of {bound:?}")]
    Issuer {
        /// The issuer of the token.
        found: String,
        /// The bound ones.
        bound: Vec<String>,
    },
    /// None of its audiences is bound.
    #[error("the audience {found:?} has none of {bound:?}")]
    Audience {
        /// The audiences of the token.
        found: Vec<String>,
        /// The bound ones.
        bound: Vec<String>,
    },
}

impl ClaimRules {
    /// The rules of an auth method.
    pub fn of(config: &AuthMethodConfig) -> Self {
        Self {
            issuers: config.bound_issuer.clone(),
            audiences: config.bound_audiences.clone(),
            expiration_leeway: config.expiration_leeway.or(DERIVED_LEEWAY),
            not_before_leeway: (config.not_before_leeway.0 != 0)
                .then(|| config.not_before_leeway.or(Duration::ZERO)),
            clock_leeway: config.clock_skew_leeway.or(CLOCK_LEEWAY),
        }
    }

    /// Whether `claims` are accepted at `now`.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub fn check(&self, claims: &Map<String, Value>, now: UnixNanos) -> Result<(), ClaimError> {
        self.check_times(claims, now)?;
        self.check_issuer(claims)?;
        self.check_audience(claims)
    }

    fn check_times(&self, claims: &Map<String, Value>, now: UnixNanos) -> Result<(), ClaimError> {
        let expires = time(claims, "exp")?;
        let begins = time(claims, "nbf")?;
        let issued = time(claims, "iat")?;
        let latest_start = begins.max(issued);
        let expires_at = match (expires, latest_start) {
            (Some(expires), _) => expires,
            (None, Some(start)) => start.saturating_add(self.expiration_leeway),
            (None, None) => return Err(ClaimError::NoTime),
        };
        let derived = self.not_before_leeway.map(|leeway| {
            let leeway = i64::try_from(leeway.as_nanos()).unwrap_or(i64::MAX);
            UnixNanos(expires_at.0.saturating_sub(leeway))
        });
        let begins_at = begins.or(issued).or(derived);
        let in_favour = now.saturating_add(self.clock_leeway);
        if expires_at.saturating_add(self.clock_leeway) <= now {
            return Err(ClaimError::Expired(format_rfc3339(expires_at)));
        }
        if let Some(begins_at) = begins_at.filter(|begins_at| in_favour < *begins_at) {
            return Err(ClaimError::TooEarly(format_rfc3339(begins_at)));
        }
        match issued {
            Some(issued) if in_favour < issued => {
                Err(ClaimError::IssuedLater(format_rfc3339(issued)))
            }
            _ => Ok(()),
        }
    }

    fn check_issuer(&self, claims: &Map<String, Value>) -> Result<(), ClaimError> {
        if self.issuers.is_empty() {
            return Ok(());
        }
        let found = match claims.get("iss") {
            None => "",
            Some(Value::String(issuer)) => issuer,
            Some(_) => return Err(ClaimError::Type("iss", "a text")),
        };
        if self.issuers.iter().any(|bound| bound == found) {
            return Ok(());
        }
        Err(ClaimError::Issuer {
            found: found.to_owned(),
            bound: self.issuers.clone(),
        })
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), ClaimError> {
        if self.audiences.is_empty() {
            return Ok(());
        }
        let wrong = ClaimError::Type("aud", "a text or a list of texts");
        let found: Vec<String> = match claims.get("aud") {
            None => Vec::new(),
            Some(Value::String(audience)) => vec![audience.clone()],
            Some(Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().ok_or(wrong)?
            }
            Some(_) => return Err(wrong),
        };
        if found
            .iter()
            .any(|audience| self.audiences.contains(audience))
        {
            return Ok(());
        }
        Err(ClaimError::Audience {
            found,
            bound: self.audiences.clone(),
        })
    }
}

/// A claim in seconds since the Unix epoch, perhaps with a fraction.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<UnixNanos>, ClaimError> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let wrong = ClaimError::Type(name, "a number of seconds");
    if let Some(seconds) = value.as_i64() {
        return Ok(Some(UnixNanos(seconds.saturating_mul(1_000_000_000))));
    }
    let seconds = value.as_f64().ok_or(wrong)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, as times do here"
    )]
    Ok(Some(UnixNanos((seconds * 1e9) as i64)))
}
