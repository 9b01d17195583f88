//! Of one task of one allocation no two runs live at once, on whatever hosts.

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct OneLiveRun;

impl Invariant for OneLiveRun {
    fn name(&self) -> &'static str {
        "one_live_run"
    }

    fn source(&self) -> &'static str {
        "noded-core, what the core promises: of one task no two runs are live at once"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let twin = view
            .running()
            .find(|(_, other)| other.alloc == run.alloc && other.task == run.task);
        match twin {
            None => Ok(()),
            Some((host, twin)) => Err(format!(
                "n{node} starts {run} while {twin} lives on n{host}"
            )),
        }
    }
}
