//! Reports of allocations' own networks in a cluster whose servers do not all know them.

use protocol_wire::report::AllocReport;

use super::Command;

/// The level of a server that records [`AllocReport::network`]. One below it drops the field in
/// silence, and its state would differ from the others'.
pub const NETWORKS_LEVEL: u32 = 2;

impl Command {
    /// Whether it has such reports.
    pub fn says_networks(&self) -> bool {
        let says = |reports: &[AllocReport]| reports.iter().any(|report| report.network.is_some());
        match self {
            Self::AllocUpdates { batches } => batches.iter().any(|batch| says(&batch.reports)),
            Self::NodeSynced(synced) => says(&synced.changed),
            _ => false,
        }
    }

    /// Leaves them out: the next report of each allocation says it again.
    pub fn leave_networks_out(&mut self) {
        let forget = |reports: &mut [AllocReport]| {
            for report in reports {
                report.network = None;
            }
        };
        match self {
            Self::AllocUpdates { batches } => {
                batches
                    .iter_mut()
                    .for_each(|batch| forget(&mut batch.reports));
            }
            Self::NodeSynced(synced) => forget(&mut synced.changed),
            _ => {}
        }
    }
}
