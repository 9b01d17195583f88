//! Of a group that stops itself when it is not heard, at most one instance lives at once.

use protocol_model::ClientStatus;

use super::{Invariant, Observation};
use crate::schedule::jobs::Kind;
use crate::world::World;

#[derive(Debug)]
pub(super) struct OneLeased;

impl Invariant for OneLeased {
    fn name(&self) -> &'static str {
        "one_leased"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, physically at most one runs"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        if world.kind_of(run.alloc) != Some(Kind::Leased) {
            return Ok(());
        }
        let Some(own) = world.state().alloc(run.alloc) else {
            return Ok(());
        };
        // An instance is known by what it replaces: an allocation's predecessor must have ended.
        let Some(previous) = own.previous_allocation else {
            return Ok(());
        };
        // Where the predecessor's node was told to stop it, both may overlap; where the control
        // plane gave it up by itself, only the lease keeps them apart.
        let given_up = world.state().alloc(previous).is_some_and(|it| {
            matches!(it.client_status, ClientStatus::Lost | ClientStatus::Unknown)
        });
        if !given_up {
            return Ok(());
        }
        for (other, host) in world.nodes().iter().enumerate() {
            if let Some(twin) = host.keeper.live().find(|it| it.alloc == previous) {
                return Err(format!(
                    "n{node} starts {run} while its predecessor {twin} lives on n{other}"
                ));
            }
        }
        Ok(())
    }
}
