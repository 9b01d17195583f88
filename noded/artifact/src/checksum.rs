//! Checksums of downloads: as jobs write them, computed as the bytes pass, and lists of them.

use std::fmt;

use aws_lc_rs::digest;
use md5::{Digest as _, Md5};

/// A file of sums is read into memory.
pub(crate) const SUMS_BYTES_MAX: u64 = 1024 * 1024;

/// Why a checksum cannot be used, or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// Neither `KIND:DIGITS` nor `file:URL` nor digits of a known length.
    #[error("checksum {text:?}: {problem}")]
    Malformed {
        /// As the job has it.
        text: String,
        /// Reason of the refusal.
        problem: &'static str,
    },
    /// The downloaded file has another sum.
    #[error("checksums did not match for {file}: expected {expected}, got {got}")]
    Mismatch {
        /// Name of the file.
        file: String,
        /// `KIND:DIGITS` of the job.
        expected: String,
        /// `KIND:DIGITS` of the file.
        got: String,
    },
    /// A file of sums has no line for the download.
    #[error("{sums} has no checksum of {file}")]
    NotListed {
        /// Where the sums are.
        sums: String,
        /// Name of the file.
        file: String,
    },
}

impl ChecksumError {
    pub(crate) fn is_recoverable(&self) -> bool {
        match self {
            Self::Malformed { .. } => false,
            Self::Mismatch { .. } | Self::NotListed { .. } => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512];

    fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A sum, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    kind: Kind,
    digits: String,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.digits)
    }
}

/// The value of `checksum`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// The sum itself.
    Sum(Sum),
    /// The URL of a file that lists it.
    ListedAt(String),
}

impl Checksum {
    pub(crate) fn parse(text: &str) -> Result<Self, ChecksumError> {
        let text = text.trim();
        let malformed = |problem| ChecksumError::Malformed {
            text: text.to_owned(),
            problem,
        };
        let Some((kind, digits)) = text.split_once(':') else {
            return of_length(text)
                .map(Self::Sum)
                .ok_or_else(|| malformed("write KIND:DIGITS with md5, sha1, sha256 or sha512"));
        };
        if kind == "file" {
            return Ok(Self::ListedAt(digits.to_owned()));
        }
        let kind = Kind::ALL
            .into_iter()
            .find(|known| known.name() == kind)
            .ok_or_else(|| malformed("its kind is none of md5, sha1, sha256, sha512, file"))?;
        if digits.len() != kind.digits() || !is_hexadecimal(digits) {
            return Err(malformed("it has not as many digits as its kind"));
        }
        Ok(Self::Sum(Sum {
            kind,
            digits: digits.to_ascii_lowercase(),
        }))
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A sum whose kind follows from its length.
fn of_length(digits: &str) -> Option<Sum> {
    let mut kinds = Kind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.digits() == digits.len() && is_hexadecimal(digits))?;
    Some(Sum {
        kind,
        digits: digits.to_ascii_lowercase(),
    })
}

/// Finds the sum of a file in a list: lines of `sha256sum` (`DIGITS  NAME`), of BSD
/// (`SHA256 (NAME) = DIGITS`), or one line of digits alone.
pub(crate) fn listed(list: &str, file: &str) -> Option<Sum> {
    let base = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    for line in list.lines().map(str::trim) {
        let bsd = line
            .split_once(" (")
            .and_then(|(_, rest)| rest.rsplit_once(") = "));
        if let Some((name, digits)) = bsd {
            if base(name) == file {
                return of_length(digits.trim());
            }
            continue;
        }
        let Some((digits, name)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let name = name.trim_start().trim_start_matches('*');
        if base(name) == file {
            return of_length(digits);
        }
    }
    let mut lines = list.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next()) {
        (Some(line), None) => of_length(line),
        _ => None,
    }
}

/// Computes a sum as bytes pass.
pub(crate) struct Digester {
    expected: Sum,
    state: State,
}

enum State {
    Md5(Md5),
    Sha(digest::Context),
}

impl Digester {
    pub(crate) fn new(expected: Sum) -> Self {
        let sha = |algorithm| State::Sha(digest::Context::new(algorithm));
        let state = match expected.kind {
            Kind::Md5 => State::Md5(Md5::new()),
            Kind::Sha1 => sha(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            Kind::Sha256 => sha(&digest::SHA256),
            Kind::Sha512 => sha(&digest::SHA512),
        };
        Self { expected, state }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Md5(state) => state.update(bytes),
            State::Sha(state) => state.update(bytes),
        }
    }

    /// Compares, at the end of the file of that name.
    pub(crate) fn finish(self, file: &str) -> Result<(), ChecksumError> {
        let digits = match self.state {
            State::Md5(state) => hexadecimal(&state.finalize()),
            State::Sha(state) => hexadecimal(state.finish().as_ref()),
        };
        let got = Sum {
            kind: self.expected.kind,
            digits,
        };
        if got == self.expected {
            return Ok(());
        }
        Err(ChecksumError::Mismatch {
            file: file.to_owned(),
            expected: self.expected.to_string(),
            got: got.to_string(),
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn checksum_is_read_with_its_kind_or_by_its_length() {
        let with = Checksum::parse(&format!("md5:{}", EMPTY_MD5.to_uppercase()));
        assert_eq!(with, Checksum::parse(EMPTY_MD5));
        assert_eq!(
            Checksum::parse("file:https://x/SUMS"),
            Ok(Checksum::ListedAt("https://x/SUMS".to_owned()))
        );
        for text in ["", "md5:12", "crc:12", "12", "sha1:zz"] {
            let error = Checksum::parse(text).expect_err(text);
            assert!(!error.is_recoverable(), "{error}");
        }
    }

    #[test]
    fn sums_of_empty_input_are_the_published_ones() {
        for (kind, digits) in [
            ("md5", EMPTY_MD5),
            ("sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (
                "sha256",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "sha512",
                "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                 47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            ),
        ] {
            let Ok(Checksum::Sum(sum)) = Checksum::parse(&format!("{kind}:{digits}")) else {
                panic!("{kind}");
            };
            assert_eq!(Digester::new(sum.clone()).finish("x"), Ok(()), "{kind}");
            let mut other = Digester::new(sum);
            other.update(b"x");
            let error = other.finish("file.txt").expect_err("another sum");
            let words = error.to_string();
            assert!(
                words.contains("file.txt") && words.contains(digits),
                "{words}"
            );
        }
    }

    #[test]
    fn list_of_sums_is_read_in_each_format() {
        for list in [
            format!("00000000000000000000000000000000  b.tar\n{EMPTY_MD5}  ./a.tar\n"),
            format!("{EMPTY_MD5} *a.tar\n"),
            format!("MD5 (x/a.tar) = {EMPTY_MD5}\n"),
            format!("{EMPTY_MD5}\n"),
        ] {
            let sum = listed(&list, "a.tar").expect(&list);
            assert_eq!(sum.digits, EMPTY_MD5, "{list}");
        }
        assert_eq!(listed(&format!("{EMPTY_MD5}  b.tar\n"), "a.tar"), None);
    }
}
