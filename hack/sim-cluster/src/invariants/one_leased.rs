//! Of a group that stops itself when it is not heard, at most one instance of each number lives at
//! once, on whatever host, however the one before came to leave.

use hack_sim::judges::Leased;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug, Default)]
pub(super) struct OneLeased {
    judge: Leased,
}

impl Invariant for OneLeased {
    fn name(&self) -> &'static str {
        "one_leased"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, physically at most one runs"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        view.teach_leased(&mut self.judge);
        let live = view.running().map(|(host, run)| (host.into(), run));
        self.judge.starts((*node).into(), run, live)
    }
}
