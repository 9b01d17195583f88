//! Of a group that stops itself when it is not heard, at most one instance of each number lives at
//! once, on whatever host, however the one before came to leave.

use std::collections::BTreeMap;

use protocol_model::AllocId;

use super::Invariant;
use crate::eyes::{Observation, View};

/// The names of what was ever placed of such groups: a host may have it for longer than the state.
#[derive(Debug, Default)]
pub(super) struct OneLeased {
    names: BTreeMap<AllocId, String>,
}

impl OneLeased {
    fn learn(&mut self, view: &View) {
        let allocs = view.newest.allocs();
        let leased = allocs.filter(|alloc| view.is_leased(alloc));
        self.names
            .extend(leased.map(|alloc| (alloc.id, alloc.name.clone())));
    }
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
        self.learn(view);
        let Some(name) = self.names.get(&run.alloc) else {
            return Ok(());
        };
        let is_twin = |it: &AllocId| *it != run.alloc && self.names.get(it) == Some(name);
        match view.running().find(|(_, other)| is_twin(&other.alloc)) {
            None => Ok(()),
            Some((host, twin)) => Err(format!(
                "n{node} starts {run} while {twin} lives on n{host}, and both are {name}"
            )),
        }
    }
}
