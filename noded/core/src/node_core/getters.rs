//! What the shell may look at: for its HTTP answers, its metrics and its journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus};

use super::NodeCore;
use crate::alloc_runner::{AllocRunner, Removal};
use crate::alloc_spec::AllocSpec;
use crate::journal::{self, DestroyWanted, JournalRecord, RestoredAlloc, RestoredNode};
use crate::key::Watermark;
use crate::session::Session;
use crate::update_batcher::UpdateBatcher;

/// An allocation at a glance.
#[derive(Clone, PartialEq, Debug)]
pub struct AllocStatus {
    /// What is wanted of it.
    pub spec: Arc<AllocSpec>,
    /// Its client status.
    pub client_status: ClientStatus,
    /// Why, for people.
    pub client_description: String,
}

impl NodeCore {
    /// One allocation.
    pub fn alloc(&self, alloc: AllocId) -> Option<&AllocRunner> {
        self.runners.get(&alloc)
    }

    /// Every allocation that can run, in the order of their ids.
    pub fn allocs(&self) -> impl Iterator<Item = &AllocRunner> {
        self.runners.values()
    }

    /// One allocation at a glance.
    pub fn alloc_status(&self, alloc: AllocId) -> Option<AllocStatus> {
        let runner = self.runners.get(&alloc)?;
        let (client_status, client_description) = runner.client_status();
        Some(AllocStatus {
            spec: Arc::clone(runner.spec()),
            client_status,
            client_description,
        })
    }

    /// The relation to the control plane.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Reports that wait, for metrics.
    pub fn batcher(&self) -> &UpdateBatcher {
        &self.batcher
    }

    /// What the node had been told.
    pub fn watermark(&self) -> Watermark {
        self.alloc_set.watermark()
    }

    /// Allocations that go on although the control plane's present incarnation does not know them.
    pub fn foreign_allocs(&self) -> impl Iterator<Item = AllocId> {
        self.alloc_set.foreign()
    }

    /// The fewest records that bring a new daemon to where this one is. The shell writes them to a
    /// new journal and puts it in the old one's place; effects polled before this call belong
    /// before them.
    pub fn journal_snapshot(&self) -> Vec<JournalRecord> {
        journal::compact(&self.restored())
    }

    fn restored(&self) -> RestoredNode {
        let mut allocs = BTreeMap::new();
        for (id, runner) in &self.runners {
            let Some(spec) = self.spec_of.get(id) else {
                continue;
            };
            let destroy = match runner.removal() {
                Removal::Kept => DestroyWanted::No,
                Removal::Wanted | Removal::Destroying | Removal::Destroyed => DestroyWanted::Yes,
            };
            let tasks = runner.tasks().values();
            let restored = RestoredAlloc {
                alloc: runner.spec().alloc().clone(),
                spec: *spec,
                root_key: Some(runner.spec().root_key()).filter(|key| *key != 0),
                destroy,
                state: runner.persisted(),
                tasks: tasks
                    .map(|it| (it.name().to_owned(), it.persisted()))
                    .collect(),
                acknowledged: self.batcher.acknowledged(*id).cloned(),
            };
            allocs.insert(*id, restored);
        }
        for (id, unrunnable) in &self.unrunnable {
            let Some(spec) = self.spec_of.get(id) else {
                continue;
            };
            let mut restored = RestoredAlloc::new(unrunnable.alloc.clone(), *spec);
            restored.acknowledged = self.batcher.acknowledged(*id).cloned();
            allocs.insert(*id, restored);
        }
        for (id, lost) in &self.lost_specs {
            let mut restored = lost.restored.clone();
            restored.acknowledged = self.batcher.acknowledged(*id).cloned();
            allocs.insert(*id, restored);
        }
        RestoredNode {
            watermark: self.alloc_set.watermark(),
            epoch: self.session.last_epoch(),
            boot: Some(self.boot),
            confirmed: self.leases.journaled(),
            heard: self.last_heard.journaled(),
            specs: self.specs.clone(),
            allocs,
            foreign: self.alloc_set.foreign().collect(),
        }
    }
}
