//! Job specifications as they are sent: each is written once, however many nodes get it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use protocol_model::{Job, SpecHash};
use protocol_wire::compression::compress;

/// Specifications that are kept; what was written first goes first.
const KEPT_MAX: usize = 1024;
/// Their bytes, packed.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct SpecCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    packed: BTreeMap<SpecHash, Bytes>,
    /// In the order in which they were written.
    order: VecDeque<SpecHash>,
    bytes: usize,
}

impl SpecCache {
    /// The specification as JSON, packed. What a hash stands for never changes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn packed(&self, hash: SpecHash, spec: &Job) -> Result<Bytes, String> {
        if let Some(packed) = self.0.lock().packed.get(&hash) {
            return Ok(packed.clone());
        }
        // Not under the lock: two that write the same write the same bytes.
        let json = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
        let packed = Bytes::from(compress(&json).map_err(|error| error.to_string())?);
        self.0.lock().keep(hash, packed.clone());
        Ok(packed)
    }
}

impl Kept {
    fn keep(&mut self, hash: SpecHash, packed: Bytes) {
        let bytes = packed.len();
        if self.packed.insert(hash, packed).is_some() {
            return;
        }
        self.order.push_back(hash);
        self.bytes += bytes;
        while self.order.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            let gone = self.packed.remove(&oldest).map_or(0, |packed| packed.len());
            self.bytes -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> SpecHash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        SpecHash(hash)
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_large_ones() {
        let mut kept = Kept::default();
        for number in 0..=KEPT_MAX {
            kept.keep(hash(number), Bytes::from_static(b"12345678"));
        }
        assert_eq!(kept.packed.len(), KEPT_MAX);
        assert!(!kept.packed.contains_key(&hash(0)));
        assert_eq!(kept.bytes, 8 * KEPT_MAX);
        kept.keep(hash(9999), vec![0; KEPT_BYTES_MAX].into());
        assert_eq!(kept.packed.len(), 1);
        kept.keep(hash(9999), vec![0; KEPT_BYTES_MAX].into());
        assert_eq!((kept.order.len(), kept.bytes), (1, KEPT_BYTES_MAX));
    }
}
