//! `keys.json`: the public keys on the disk, version 1.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PublicKeys;
use crate::identity::write_durably;

const FILE: &str = "keys.json";
/// The version that this release writes and reads.
const VERSION: u32 = 1;
/// A larger file is none of ours: 256 RSA keys of 8,192 bits are 400 KiB.
const BYTES_MAX: u64 = 1024 * 1024;

/// Why a file of public keys is not used.
#[derive(Debug, thiserror::Error)]
pub enum KeysFileError {
    /// It cannot be read or written.
    #[error("{operation} {}", .path.display())]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is damaged, or another release wrote it.
    #[error("{} is no file of public keys, version {VERSION}: {problem}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    index: u64,
    issuer: String,
    jwks: serde_json::Value,
}

/// The keys in `directory`; `None` where none were written.
pub(super) fn read(directory: &Path) -> Result<Option<PublicKeys>, KeysFileError> {
    let path = directory.join(FILE);
    let bytes = match read_bounded(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let operation = "reading";
            return Err(KeysFileError::Io {
                operation,
                path,
                source,
            });
        }
    };
    parse(&bytes)
        .map(Some)
        .map_err(|problem| KeysFileError::Damaged { path, problem })
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    io::Read::read_to_end(&mut io::Read::take(file, BYTES_MAX), &mut bytes)?;
    Ok(bytes)
}

pub(super) fn write(directory: &Path, keys: &PublicKeys) -> Result<(), KeysFileError> {
    write_durably(directory, FILE, &bytes_of(keys)).map_err(|source| KeysFileError::Io {
        operation: "writing",
        path: directory.join(FILE),
        source,
    })
}

pub(super) fn bytes_of(keys: &PublicKeys) -> Vec<u8> {
    let file = serde_json::json!({
        "version": VERSION,
        "index": keys.index,
        "issuer": keys.issuer,
        "jwks": keys.jwks,
    });
    file.to_string().into_bytes()
}

pub(super) fn parse(bytes: &[u8]) -> Result<PublicKeys, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if file.version != VERSION {
        return Err(format!("its version is {}", file.version));
    }
    PublicKeys::new(file.index, file.issuer, file.jwks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROZEN: &[u8] = include_bytes!("../../tests/golden/v1/keys.bin");

    fn sample() -> PublicKeys {
        let jwks = serde_json::json!({"keys": [{
            "alg": "EdDSA", "crv": "Ed25519", "kid": "9f1c3a52-0000-4000-8000-000000000001",
            "kty": "OKP", "use": "sig", "x": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc",
        }]});
        PublicKeys::new(42, "https://drover.example".to_owned(), jwks).unwrap()
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        assert_eq!(
            String::from_utf8_lossy(&bytes_of(&sample())),
            String::from_utf8_lossy(FROZEN).trim_end()
        );
        assert_eq!(parse(FROZEN), Ok(sample()));
    }

    #[test]
    fn keys_are_read_as_they_were_written_and_damage_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), None);
        write(directory.path(), &sample()).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(sample()));
        for text in [
            "",
            "{}",
            r#"{"version":2,"index":1,"issuer":"","jwks":{"keys":[]}}"#,
        ] {
            std::fs::write(directory.path().join(FILE), text).unwrap();
            let error = read(directory.path()).unwrap_err();
            assert!(matches!(error, KeysFileError::Damaged { .. }), "{error}");
        }
    }
}
