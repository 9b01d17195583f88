//! An allocation whose stop its node has acknowledged never runs again.

use std::collections::BTreeSet;

use controlplane_state::{Command, Snapshot};
use protocol_model::{AllocId, ClientStatus};
use protocol_wire::report::AllocReport;

use super::{Invariant, Observation};
use crate::world::World;

/// Allocations that are over by both sides' word.
#[derive(Debug, Default)]
pub(super) struct NeverAgain {
    over: BTreeSet<AllocId>,
}

impl NeverAgain {
    fn note(&mut self, after: &Snapshot, report: &AllocReport) {
        let id = report.id;
        // What the node denies in this very report it has not acknowledged.
        if !report.client_status.is_terminal() {
            return;
        }
        let over = after.alloc(id).is_some_and(|alloc| {
            alloc.server_terminal()
                && matches!(
                    alloc.client_status,
                    ClientStatus::Complete | ClientStatus::Failed
                )
        });
        if over {
            self.over.insert(id);
        }
    }
}

impl Invariant for NeverAgain {
    fn name(&self) -> &'static str {
        "never_again"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: an acknowledged stop is for ever"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied {
                after,
                command: Command::AllocUpdates { batches },
                ..
            } => {
                let reports = batches.iter().flat_map(|batch| &batch.reports);
                reports.for_each(|report| self.note(after, report));
                Ok(())
            }
            Observation::Applied {
                after,
                command: Command::NodeSynced(synced),
                ..
            } => {
                for report in &synced.changed {
                    self.note(after, report);
                }
                Ok(())
            }
            // The node's word rests on its journal; where that was damaged, nothing does.
            Observation::Spawned { node, run }
                if self.over.contains(&run.alloc) && !world.node(*node).journal.damaged =>
            {
                Err(format!("n{node} starts {run}, which is over"))
            }
            _ => Ok(()),
        }
    }
}
