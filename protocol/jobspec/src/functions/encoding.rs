//! Base64, JSON and URL encodings.

use super::arguments::{at, text};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("base64decode", Arity::exactly(1), base64_decode),
    function("base64encode", Arity::exactly(1), |context, a| {
        let body = text(a, 0)?;
        context.spend(body.len())?;
        Ok(Value::String(base64(body.as_bytes())))
    }),
    function("jsondecode", Arity::exactly(1), |context, a| {
        let body = text(a, 0)?;
        context.spend(body.len().saturating_mul(16))?;
        serde_json::from_str(&body)
            .map(Value::from_json)
            .map_err(|error| Failure::argument(0, format!("this is not JSON: {error}")))
    }),
    function("jsonencode", Arity::exactly(1), |_, a| {
        Ok(Value::String(at(a, 0).clone().into_json().to_string()))
    }),
    function("urlencode", Arity::exactly(1), |_, a| {
        Ok(Value::String(url_encode(&text(a, 0)?)))
    }),
];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard Base64 with padding (RFC 4648 §4).
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i > chunk.len() {
                out.push('=');
            } else {
                let index = (group >> (18 - 6 * i)) & 63;
                out.push(char::from(ALPHABET[index as usize]));
            }
        }
    }
    out
}

fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.as_bytes().chunks(4) {
        let mut group: u32 = 0;
        for digit in chunk {
            let value = ALPHABET.iter().position(|known| known == digit)?;
            group = group << 6 | u32::try_from(value).ok()?;
        }
        let missing = 4 - chunk.len();
        group <<= 6 * missing;
        let bytes = group.to_be_bytes();
        out.extend_from_slice(&bytes[1..4 - missing]);
    }
    Some(out)
}

fn base64_decode(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let bytes = base64_bytes(&text(arguments, 0)?)
        .ok_or_else(|| Failure::argument(0, "this is not Base64 with padding"))?;
    String::from_utf8(bytes)
        .map(Value::String)
        .map_err(|_| Failure::argument(0, "the decoded bytes are not UTF-8 text"))
}

/// Form encoding: letters, digits and `-_.~` stay, a space becomes `+`.
fn url_encode(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    for byte in body.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_test_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(base64_bytes(coded).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn broken_base64_is_refused() {
        for coded in ["Z", "Zg=", "Zg", "Z===", "Zm9v!", "====", "Z*=="] {
            assert_eq!(base64_bytes(coded), None, "{coded:?}");
        }
    }
}
