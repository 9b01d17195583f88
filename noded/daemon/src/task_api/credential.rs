//! The credential of a request, as far as the node can judge it alone.

use hyper::HeaderMap;
use noded_core::task_api::Shown;
use sha2::{Digest as _, Sha256};

/// The longest credential in bytes, as servers have it.
const CREDENTIAL_BYTES_MAX: usize = 8 * 1024;

/// The credential that a request shows: `X-Nomad-Token`, else `Authorization: Bearer`.
///
/// # Errors
/// The text of a 400, where one header occurs twice with different values.
pub(super) fn of(headers: &HeaderMap) -> Result<Shown, &'static str> {
    let token = value(headers, "x-nomad-token")
        .ok_or("the request has the header x-nomad-token twice, with different values")?;
    if !token.is_empty() {
        return Ok(parse(token));
    }
    let authorization = value(headers, "authorization")
        .ok_or("the request has the header authorization twice, with different values")?;
    let bytes = authorization.trim_ascii();
    let Some(space) = bytes.iter().position(|byte| *byte == b' ') else {
        return Ok(Shown::Nothing);
    };
    let (scheme, rest) = bytes.split_at(space);
    match scheme.eq_ignore_ascii_case(b"bearer") {
        true => Ok(parse(rest)),
        false => Ok(Shown::Nothing),
    }
}

/// The one value of a header, empty without one; `None` where it has two.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes());
    let first = values.next().unwrap_or_default();
    values.all(|other| other == first).then_some(first)
}

/// A secret is a UUID, and a workload token three parts with dots between. Other texts are no
/// credential of any release.
fn parse(text: &[u8]) -> Shown {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Shown::Nothing;
    }
    let is_secret =
        text.len() == uuid::fmt::Hyphenated::LENGTH && uuid::Uuid::try_parse_ascii(text).is_ok();
    let is_token = text.iter().filter(|byte| **byte == b'.').count() == 2;
    if text.len() > CREDENTIAL_BYTES_MAX || !(is_secret || is_token) {
        return Shown::Invalid;
    }
    Shown::Token(Sha256::digest(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "11111111-2222-3333-4444-555555555555";

    fn of_headers(headers: &[(&'static str, &str)]) -> Result<Shown, &'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        of(&map)
    }

    #[test]
    fn credentials_are_read_as_servers_read_them() {
        let secret = Shown::Token(Sha256::digest(SECRET).into());
        let bearer = format!("bEARER  {SECRET} ");
        let token = Shown::Token(Sha256::digest("a.b.c").into());
        for (headers, expected) in [
            (vec![], Shown::Nothing),
            (vec![("x-nomad-token", "")], Shown::Nothing),
            (vec![("authorization", "Basic abc")], Shown::Nothing),
            (vec![("authorization", "Bearer")], Shown::Nothing),
            (vec![("x-nomad-token", SECRET)], secret),
            (vec![("authorization", bearer.as_str())], secret),
            (
                vec![("x-nomad-token", SECRET), ("authorization", "Bearer x")],
                secret,
            ),
            (
                vec![("x-nomad-token", SECRET), ("x-nomad-token", SECRET)],
                secret,
            ),
            (vec![("authorization", "Bearer a.b.c")], token),
            (vec![("authorization", "Bearer made-up")], Shown::Invalid),
            (vec![("x-nomad-token", "a.b.c.d")], Shown::Invalid),
        ] {
            assert_eq!(of_headers(&headers), Ok(expected), "{headers:?}");
        }
        of_headers(&[("x-nomad-token", SECRET), ("x-nomad-token", "b")]).expect_err("two");
    }

    #[test]
    fn a_credential_longer_than_any_is_invalid() {
        let long = format!("{}.b.c", "a".repeat(CREDENTIAL_BYTES_MAX));
        assert_eq!(parse(long.as_bytes()), Shown::Invalid);
    }
}
