//! What a node has said to have ended does not run on its host.

use protocol_model::ClientStatus;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct EndedIsEnded;

impl Invariant for EndedIsEnded {
    fn name(&self) -> &'static str {
        "ended_is_ended"
    }

    fn source(&self) -> &'static str {
        "noded-core: an allocation is over once the last of its runs was seen to end"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        if !matches!(seen, Observation::Look | Observation::Rested) {
            return Ok(());
        }
        let over = |status| matches!(status, ClientStatus::Complete | ClientStatus::Failed);
        let lives = view.running().find(|(_, run)| {
            let alloc = view.newest.alloc(run.alloc);
            alloc.is_some_and(|alloc| over(alloc.client_status))
        });
        match lives {
            None => Ok(()),
            Some((host, run)) => Err(format!(
                "n{host} runs {run}, of which it said that it ended"
            )),
        }
    }
}
