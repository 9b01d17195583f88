//! Leases at keeper, modelled: at an allocation's deadline it kills what runs of it and starts
//! nothing more, whether a daemon lives or not.

use noded_core::Moment;
use noded_core::RunKey;
use noded_core::event::{ExitStatus, LeasesAnswer};
use protocol_model::AllocId;

use crate::event::{HostEvent, NodeInput, NodeIx};
use crate::mutant::Mutant;
use crate::time::{MICRO, MILLI, nanos};
use crate::world::World;

impl World {
    /// A daemon says until when allocations may run. Keeper is a process of its own: it is told
    /// whatever becomes of the daemon.
    pub(super) fn tend_leases(
        &mut self,
        ix: NodeIx,
        extend: Vec<(AllocId, Moment)>,
        end: &[AllocId],
    ) {
        let at = self.now;
        for (alloc, until) in extend {
            let node = &mut self.nodes[ix as usize];
            let wait = nanos(until.since(node.now(at).moment));
            if self.mutant != Some(Mutant::LeaseWithDaemon) {
                node.keeper.leases.insert(alloc, until);
                self.host_event(ix, wait, HostEvent::LeaseDue(alloc));
            }
        }
        for alloc in end {
            self.nodes[ix as usize].keeper.leases.remove(alloc);
        }
        let wait = self.rng.between(50 * MICRO, 8 * MILLI);
        self.node_input(ix, wait, NodeInput::Leases(LeasesAnswer::Done));
    }

    /// Whether an allocation's lease has run out.
    pub(super) fn lease_is_over(&self, ix: NodeIx, alloc: AllocId) -> bool {
        let node = &self.nodes[ix as usize];
        let until = node.keeper.leases.get(&alloc);
        until.is_some_and(|until| *until <= node.now(self.now).moment)
    }

    pub(super) fn lease_due(&mut self, ix: NodeIx, alloc: AllocId) {
        if !self.lease_is_over(ix, alloc) {
            return;
        }
        let live = self.nodes[ix as usize].keeper.live();
        let runs: Vec<RunKey> = live.filter(|run| run.alloc == alloc).cloned().collect();
        for run in runs {
            self.end_run_for(ix, &run, ExitStatus::Signal(9), true);
        }
    }
}
