//! The credential that a request shows.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use controlplane_state::Digest;
use uuid::Uuid;

use crate::gateway;

/// The longest credential in bytes. A signed token of ours has about 600.
const CREDENTIAL_BYTES_MAX: usize = 8 * 1024;

/// A credential that was read, not yet known to be valid. A secret is kept as its digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Credential {
    /// The request shows none.
    Absent,
    /// A token's secret.
    Secret(Digest),
    /// A signed token of a workload.
    Workload(ShownIdentity),
    /// Text that no credential of this release looks like.
    Malformed,
}

/// A signed token that a request shows. `Debug` does not.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ShownIdentity {
    pub(super) digest: Digest,
    pub(super) token: Arc<str>,
}

impl ShownIdentity {
    /// Three parts with dots between them.
    fn parse(text: &[u8]) -> Option<Self> {
        let dots = text.iter().filter(|byte| **byte == b'.').count();
        let token = str::from_utf8(text).ok().filter(|_| dots == 2)?;
        Some(Self {
            digest: gateway::digest(text),
            token: token.into(),
        })
    }
}

impl fmt::Debug for ShownIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, token: _ } = self;
        f.debug_struct("ShownIdentity")
            .field("digest", digest)
            .finish_non_exhaustive()
    }
}

/// A request whose headers contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// One header twice, with two values.
    #[error("the request has the header {0} twice, with different values")]
    Contradicting(&'static str),
}

impl Credential {
    /// The credential of a request: `X-Nomad-Token`, else `Authorization: Bearer`. An empty value
    /// and another scheme are none.
    ///
    /// # Errors
    /// If a header occurs twice with different values.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, CredentialError> {
        let token = header(headers, "x-nomad-token")?.unwrap_or_default();
        if !token.is_empty() {
            return Ok(Self::parse(token));
        }
        let authorization = header(headers, "authorization")?.unwrap_or_default();
        let text = authorization.trim_ascii();
        let Some((scheme, rest)) = split_scheme(text) else {
            return Ok(Self::Absent);
        };
        if !scheme.eq_ignore_ascii_case(b"bearer") || rest.is_empty() {
            return Ok(Self::Absent);
        }
        Ok(Self::parse(rest))
    }

    /// The credential that a text is.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Self::Absent;
        }
        if text.len() > CREDENTIAL_BYTES_MAX {
            return Self::Malformed;
        }
        if let Some(shown) = ShownIdentity::parse(text) {
            return Self::Workload(shown);
        }
        let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
        if !hyphenated || Uuid::try_parse_ascii(text).is_err() {
            return Self::Malformed;
        }
        // Found by digest: no time that a comparison takes tells how much of a secret is right.
        Self::Secret(gateway::digest(text))
    }
}

fn split_scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..space], text[space..].trim_ascii()))
}

fn header<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a [u8]>, CredentialError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes());
    if values.any(|other| Some(other.as_bytes()) != first) {
        return Err(CredentialError::Contradicting(name));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "11111111-2222-3333-4444-555555555555";

    fn of(headers: &[(&'static str, &str)]) -> Result<Credential, CredentialError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        Credential::of(&map)
    }

    #[test]
    fn a_secret_is_taken_from_either_header() {
        let secret = Credential::Secret(gateway::digest(SECRET.as_bytes()));
        for headers in [
            [("x-nomad-token", SECRET)].as_slice(),
            &[("authorization", &format!("Bearer {SECRET}"))],
            &[("authorization", &format!("bEARER  {SECRET} "))],
            &[
                ("x-nomad-token", ""),
                ("authorization", &format!("Bearer {SECRET}")),
            ],
            &[("x-nomad-token", SECRET), ("authorization", "Bearer other")],
            &[("x-nomad-token", SECRET), ("x-nomad-token", SECRET)],
        ] {
            assert_eq!(of(headers), Ok(secret.clone()), "{headers:?}");
        }
    }

    #[test]
    fn another_scheme_is_no_credential() {
        for value in ["Basic abc", "Bearer", "Bearer ", ""] {
            assert_eq!(
                of(&[("authorization", value)]),
                Ok(Credential::Absent),
                "{value:?}"
            );
        }
        assert_eq!(of(&[]), Ok(Credential::Absent));
    }

    #[test]
    fn other_texts_are_malformed() {
        let long = "a".repeat(CREDENTIAL_BYTES_MAX + 1);
        let short = SECRET.replace('-', "");
        for value in [
            "nonsense",
            &long,
            &short,
            "{11111111-2222-3333-4444-555555555555}",
        ] {
            assert_eq!(
                of(&[("x-nomad-token", value)]),
                Ok(Credential::Malformed),
                "{value}"
            );
        }
    }

    #[test]
    fn text_of_three_parts_is_a_workload_token_that_debug_hides() {
        let found = of(&[("authorization", "Bearer eyJ.secret.sig")]).expect("one header");
        assert!(matches!(&found, Credential::Workload(shown) if &*shown.token == "eyJ.secret.sig"));
        assert!(!format!("{found:?}").contains("secret"));
        for value in ["a.b", "a.b.c.d", "a..b.c"] {
            assert_eq!(of(&[("x-nomad-token", value)]), Ok(Credential::Malformed));
        }
        let long = format!("a.{}.c", "b".repeat(CREDENTIAL_BYTES_MAX));
        assert_eq!(of(&[("x-nomad-token", &long)]), Ok(Credential::Malformed));
    }

    #[test]
    fn two_different_values_of_one_header_are_refused() {
        let error = of(&[("x-nomad-token", SECRET), ("x-nomad-token", "other")]);
        assert_eq!(error, Err(CredentialError::Contradicting("x-nomad-token")));
    }
}
