//! The public halves of the cluster's root keys on this node: they verify tokens of workloads.
//!
//! ```text
//!   data_dir/node/keys.json --open--> KeyStore <--KeysQuery (blocks until a change)-- server
//!                                        |
//!                                        `--> now(), changes(): the Task API verifies with them
//! ```
//!
//! The keys are public. The file lets a node verify tokens before its first session.

mod file;
mod follow;
mod jwk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_access::jwt::VerifyingKey;
use tokio::sync::watch;

pub use file::KeysFileError;
pub use follow::follow;
pub use jwk::{KeyMaterial, PublicKey};

/// Public keys that a node keeps: the cluster has at most 256 root keys, of two public halves each.
pub const KEYS_MAX: usize = 512;

/// The public keys of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicKeys {
    /// The index of the cluster's keys; 0 before there are any.
    pub index: u64,
    /// The issuer that the cluster's tokens name; empty where none is configured.
    pub issuer: String,
    /// The keys by their id (`kid`). A key of an algorithm that this release does not know is left
    /// out.
    pub keys: BTreeMap<String, PublicKey>,
    /// The document as the server sent it.
    jwks: serde_json::Value,
}

impl PublicKeys {
    /// The key of this name, to verify with.
    pub fn verifying(&self, kid: &str) -> Option<VerifyingKey> {
        let PublicKey { kid, material } = self.keys.get(kid)?;
        match material {
            KeyMaterial::Ed25519 { x } => VerifyingKey::named_ed25519(kid.clone(), x),
            KeyMaterial::Rsa { n, e } => VerifyingKey::named_rsa_numbers(kid.clone(), n, e),
        }
    }

    /// The keys of a JWKS document.
    ///
    /// # Errors
    /// Where it is no such document, or has more than [`KEYS_MAX`] keys.
    pub fn new(index: u64, issuer: String, jwks: serde_json::Value) -> Result<Self, String> {
        let keys = jwk::keys_of(&jwks)?;
        Ok(Self {
            index,
            issuer,
            keys,
            jwks,
        })
    }

    /// The keys of a file `keys.json`.
    ///
    /// # Errors
    /// Where the bytes are damaged, or of another version.
    pub fn from_file(bytes: &[u8]) -> Result<Self, String> {
        file::parse(bytes)
    }

    /// The bytes of their file.
    pub fn to_file(&self) -> Vec<u8> {
        file::bytes_of(self)
    }
}

/// The node's newest public keys.
#[derive(Debug)]
pub struct KeyStore {
    /// `None`: they are in memory only.
    directory: Option<PathBuf>,
    newest: watch::Sender<Arc<PublicKeys>>,
}

impl KeyStore {
    /// The keys that the file in `directory` has. A damaged file is logged and counts as absent:
    /// the server of the next session sends the keys again.
    pub fn open(directory: &Path) -> Self {
        let keys = match file::read(directory) {
            Ok(keys) => keys.unwrap_or_default(),
            Err(error) => {
                let error = protocol_error_chain::chain(&error);
                tracing::warn!(%error, "public keys on the disk are not used");
                PublicKeys::default()
            }
        };
        Self {
            directory: Some(directory.to_owned()),
            newest: watch::Sender::new(Arc::new(keys)),
        }
    }

    /// A store without a file.
    pub fn in_memory() -> Self {
        Self {
            directory: None,
            newest: watch::Sender::new(Arc::default()),
        }
    }

    /// The newest keys.
    pub fn now(&self) -> Arc<PublicKeys> {
        Arc::clone(&self.newest.borrow())
    }

    /// The newest keys, and each change of them.
    pub fn changes(&self) -> watch::Receiver<Arc<PublicKeys>> {
        self.newest.subscribe()
    }

    /// Takes in the keys that a server sent. Blocks on the disk.
    pub fn take(&self, keys: PublicKeys) {
        if let Some(directory) = &self.directory
            && *self.now() != keys
            && let Err(error) = file::write(directory, &keys)
        {
            let error = protocol_error_chain::chain(&error);
            tracing::warn!(%error, "public keys are not on the disk: the next start asks for them");
        }
        self.newest.send_if_modified(|newest| {
            let is_news = **newest != keys;
            if is_news {
                *newest = Arc::new(keys);
            }
            is_news
        });
    }
}
