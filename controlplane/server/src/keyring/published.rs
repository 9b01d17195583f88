//! The public halves of the root keys, for whoever verifies what the cluster signs.

use controlplane_state::Snapshot;
use protocol_access::published_keys::{PublishedKey, key_set};

/// The key set (JWKS) of a state: both public halves of every root key, as JSON. A key is in it
/// before it signs and for as long as it verifies. No KEK is needed.
pub(crate) fn jwks(snapshot: &Snapshot) -> Vec<u8> {
    let keys: Vec<_> = snapshot.root_keys().collect();
    let ids: Vec<String> = keys.iter().map(|key| key.id.to_string()).collect();
    key_set(keys.iter().zip(&ids).map(|(key, id)| PublishedKey {
        id,
        ed25519: &key.public_ed25519,
        rsa: &key.public_rsa,
    }))
}
