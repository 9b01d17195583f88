//! Of one task of one allocation no two runs live at once.

use super::{Invariant, Observation};
use crate::world::World;

#[derive(Debug)]
pub(super) struct OneLiveRun;

impl Invariant for OneLiveRun {
    fn name(&self) -> &'static str {
        "one_live_run"
    }

    fn source(&self) -> &'static str {
        "noded-core, what the core promises: of one task no two runs are live at once"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let twin = world
            .node(*node)
            .keeper
            .live()
            .find(|other| other.alloc == run.alloc && other.task == run.task && other != run);
        match twin {
            None => Ok(()),
            Some(twin) => Err(format!("n{node} starts {run} while {twin} lives")),
        }
    }
}
