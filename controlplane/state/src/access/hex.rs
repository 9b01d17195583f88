//! Bytes as hexadecimal text: in JSON, an array of numbers takes twice the room.

use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(
    bytes: &impl AsRef<[u8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(bytes.as_ref()))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
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

#[cfg(test)]
mod tests {
    use crate::access::Sealed;

    #[test]
    fn bytes_are_written_as_digits_and_other_texts_are_refused() {
        let sealed = Sealed {
            key: 3,
            nonce: [0x0f; 12],
            bytes: vec![0xa0, 1],
        };
        let json = serde_json::to_string(&sealed).expect("JSON");
        let nonce = "0f".repeat(12);
        assert_eq!(
            json,
            format!("{{\"key\":3,\"nonce\":\"{nonce}\",\"bytes\":\"a001\"}}")
        );
        assert_eq!(
            serde_json::from_str::<Sealed>(&json).expect("a value"),
            sealed
        );
        for wrong in ["a00", "a0g1", "a0+1", "ä0"] {
            let json = json.replace("a001", wrong);
            assert!(serde_json::from_str::<Sealed>(&json).is_err(), "{wrong}");
        }
        let short = json.replace(&nonce, "0f");
        let error = serde_json::from_str::<Sealed>(&short).expect_err("a short nonce");
        assert!(error.to_string().contains("1 bytes are too few or many"));
    }
}
