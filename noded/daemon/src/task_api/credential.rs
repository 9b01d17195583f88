//! The credential of a request, read as servers read it.

use hyper::HeaderMap;
use noded_core::task_api::TokenDigest;
use sha2::{Digest as _, Sha256};

/// The longest credential in bytes, as servers have it.
const CREDENTIAL_BYTES_MAX: usize = 8 * 1024;

/// The credential of a request, not judged yet. It has no `Debug`, which would show the token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Credential<'a> {
    /// There is none.
    Absent,
    /// Text that no credential of any release looks like.
    Malformed,
    /// The secret of an ACL token.
    Secret(TokenDigest),
    /// A workload token: three parts with dots between.
    Workload(TokenDigest, &'a str),
}

/// The credential that a request shows: `X-Nomad-Token`, else `Authorization: Bearer`.
///
/// # Errors
/// The text of a 400, where one header occurs twice with different values.
pub(super) fn of(headers: &HeaderMap) -> Result<Credential<'_>, &'static str> {
    let token = value(headers, "x-nomad-token")
        .ok_or("the request has the header x-nomad-token twice, with different values")?;
    if !token.is_empty() {
        return Ok(parse(token));
    }
    let authorization = value(headers, "authorization")
        .ok_or("the request has the header authorization twice, with different values")?;
    let bytes = authorization.trim_ascii();
    let Some(space) = bytes.iter().position(|byte| *byte == b' ') else {
        return Ok(Credential::Absent);
    };
    let (scheme, rest) = bytes.split_at(space);
    match scheme.eq_ignore_ascii_case(b"bearer") {
        true => Ok(parse(rest)),
        false => Ok(Credential::Absent),
    }
}

/// The one value of a header, empty without one; `None` where it has two.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes());
    let first = values.next().unwrap_or_default();
    values.all(|other| other == first).then_some(first)
}

fn parse(text: &[u8]) -> Credential<'_> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Credential::Absent;
    }
    if text.len() > CREDENTIAL_BYTES_MAX {
        return Credential::Malformed;
    }
    let dots = text.iter().filter(|byte| **byte == b'.').count();
    if let Some(token) = str::from_utf8(text).ok().filter(|_| dots == 2) {
        return Credential::Workload(Sha256::digest(text).into(), token);
    }
    let is_hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    match is_hyphenated && uuid::Uuid::try_parse_ascii(text).is_ok() {
        true => Credential::Secret(Sha256::digest(text).into()),
        false => Credential::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "11111111-2222-3333-4444-555555555555";

    /// Headers, and the credential that they show.
    fn check(headers: &[(&'static str, &str)], expected: Option<Credential<'_>>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        assert!(of(&map).ok() == expected, "{headers:?}");
    }

    #[test]
    fn credentials_are_read_as_servers_read_them() {
        let absent = Some(Credential::Absent);
        let malformed = Some(Credential::Malformed);
        let secret = Some(Credential::Secret(Sha256::digest(SECRET).into()));
        let token = Some(Credential::Workload(
            Sha256::digest("a.b.c").into(),
            "a.b.c",
        ));
        let bearer = format!("bEARER  {SECRET} ");
        check(&[], absent);
        check(&[("x-nomad-token", "")], absent);
        check(&[("authorization", "Basic abc")], absent);
        check(&[("authorization", "Bearer")], absent);
        check(&[("x-nomad-token", SECRET)], secret);
        check(&[("authorization", bearer.as_str())], secret);
        let both = [("x-nomad-token", SECRET), ("authorization", "Bearer x")];
        check(&both, secret);
        check(
            &[("x-nomad-token", SECRET), ("x-nomad-token", SECRET)],
            secret,
        );
        check(&[("authorization", "Bearer a.b.c")], token);
        check(&[("authorization", "Bearer made-up")], malformed);
        check(&[("x-nomad-token", "a.b.c.d")], malformed);
        check(&[("x-nomad-token", SECRET), ("x-nomad-token", "b")], None);
    }

    #[test]
    fn a_credential_longer_than_any_is_invalid() {
        let long = format!("{}.b.c", "a".repeat(CREDENTIAL_BYTES_MAX));
        assert!(parse(long.as_bytes()) == Credential::Malformed);
    }
}
