//! The log's index rises and the state's time never goes back, whatever proposers' clocks say.

use super::{Invariant, Observation};
use crate::world::World;

#[derive(Debug)]
pub(super) struct LogGoesOn;

impl Invariant for LogGoesOn {
    fn name(&self) -> &'static str {
        "log_goes_on"
    }

    fn source(&self) -> &'static str {
        "architecture, invariant 2: the proposer stamps, and state time never goes back"
    }

    fn on(&mut self, seen: &Observation<'_>, _: &World) -> Result<(), String> {
        let Observation::Applied { before, after, .. } = seen else {
            return Ok(());
        };
        if after.index() <= before.index() || after.now() < before.now() {
            return Err(format!(
                "from index {} at {:?} to {} at {:?}",
                before.index(),
                before.now(),
                after.index(),
                after.now()
            ));
        }
        Ok(())
    }
}
