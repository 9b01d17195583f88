//! The replicated log: commands as they are written, what their proposers are told, and whole
//! histories.

use controlplane_state::codec::{decode, decode_applied, encode, encode_applied};
use controlplane_state::{State, invariants};

use crate::Verdict;

/// So many entries of a history are applied at most.
const ENTRIES_MAX: usize = 64;

/// One entry of the log.
pub fn log_entry(data: &[u8]) -> Verdict {
    let stamped = match decode(data) {
        Ok(stamped) => stamped,
        Err(error) => return Verdict::refused(&error),
    };
    let written = encode(&stamped).expect("what was read can be written");
    let again = decode(&written).expect("what was written is read");
    assert_eq!(again, stamped);
    Verdict::Understood
}

/// What a proposer on another server is told.
pub fn log_outcome(data: &[u8]) -> Verdict {
    let applied = match decode_applied(data) {
        Ok(applied) => applied,
        Err(error) => return Verdict::refused(&error),
    };
    let written = encode_applied(&applied).expect("what was read can be written");
    let again = decode_applied(&written).expect("what was written is read");
    assert_eq!(again, applied);
    Verdict::Understood
}

/// Entries one after the other, each behind its length (two bytes, big-endian), applied to an empty
/// state. An entry that is none is left out: a server would stop there, and the next is another
/// test. Understood if anything was applied.
pub fn log_history(data: &[u8]) -> Verdict {
    let mut state = State::new();
    let mut rest = data;
    let mut index = 0;
    while let Some((length, after)) = rest.split_first_chunk::<2>()
        && index < ENTRIES_MAX
    {
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (entry, after) = after.split_at(length);
        rest = after;
        let Ok(stamped) = decode(entry) else {
            continue;
        };
        index += 1;
        let applied = state.apply(index as u64, stamped);
        let written = encode_applied(&applied).expect("an outcome can be written");
        let again = decode_applied(&written).expect("what was written is read");
        assert_eq!(again.outcome, applied.outcome);
        let broken = invariants::check(state.tables());
        assert!(broken.is_empty(), "after entry {index}: {broken:?}");
    }
    if index == 0 {
        return Verdict::Refused("no entry".to_owned());
    }
    let mut bytes = Vec::new();
    let tables = state.tables();
    tables.write_checkpoint(&mut bytes).expect("it is written");
    let restored = State::restore(bytes.as_slice()).expect("what was written is read");
    assert_eq!(invariants::difference(tables, restored.tables()), None);
    Verdict::Understood
}
