//! Where no node is silent, keeper ends nothing with its lease: what a daemon does for want of a
//! confirmation is looked at by `healthy_not_killed`.

use super::Invariant;
use crate::eyes::{Observation, View};

#[derive(Debug)]
pub(super) struct LeasesGoOn;

impl Invariant for LeasesGoOn {
    fn name(&self) -> &'static str {
        "leases_go_on"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: a healthy allocation is never killed"
    }

    fn on(&mut self, seen: &Observation<'_>, view: &View) -> Result<(), String> {
        if !view.scenario.hears_all_nodes() || !matches!(seen, Observation::Look) {
            return Ok(());
        }
        match view.tasks.expired().len() {
            0 => Ok(()),
            ended => Err(format!(
                "the leases of {ended} allocations ran out, and all nodes were heard"
            )),
        }
    }
}
