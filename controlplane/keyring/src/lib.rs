//! The keyring: the secrets of the replicated state are sealed here, and opened.
//!
//! ```text
//!  KEK (a file per key, outside log and snapshots)      32 bytes, id = first 8 of SHA-256(KEK)
//!    wraps   AES-256-GCM, aad = "drover-root-key/1" | root key id | KEK id
//!  root key: seed of 32 bytes and an RSA-2048 key       in the log and in checkpoints, wrapped
//!    HKDF-SHA256(seed, purpose)  "tokens/1" "logins/1" "methods/1" "variables/1"  -> AES-256-GCM
//!                                "ed25519/1"                        -> seed of the signing key
//! ```
//!
//! Entry points: [`Keyring`] (shared by all handlers: [`Keyring::seal`], [`Keyring::open`],
//! [`Keyring::sign`]), [`RootKey`] (made by a leader, wrapped for the log), [`FileKeks`] (the files
//! of one server), [`HostKeks`] (these, and KEKs that the host hands over).
//!
//! Inputs: KEKs from the disk or from another server, wrapped root keys from the state, nonces from
//! [`fresh_nonce`]. Outputs: sealed bytes, opened bytes, errors whose texts name the missing KEK.
//!
//! Key material is overwritten when it is dropped, and no type that holds it implements `Debug`.
//! aws-lc-rs does the cryptography.

mod error;
mod files;
mod first_key;
mod kek;
mod kek_file;
mod keyring;
mod purpose;
mod root_key;
mod sealed;
mod sign;
mod sources;
mod variables;
mod wrapped;

pub use controlplane_state::Sealed;
pub use error::KeyringError;
pub use files::{FileKeks, KekFileError, KekStore, LoadedKeks, MemoryKeks};
pub use first_key::{FirstKey, FirstKeyStep};
pub use kek::{Kek, KekId};
pub use kek_file::{KEK_FILE_BYTES_MAX, KekTextError};
pub use keyring::{Keyring, RootKeys};
pub use purpose::Purpose;
pub use root_key::{PublicHalves, RootKey, RootKeyError};
pub use sealed::{
    Nonce, SEAL_BYTES_MAX, SealedError, fresh_nonce, sealed_from_bytes, sealed_to_bytes,
};
pub use sign::TokenSigner;
pub use sources::{HostKeks, KekSource, WrappingKek};
pub use wrapped::WrappedRootKey;
