//! Base64, base32 and hexadecimal digits. A decoded text has to be UTF-8.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value;

pub(super) static FUNCTIONS: &[Function] = &[
    function("base64Encode", 1, 1, encode),
    function("base64Decode", 1, 1, decode),
    function("base64URLEncode", 1, 1, |call| {
        Ok(value::text(URL_SAFE.encode(call.text(0)?)))
    }),
    function("base64URLDecode", 1, 1, |call| {
        let text = unfolded(call.text(0)?);
        let bytes = URL_SAFE.decode(text);
        decoded(bytes.map_err(|error| format!("this is not URL-safe base64: {error}"))?)
    }),
    function("sprig_b64enc", 1, 1, encode),
    function("sprig_b64dec", 1, 1, decode),
    function("sprig_b32enc", 1, 1, |call| {
        Ok(value::text(base32(call.text(0)?.as_bytes())))
    }),
    function("sprig_b32dec", 1, 1, |call| {
        decoded(from_base32(call.text(0)?).ok_or("this is not base32")?)
    }),
];

fn encode(call: &Call<'_>) -> Answer {
    Ok(value::text(STANDARD.encode(call.text(0)?)))
}

fn decode(call: &Call<'_>) -> Answer {
    let bytes = STANDARD.decode(unfolded(call.text(0)?));
    decoded(bytes.map_err(|error| format!("this is not base64: {error}"))?)
}

/// Go's decoder skips line feeds.
fn unfolded(text: &str) -> String {
    text.replace(['\n', '\r'], "")
}

fn decoded(bytes: Vec<u8>) -> Answer {
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| "the decoded bytes are not UTF-8, so they are no text")?;
    Ok(value::text(text))
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(5) {
        let mut group = [0; 8];
        group[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(group);
        let digits = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = usize::try_from((bits >> (35 - 5 * index)) & 31).unwrap_or(0);
            text.push(if index < digits {
                char::from(BASE32[digit])
            } else {
                '='
            });
        }
    }
    text
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let text = unfolded(text);
    if !text.len().is_multiple_of(8) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 8 * 5);
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 6 {
        return None;
    }
    for chunk in digits.as_bytes().chunks(8) {
        let mut bits: u64 = 0;
        for index in 0..8 {
            let digit = match chunk.get(index) {
                None => 0,
                Some(byte) => BASE32.iter().position(|d| d == byte)?,
            };
            bits = bits << 5 | u64::try_from(digit).ok()?;
        }
        let group = bits.to_be_bytes();
        bytes.extend_from_slice(group.get(3..3 + chunk.len() * 5 / 8)?);
    }
    Some(bytes)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15];
    let digits = bytes.iter().flat_map(digits);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}
