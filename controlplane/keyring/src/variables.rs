//! Items of variables, sealed for their place: they open at no other path, in no other namespace,
//! and as items of no other root key.

use controlplane_state::{Sealed, VariableKey};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::error::KeyringError;
use crate::keyring::Keyring;
use crate::purpose::Purpose;
use crate::sealed::Nonce;

/// The beginning of the associated data, version included. Fixed forever.
const LABEL: &[u8] = b"drover-variable/1";

impl Keyring {
    /// Seals the items of a variable with the active root key. `nonce` is a fresh one.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn seal_variable(
        &self,
        variable: &VariableKey,
        items: &[u8],
        nonce: Nonce,
    ) -> Result<Sealed, KeyringError> {
        self.seal_at(Purpose::Variables, |id| place(id, variable), items, nonce)
    }

    /// Opens the items of a variable.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn open_variable(
        &self,
        variable: &VariableKey,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
        self.open_at(Purpose::Variables, |id| place(id, variable), sealed)
    }
}

/// The associated data: the label, then the root key's id, the namespace and the path, each behind
/// its length (4 bytes, the highest first). Without the lengths `a` + `b/c` would be `a/b` + `c`.
fn place(root_key: Uuid, variable: &VariableKey) -> Vec<u8> {
    let VariableKey { namespace, path } = variable;
    let mut all = LABEL.to_vec();
    for part in [
        root_key.as_bytes().as_slice(),
        namespace.as_bytes(),
        path.as_bytes(),
    ] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        all.extend_from_slice(&length.to_be_bytes());
        all.extend_from_slice(part);
    }
    all
}
