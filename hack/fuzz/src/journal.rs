//! The node's journal: records, and what a replay makes of them; its dynamic metadata.

use std::collections::BTreeMap;

use noded_core::journal::{compact, decode, encode, replay};
use noded_core::metadata::DynamicMeta;
use noded_daemon::journal::frames::{FramesError, MAGIC, Split, frame, split};

use crate::Verdict;

/// Records one after the other, each on a line of its own: the version byte, then JSON. What is no
/// record is left out; a daemon would stop there. Understood if there was any record.
pub fn journal(data: &[u8]) -> Verdict {
    let mut records = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        match decode(line) {
            Ok(record) => {
                let written = encode(&record).expect("what was read can be written");
                let again = decode(&written).expect("what was written is read");
                assert_eq!(again, record);
                records.push(record);
            }
            Err(error) => {
                Verdict::refused(&error);
            }
        }
    }
    if records.is_empty() {
        return Verdict::Refused("no record".to_owned());
    }
    let node = replay(records);
    assert_eq!(replay(compact(&node)), node, "compacting loses nothing");
    Verdict::Understood
}

/// The journal's file: frames with checksums around such records. Every byte is accounted for, and
/// what was read from a file without damage, framed again, is the file up to its torn tail.
pub fn journal_file(data: &[u8]) -> Verdict {
    match split(data) {
        Ok(Split {
            records,
            torn,
            damaged,
        }) => {
            assert!(records.iter().all(|record| !record.is_empty()));
            let framed: Vec<u8> = records.iter().flat_map(|record| frame(record)).collect();
            assert_eq!(data.len(), MAGIC.len() + framed.len() + damaged + torn);
            if damaged == 0 {
                assert_eq!(data[MAGIC.len()..data.len() - torn], framed);
            }
            Verdict::Understood
        }
        Err(error @ FramesError::Magic) => Verdict::refused(&error),
    }
}

/// The file of a node's dynamic metadata.
pub fn node_metadata(data: &[u8]) -> Verdict {
    match DynamicMeta::decode(data) {
        Ok(meta) => {
            assert_eq!(DynamicMeta::decode(&meta.encode()).as_ref(), Ok(&meta));
            let hidden = meta.clone().needed(&BTreeMap::new());
            assert_eq!(
                hidden.merged(&BTreeMap::new()),
                meta.merged(&BTreeMap::new())
            );
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}
