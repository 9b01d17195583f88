//! The query of a source, from which a getter takes its parameters.

use std::collections::BTreeMap;

/// Names and values in their order: those of the URL first, then the options.
#[derive(Debug)]
pub(super) struct Parameters {
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    name: String,
    value: String,
    /// As the URL has it, or an option was encoded.
    raw: String,
}

impl Parameters {
    pub(super) fn new(query: &str, options: &BTreeMap<String, String>) -> Self {
        let of_url = query.split('&').filter(|raw| !raw.is_empty()).map(|raw| {
            let (name, value) = raw.split_once('=').unwrap_or((raw, ""));
            Pair {
                name: decode(name, Plus::Space),
                value: decode(value, Plus::Space),
                raw: raw.to_owned(),
            }
        });
        let of_options = options.iter().map(|(name, value)| Pair {
            name: name.clone(),
            value: value.trim().to_owned(),
            raw: format!("{}={}", encode(name), encode(value)),
        });
        Self {
            pairs: of_url.chain(of_options).collect(),
        }
    }

    /// Takes a parameter out; of several the first counts.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let found = self.pairs.iter().find(|pair| pair.name == name);
        let value = found.map(|pair| pair.value.clone());
        self.pairs.retain(|pair| pair.name != name);
        value
    }

    /// The query that is left for the server.
    pub(super) fn rest(&self) -> String {
        let raw: Vec<&str> = self.pairs.iter().map(|pair| pair.raw.as_str()).collect();
        raw.join("&")
    }
}

/// Whether `+` is a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    /// In a query.
    Space,
    /// In a path.
    Plus,
}

/// Replaces `%XX`; a stray percent sign stays. Bytes that are no UTF-8 become U+FFFD.
pub(crate) fn decode(text: &str, plus: Plus) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let digits = tail.first().zip(tail.get(1));
        let digits = digits.and_then(|(high, low)| Some((digit(*high)?, digit(*low)?)));
        match (first, digits) {
            (b'%', Some((high, low))) => {
                bytes.push(high * 16 + low);
                rest = &tail[2..];
            }
            (b'+', _) if plus == Plus::Space => bytes.push(b' '),
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Writes everything but RFC 3986's unreserved characters as `%XX`.
fn encode(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
            encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    encoded
}
