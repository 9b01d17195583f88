//! Bytes as hexadecimal text: in JSON, an array of numbers takes twice the room.

use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(
    bytes: &impl AsRef<[u8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: TryFrom<Vec<u8>>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    let bytes = parse(&text).ok_or_else(|| D::Error::custom("not a text of hexadecimal digits"))?;
    let length = bytes.len();
    T::try_from(bytes).map_err(|_| D::Error::custom(format!("{length} bytes are too few or many")))
}

fn parse(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(byte).collect()
}
