//! A report that a node is told was applied is in the state, or something newer is.

use controlplane_state::ReportMark;

use super::{Invariant, Observation};
use crate::world::World;

#[derive(Debug)]
pub(super) struct AcknowledgedUpdates;

impl Invariant for AcknowledgedUpdates {
    fn name(&self) -> &'static str {
        "acknowledged_updates"
    }

    fn source(&self) -> &'static str {
        "update-sync.md, 8: the ack is made from the result of apply, per item"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Acknowledged { epoch, report } = seen else {
            return Ok(());
        };
        if world.state().alloc(report.id).is_none() {
            return Ok(());
        }
        let mark = world.state().alloc_report_mark(report.id);
        let told = ReportMark {
            epoch: *epoch,
            revision: report.revision,
        };
        if mark < told {
            return Err(format!(
                "{}: acknowledged {told:?}, the state has {mark:?}",
                report.id.short()
            ));
        }
        Ok(())
    }
}
