//! Checkpoints: the file as a whole, and its records behind compression and checksum.

use controlplane_state::checkpoint::inspect;
use controlplane_state::{State, invariants};

use crate::Verdict;

/// The bytes before a checkpoint's records: magic, version, an incarnation, the index.
const HEADER: [u8; 36] = {
    let mut header = [0; 36];
    let (magic, rest) = header.split_at_mut(8);
    magic.copy_from_slice(b"DROVERCP");
    rest[3] = 2;
    rest[4] = 7;
    rest[27] = 100;
    header
};

/// A file that somebody calls a checkpoint.
pub fn checkpoint(data: &[u8]) -> Verdict {
    let summary = inspect(data);
    let state = match State::restore(data) {
        Ok(state) => state,
        Err(error) => return Verdict::refused(&error),
    };
    let summary = summary.expect("what can be restored can be inspected");
    assert_eq!(summary.index, state.tables().index());
    let mut written = Vec::new();
    let tables = state.tables();
    tables
        .write_checkpoint(&mut written)
        .expect("it is written");
    let again = State::restore(written.as_slice()).expect("what was written is read");
    assert_eq!(invariants::difference(tables, again.tables()), None);
    Verdict::Understood
}

/// The records of a checkpoint, trailer included, with the header, the checksum and the compression
/// that make a whole file of them: damage that a checksum would hide, or that was meant.
pub fn checkpoint_records(data: &[u8]) -> Verdict {
    let mut records = data.to_vec();
    let checksum = crc32fast::hash(&[&HEADER[..], data].concat());
    records.extend(checksum.to_be_bytes());
    let compressed = zstd::bulk::compress(&records, 1).expect("bytes can be compressed");
    checkpoint(&[&HEADER[..], &compressed].concat())
}
