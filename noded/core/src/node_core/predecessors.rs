//! Which allocations wait for the end of another one on this node before they start.
//!
//! The control plane places a successor on its predecessor's node in the plan that stops the
//! predecessor. The successor stays `pending` until the other one has ended, because both hold the
//! same ports, memory, cores and disk:
//!
//! ```text
//!   predecessor:  running --stop--> stopping ............ every task dead
//!   successor:            accepted, pending               `--> starts
//! ```
//!
//! An allocation that has not begun waits for:
//!
//! 1. its predecessor (`PreviousAllocation`) and what was preempted for it, however they stop;
//! 2. where one of those never began, for what that one waited for;
//! 3. any allocation that is ending and has a port or a core that it was given.
//!
//! Nothing of this is stored: it follows from what the journal says is wanted and has begun. An
//! allocation that never began is not destroyed while it waits, so that rule 2 finds it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{AllocId, AllocatedResources, Allocation};

use super::NodeCore;
use crate::alloc_runner::AllocRunner;

/// Who waits for whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Predecessors {
    awaited_by: BTreeMap<AllocId, BTreeSet<AllocId>>,
    awaits: BTreeMap<AllocId, AllocId>,
    /// Allocations that are being brought to their end and have what no other one can have.
    ending: BTreeMap<AllocId, BTreeSet<Claim>>,
}

impl Predecessors {
    /// Notes whom an allocation waits for.
    pub(super) fn set_awaited(&mut self, alloc: AllocId, awaited: Option<AllocId>) {
        if let Some(before) = self.awaits.remove(&alloc)
            && let Some(waiting) = self.awaited_by.get_mut(&before)
        {
            waiting.remove(&alloc);
            if waiting.is_empty() {
                self.awaited_by.remove(&before);
            }
        }
        if let Some(awaited) = awaited {
            self.awaits.insert(alloc, awaited);
            self.awaited_by.entry(awaited).or_default().insert(alloc);
        }
    }

    /// Notes whether an allocation is being brought to its end.
    pub(super) fn note_ending(&mut self, runner: &AllocRunner) {
        let id = runner.id();
        if !runner.is_ending() {
            self.ending.remove(&id);
        } else if let Entry::Vacant(unknown) = self.ending.entry(id) {
            let claims = claims(&runner.spec().alloc().allocated_resources);
            if !claims.is_empty() {
                unknown.insert(claims);
            }
        }
    }

    /// Nothing of an allocation is left.
    pub(super) fn forget(&mut self, alloc: AllocId) {
        self.set_awaited(alloc, None);
        self.ending.remove(&alloc);
    }

    /// Allocations that wait for this one.
    pub(super) fn waiting_for(&self, alloc: AllocId) -> Vec<AllocId> {
        let waiting = self.awaited_by.get(&alloc);
        waiting.into_iter().flatten().copied().collect()
    }
}

impl NodeCore {
    /// The allocation that has to end before this one may start, where there is one.
    pub(super) fn awaited_by(&self, alloc: AllocId) -> Option<AllocId> {
        let runner = self.runners.get(&alloc).filter(|it| !it.has_begun())?;
        self.live_predecessor(runner)
            .or_else(|| self.holder_of_claims(runner))
    }

    fn live_predecessor(&self, successor: &AllocRunner) -> Option<AllocId> {
        let mut open = displaced(successor.spec().alloc());
        // Whatever the links say: each is followed once.
        let mut seen = BTreeSet::from([successor.id()]);
        while let Some(id) = open.pop() {
            let Some(earlier) = self.runners.get(&id).filter(|_| seen.insert(id)) else {
                continue;
            };
            if !earlier.all_dead() {
                return Some(id);
            }
            if !earlier.has_begun() {
                open.extend(displaced(earlier.spec().alloc()));
            }
        }
        None
    }

    fn holder_of_claims(&self, runner: &AllocRunner) -> Option<AllocId> {
        let ending = &self.predecessors.ending;
        if ending.is_empty() {
            return None;
        }
        let wanted = claims(&runner.spec().alloc().allocated_resources);
        let holds = |held: &BTreeSet<Claim>| !held.is_disjoint(&wanted);
        let mut others = ending.iter().filter(|(id, _)| **id != runner.id());
        others.find(|(_, held)| holds(held)).map(|(id, _)| *id)
    }
}

/// What an allocation takes the place of.
fn displaced(alloc: &Allocation) -> Vec<AllocId> {
    let preempted = alloc.preempted_allocations.iter();
    preempted
        .chain(&alloc.previous_allocation)
        .copied()
        .collect()
}

/// What only one allocation of a node can have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Claim {
    /// A port of the host.
    Port(u32),
    /// A whole core.
    Core(u16),
}

fn claims(resources: &AllocatedResources) -> BTreeSet<Claim> {
    let AllocatedResources { tasks, shared } = resources;
    let of_tasks = tasks.values().flat_map(|task| &task.networks);
    let networks = of_tasks.chain(&shared.networks);
    let ports = networks.flat_map(|network| network.ports().map(|port| port.value));
    let ports = ports.chain(shared.ports.iter().map(|port| u32::from(port.value)));
    let cores = tasks.values().flat_map(|task| &task.cpu.reserved_cores);
    // 0 is a port that was not chosen.
    let ports = ports.filter(|port| *port != 0).map(Claim::Port);
    ports.chain(cores.copied().map(Claim::Core)).collect()
}
