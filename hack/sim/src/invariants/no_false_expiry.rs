//! A node that is well, in a cluster that is well, is never taken for silent, however much its
//! packets are lost and late within what is promised.

use super::{Invariant, Observation, taken_in};
use crate::world::World;

#[derive(Debug)]
pub(super) struct NoFalseExpiry;

impl Invariant for NoFalseExpiry {
    fn name(&self) -> &'static str {
        "no_false_expiry"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Liveness: no false positives"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        for node in taken_in(seen) {
            if world.is_falsely_silent(node) {
                return Err(format!("n{node} is well and taken for silent"));
            }
        }
        Ok(())
    }
}
