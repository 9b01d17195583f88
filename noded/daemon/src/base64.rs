//! Base64 (RFC 4648, padded), as the API carries dispatched payloads.

/// The bytes behind a text; `None` where it is not base64. Line breaks are passed over.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let letters: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    if !letters.len().is_multiple_of(4) {
        return None;
    }
    let padding = letters
        .iter()
        .rev()
        .take_while(|letter| **letter == b'=')
        .count();
    if padding > 2 {
        return None;
    }
    let digits = &letters[..letters.len() - padding];
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits: u32 = 0;
        for letter in group {
            bits = bits << 6 | u32::from(digit(*letter)?);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        for (text, expected) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9v\nYmFy", "foobar"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(expected.as_bytes()), "{text}");
        }
        for text in ["Z", "Zg=", "Z===", "Zm9*", "Zg==Zg=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
