//! Proofs of requests for KEKs that this server sent and that are not answered yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_raft::ServerId;
use parking_lot::Mutex;
use uuid::Uuid;

/// Pending proofs, each for the one server that was asked. There are as many as requests under
/// way: one a member, and their number is limited by the log. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Proofs {
    pending: Arc<Mutex<BTreeMap<[u8; 16], ServerId>>>,
}

/// A pending proof; it proves nothing any more once this is dropped.
#[derive(Debug)]
pub(super) struct Proof {
    bytes: [u8; 16],
    proofs: Proofs,
}

impl Proofs {
    /// A new proof of a request to the server `asked`.
    pub(super) fn begin(&self, asked: ServerId) -> Proof {
        let bytes = Uuid::new_v4().into_bytes();
        self.pending.lock().insert(bytes, asked);
        Proof {
            bytes,
            proofs: self.clone(),
        }
    }

    /// Whether a request with this proof to the server `asked` is under way. A proof of a request
    /// to another server is none: that server could show it around.
    pub(super) fn is_pending(&self, proof: &[u8], asked: u64) -> bool {
        let Ok(proof) = <[u8; 16]>::try_from(proof) else {
            return false;
        };
        let pending = self.pending.lock();
        pending.get(&proof) == Some(&ServerId::from_u64(asked))
    }
}

impl Proof {
    /// The bytes to send.
    pub(super) fn bytes(&self) -> &[u8; 16] {
        &self.bytes
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.proofs.pending.lock().remove(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_holds_for_the_asked_server_while_its_request_is_under_way() {
        let proofs = Proofs::default();
        let proof = proofs.begin(ServerId::from_u64(2));
        let other = proofs.begin(ServerId::from_u64(3));
        assert_ne!(proof.bytes(), other.bytes());
        assert!(proofs.is_pending(proof.bytes(), 2));
        assert!(!proofs.is_pending(proof.bytes(), 3), "of another server");
        assert!(!proofs.is_pending(&[0; 16], 2), "none was sent with it");
        assert!(!proofs.is_pending(&[], 2), "a request without a proof");
        let bytes = *proof.bytes();
        drop(proof);
        assert!(!proofs.is_pending(&bytes, 2), "the request has ended");
        assert!(proofs.is_pending(other.bytes(), 3));
    }
}
