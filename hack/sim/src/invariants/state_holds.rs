//! Everything that the state's own checker asks of a whole state, after every command or every few.
//!
//! A look costs as much as the state has rows: the more there are, the rarer it is, so that looking
//! stays a small part of what a command costs. What is wrong with a state seldom mends itself: a
//! later look finds it, and a run that is told to look after every command says where it began.

use controlplane_state::{Tables, invariants};

use super::{Invariant, Observation};
use crate::world::World;

/// Allocations for which a look waits one more command.
const ALLOCS_PER_COMMAND: usize = 1;

/// Commands since the last look, and how many allocations it found.
#[derive(Debug, Default)]
pub(super) struct StateHolds {
    since: u32,
    allocs: usize,
}

impl StateHolds {
    fn is_due(&self, every: u32) -> bool {
        let rarer = u32::try_from(self.allocs / ALLOCS_PER_COMMAND).unwrap_or(u32::MAX);
        let wait = if every > 1 { every.max(rarer) } else { every };
        self.since >= wait
    }

    fn look(&mut self, state: &Tables) -> Result<(), String> {
        self.since = 0;
        self.allocs = state.allocs().count();
        match invariants::check(state).first() {
            None => Ok(()),
            Some(broken) => Err(broken.to_string()),
        }
    }
}

impl Invariant for StateHolds {
    fn name(&self) -> &'static str {
        "state_holds"
    }

    fn source(&self) -> &'static str {
        "controlplane-state, invariants"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied { after, .. } => {
                self.since += 1;
                if self.is_due(world.state_check_every) {
                    return self.look(after);
                }
                Ok(())
            }
            Observation::Rested => self.look(world.state()),
            _ => Ok(()),
        }
    }
}
