//! What the records come to, and the fewest records that come to the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, Job, SpecHash, UnixNanos};

use super::JournalRecord;
use crate::alloc_runner::{PersistedAlloc, StartHold};
use crate::key::{BootId, RunEpoch, SessionEpoch, Watermark};
use crate::task_runner::{AttemptState, PersistedTask};
use crate::time::Moment;
use crate::update_batcher::AckedState;

/// What the journal says of the node's earlier life.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RestoredNode {
    /// What the node had been told.
    pub watermark: Watermark,
    /// The last session it accepted.
    pub epoch: SessionEpoch,
    /// The boot that it speaks of; `None` = of none yet.
    pub boot: Option<BootId>,
    /// The newest confirmed heartbeat of that boot.
    pub confirmed: Option<Moment>,
    /// The newest confirmed heartbeat, by the wall clock.
    pub heard: Option<UnixNanos>,
    /// Job specifications.
    pub specs: BTreeMap<SpecHash, Arc<Job>>,
    /// Its allocations.
    pub allocs: BTreeMap<AllocId, RestoredAlloc>,
    /// Those of them that the cluster's present incarnation does not know.
    pub foreign: BTreeSet<AllocId>,
}

/// What the journal says of one allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct RestoredAlloc {
    /// What was wanted of it, `job` left out.
    pub alloc: Allocation,
    /// Its job's specification.
    pub spec: SpecHash,
    /// The number of the root key that signs its identities.
    pub root_key: Option<u32>,
    /// Whether it is to be destroyed.
    pub destroy: DestroyWanted,
    /// Its state as a whole.
    pub state: PersistedAlloc,
    /// Its tasks' states.
    pub tasks: BTreeMap<String, PersistedTask>,
    /// What the control plane has recorded of it.
    pub acknowledged: Option<AckedState>,
}

/// Whether an allocation is to be stopped and destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DestroyWanted {
    /// The control plane still knows it.
    #[default]
    No,
    /// It does not.
    Yes,
}

/// What the records come to. Records about an allocation that is gone, or was never wanted, say
/// nothing any more: their order across allocations does not matter.
pub fn replay(records: impl IntoIterator<Item = JournalRecord>) -> RestoredNode {
    let mut node = RestoredNode::default();
    for record in records {
        apply(&mut node, record);
    }
    let referred: BTreeSet<SpecHash> = node.allocs.values().map(|it| it.spec).collect();
    node.specs.retain(|hash, _| referred.contains(hash));
    node.foreign.retain(|alloc| node.allocs.contains_key(alloc));
    node
}

fn apply(node: &mut RestoredNode, record: JournalRecord) {
    match record {
        JournalRecord::Watermark { at } => node.watermark = at,
        JournalRecord::SessionEpoch { epoch } => node.epoch = epoch,
        JournalRecord::Boot { boot } => {
            // Its clock began anew.
            node.confirmed = node.confirmed.filter(|_| node.boot == Some(boot));
            node.boot = Some(boot);
        }
        JournalRecord::Confirmed { at } => node.confirmed = Some(at),
        JournalRecord::Heard { at } => node.heard = Some(at),
        JournalRecord::Spec { hash, job } => {
            node.specs.insert(hash, job);
        }
        JournalRecord::Desired {
            alloc,
            spec,
            root_key,
        } => match node.allocs.get_mut(&alloc.id) {
            Some(known) => {
                known.alloc = *alloc;
                known.spec = spec;
                known.root_key = root_key;
                known.destroy = DestroyWanted::No;
                known.state.hold = StartHold::Free;
            }
            None => {
                let mut known = RestoredAlloc::new(*alloc, spec);
                known.root_key = root_key;
                node.allocs.insert(known.alloc.id, known);
            }
        },
        JournalRecord::Foreign { allocs } => node.foreign = allocs,
        JournalRecord::DestroyWanted { alloc } => {
            if let Some(known) = node.allocs.get_mut(&alloc) {
                known.destroy = DestroyWanted::Yes;
                known.state.hold = StartHold::Free;
            }
        }
        JournalRecord::Destroyed { alloc } => {
            node.allocs.remove(&alloc);
        }
        JournalRecord::Intent { run } => {
            if let Some(known) = node.allocs.get_mut(&run.alloc) {
                let task = known.tasks.entry(run.task).or_default();
                task.epoch = task.epoch.max(run.epoch);
                task.attempt = AttemptState::Open;
                task.delayed_until = None;
                task.stopping = None;
            }
        }
        JournalRecord::Alloc { alloc, state } => {
            if let Some(known) = node.allocs.get_mut(&alloc) {
                known.state = state;
            }
        }
        JournalRecord::Task { alloc, task, state } => {
            if let Some(known) = node.allocs.get_mut(&alloc) {
                let highest = known.tasks.get(&task).map_or(RunEpoch(0), |it| it.epoch);
                let mut state = *state;
                state.epoch = state.epoch.max(highest);
                known.tasks.insert(task, state);
            }
        }
        JournalRecord::Acknowledged { alloc, state } => {
            if let Some(known) = node.allocs.get_mut(&alloc) {
                known.acknowledged = Some(*state);
            }
        }
    }
}

/// The fewest records that replay to the same node.
pub fn compact(node: &RestoredNode) -> Vec<JournalRecord> {
    let RestoredNode {
        watermark,
        epoch,
        boot,
        confirmed,
        heard,
        specs,
        allocs,
        foreign,
    } = node;
    let mut records = vec![JournalRecord::SessionEpoch { epoch: *epoch }];
    let referred: BTreeSet<SpecHash> = allocs.values().map(|it| it.spec).collect();
    for (hash, job) in specs.iter().filter(|(hash, _)| referred.contains(hash)) {
        records.push(JournalRecord::Spec {
            hash: *hash,
            job: Arc::clone(job),
        });
    }
    for (id, known) in allocs {
        let RestoredAlloc {
            alloc,
            spec,
            root_key,
            destroy,
            state,
            tasks,
            acknowledged,
        } = known;
        records.push(JournalRecord::Desired {
            alloc: Box::new(alloc.clone()),
            spec: *spec,
            root_key: *root_key,
        });
        if *destroy == DestroyWanted::Yes {
            records.push(JournalRecord::DestroyWanted { alloc: *id });
        }
        records.push(JournalRecord::Alloc {
            alloc: *id,
            state: state.clone(),
        });
        records.extend(tasks.iter().map(|(task, state)| JournalRecord::Task {
            alloc: *id,
            task: task.clone(),
            state: Box::new(state.clone()),
        }));
        if let Some(state) = acknowledged {
            records.push(JournalRecord::Acknowledged {
                alloc: *id,
                state: Box::new(state.clone()),
            });
        }
    }
    if !foreign.is_empty() {
        records.push(JournalRecord::Foreign {
            allocs: foreign.clone(),
        });
    }
    // Last, as in the journal itself: they speak for everything before them.
    records.extend(boot.map(|boot| JournalRecord::Boot { boot }));
    records.extend(confirmed.map(|at| JournalRecord::Confirmed { at }));
    records.extend(heard.map(|at| JournalRecord::Heard { at }));
    records.push(JournalRecord::Watermark { at: *watermark });
    records
}

impl RestoredAlloc {
    /// An allocation of which nothing is known but what is wanted.
    pub fn new(alloc: Allocation, spec: SpecHash) -> Self {
        Self {
            alloc,
            spec,
            root_key: None,
            destroy: DestroyWanted::No,
            state: PersistedAlloc::default(),
            tasks: BTreeMap::new(),
            acknowledged: None,
        }
    }
}
