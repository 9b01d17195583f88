//! What two servers have applied up to the same index is the same state, whatever became of them
//! since.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io::{self, Write};

use controlplane_state::Snapshot;

use super::Invariant;
use crate::eyes::{Observation, View};
use crate::net::Machine;

/// Indexes between two that are compared: to write a state out takes its time.
const EVERY: u64 = 4;

/// Per index, what the first server had.
#[derive(Debug, Default)]
pub(super) struct SameState {
    known: BTreeMap<u64, (Machine, u64)>,
}

/// A sink that keeps nothing but a hash.
struct Digest(std::hash::DefaultHasher);

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn digest(state: &Snapshot) -> Result<u64, String> {
    let mut digest = Digest(std::hash::DefaultHasher::new());
    state
        .write_checkpoint(&mut digest)
        .map_err(|error| error.to_string())?;
    Ok(digest.0.finish())
}

impl SameState {
    fn compare(&mut self, server: Machine, state: &Snapshot) -> Result<(), String> {
        let found = digest(state)?;
        let index = state.index();
        let (first, known) = *self.known.entry(index).or_insert((server, found));
        if known == found {
            return Ok(());
        }
        Err(format!(
            "s{server} has another state at index {index} than s{first} had"
        ))
    }
}

impl Invariant for SameState {
    fn name(&self) -> &'static str {
        "same_state"
    }

    fn source(&self) -> &'static str {
        "architecture, invariant 2: apply is a function of the log"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        match seen {
            Observation::Applied { server, after, .. }
                if after.index().is_multiple_of(EVERY) && after.index() > 0 =>
            {
                self.compare(*server, after)
            }
            Observation::Rested => {
                for (server, state) in view.states() {
                    self.compare(server, &state)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
