//! The text of a KEK file, version 1:
//!
//! ```text
//! drover-kek 1
//! 66687aadf862bd77
//! 0000000000000000000000000000000000000000000000000000000000000000
//! ```
//!
//! Format and version, the id, the key in hexadecimal digits; each line ends with a newline. The id
//! stands there so that a damaged key is found before it wraps anything.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::kek::{Kek, KekId, read_hex};

/// The longest text that is read as a KEK file. Version 1 has 95 bytes.
pub const KEK_FILE_BYTES_MAX: usize = 256;

const HEAD: &str = "drover-kek ";
const VERSION: &str = "1";

/// Why a text is no KEK file. No message holds any of the text, which may be half a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KekTextError {
    /// It is longer than [`KEK_FILE_BYTES_MAX`].
    #[error("longer than {KEK_FILE_BYTES_MAX} bytes: this is no KEK file")]
    TooLong,
    /// It does not begin as a KEK file.
    #[error("the first line is not `drover-kek 1`: this is no KEK file")]
    Format,
    /// A later release wrote it.
    #[error("a later release wrote this KEK file: this one reads `drover-kek 1`")]
    Version,
    /// The second line is no id.
    #[error("the second line is no KEK id (16 hexadecimal digits)")]
    Id,
    /// The third line is no key.
    #[error("the third line is no KEK (64 hexadecimal digits)")]
    Key,
    /// Something follows the key, or the last newline is missing.
    #[error("the KEK is not followed by one newline and the end of the file: it was cut or edited")]
    End,
    /// The id is not that of the key.
    #[error("KEK {stated} is named, but the key beside it is KEK {found}: the file is damaged")]
    Differs {
        /// The second line.
        stated: KekId,
        /// The id of the third line.
        found: KekId,
    },
}

impl Kek {
    /// The text of its file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(KEK_FILE_BYTES_MAX));
        // A String takes every write.
        let _ = write!(text, "{HEAD}{VERSION}\n{}\n", self.id());
        for byte in self.reveal() {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        text
    }

    /// The KEK in a file's text.
    ///
    /// # Errors
    /// See [`KekTextError`].
    pub fn from_text(text: &[u8]) -> Result<Self, KekTextError> {
        if text.len() > KEK_FILE_BYTES_MAX {
            return Err(KekTextError::TooLong);
        }
        let text = str::from_utf8(text).map_err(|_| KekTextError::Format)?;
        let mut lines = text.splitn(4, '\n');
        let version = lines.next().and_then(|line| line.strip_prefix(HEAD));
        match version {
            Some(VERSION) => {}
            Some(later) if is_number(later) => return Err(KekTextError::Version),
            _ => return Err(KekTextError::Format),
        }
        let stated: KekId = lines
            .next()
            .and_then(|line| line.parse().ok())
            .ok_or(KekTextError::Id)?;
        let mut key = Zeroizing::new([0; Self::BYTES]);
        let line = lines.next().ok_or(KekTextError::Key)?;
        read_hex(line, &mut *key).ok_or(KekTextError::Key)?;
        if lines.next() != Some("") {
            return Err(KekTextError::End);
        }
        let kek = Self::of(key);
        let found = kek.id();
        match found == stated {
            true => Ok(kek),
            false => Err(KekTextError::Differs { stated, found }),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KekId, KekTextError> {
        Kek::from_text(text.as_bytes()).map(|kek| kek.id())
    }

    #[test]
    fn a_kek_survives_its_file() {
        let kek = Kek::generate();
        let text = kek.to_text();
        let read = Kek::from_text(text.as_bytes()).expect("it was written so");
        assert_eq!(read.reveal(), kek.reveal());
    }

    #[test]
    fn a_text_that_was_cut_is_refused_at_every_length() {
        let text = Kek::generate().to_text();
        for length in 0..text.len() {
            assert!(read(&text[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        let good = Kek::from_slice(&[0; 32]).expect("32 bytes").to_text();
        let other = Kek::from_slice(&[1; 32]).expect("32 bytes").id();
        let cases = [
            (good.replace("kek 1", "key 1"), KekTextError::Format),
            (good.replace("kek 1", "kek 2"), KekTextError::Version),
            (good.replace("66687a", "6668zz"), KekTextError::Id),
            (good.replace("000\n", "00z\n"), KekTextError::Key),
            (format!("{}x", *good), KekTextError::End),
            (format!("{}\n", *good), KekTextError::End),
            (" ".repeat(257), KekTextError::TooLong),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text), Err(expected), "{text}");
        }
        let stated = "66687aadf862bd77".parse().expect("an id");
        let swapped = good.replace("66687aadf862bd77", &other.to_string());
        let expected = KekTextError::Differs {
            stated: other,
            found: stated,
        };
        assert_eq!(read(&swapped), Err(expected));
    }
}
