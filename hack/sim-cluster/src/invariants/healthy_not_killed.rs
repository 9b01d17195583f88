//! A node ends a run only where that is wanted: no lagging server, no change of leaders and no
//! restart kills what is healthy. What stops itself when its node is not heard goes on as well
//! where all nodes are; that keeper does not end it either is said by `leases_go_on`.

use protocol_model::DesiredStatus;

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct HealthyNotKilled;

impl Invariant for HealthyNotKilled {
    fn name(&self) -> &'static str {
        "healthy_not_killed"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: never killed for a lagging server (hole 5)"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        let Observation::StopAsked { node, run } = seen else {
            return Ok(());
        };
        let mut runs = view.running();
        let lives = runs.any(|(host, other)| host == *node && other == **run);
        let wanted = view.newest.alloc(run.alloc).is_some_and(|alloc| {
            let wanted = alloc.desired_status == DesiredStatus::Run && !alloc.client_terminal();
            wanted && (view.scenario.hears_all_nodes() || !view.is_leased(alloc))
        });
        match lives && wanted {
            false => Ok(()),
            true => Err(format!("n{node} ends {run}, which is wanted and runs")),
        }
    }
}
