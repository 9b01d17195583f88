//! An allocation that was to stop, and of which its node has said that it has, never runs again.

use protocol_model::ClientStatus;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct NeverAgain;

impl Invariant for NeverAgain {
    fn name(&self) -> &'static str {
        "never_again"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: an acknowledged stop is for ever"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let over = view.newest.alloc(run.alloc).is_some_and(|alloc| {
            let said = matches!(
                alloc.client_status,
                ClientStatus::Complete | ClientStatus::Failed
            );
            alloc.server_terminal() && said
        });
        match over {
            false => Ok(()),
            true => Err(format!("n{node} starts {run}, which is over")),
        }
    }
}
