//! Everything that the state's own checker asks of a whole state, after every command or every few.

use controlplane_state::invariants;

use super::{Invariant, Observation};
use crate::world::World;

/// Commands since the last look.
#[derive(Debug, Default)]
pub(super) struct StateHolds {
    since: u32,
}

impl Invariant for StateHolds {
    fn name(&self) -> &'static str {
        "state_holds"
    }

    fn source(&self) -> &'static str {
        "controlplane-state, invariants"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let state = match seen {
            Observation::Applied { after, .. } => {
                self.since += 1;
                if self.since < world.state_check_every {
                    return Ok(());
                }
                after
            }
            Observation::Rested => world.state(),
            _ => return Ok(()),
        };
        self.since = 0;
        match invariants::check(state).first() {
            None => Ok(()),
            Some(broken) => Err(broken.to_string()),
        }
    }
}
