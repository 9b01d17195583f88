//! Allocations, and what is derived from them: indexes, counters, room.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, JobKey};

use super::{AllocRecord, Table, Tables, index_insert, index_remove};
use crate::record::GroupTally;
use crate::usage::Usage;

/// Counters of one job's allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AllocTally {
    /// Per task group, by client status.
    pub(crate) groups: BTreeMap<String, GroupTally>,
    pub(crate) all: u64,
    /// Allocations that neither side is done with.
    pub(crate) live: u64,
    /// The index at which one of them last changed or went, or a later one: that of the checkpoint
    /// which they were read from.
    pub(crate) moved: u64,
}

impl Tables {
    pub(crate) fn put_alloc(&mut self, record: AllocRecord) {
        self.touch(Table::Allocs);
        let alloc = record.alloc.clone();
        let key = alloc.job_key();
        let signed = signed_live(&record);
        let before = self.allocs.insert(alloc.id, record);
        self.move_live(before.as_ref().and_then(signed_live), signed);
        if let Some(before) = before {
            self.unlink_alloc(&key, &before.alloc, Some(&alloc));
            self.link_alloc(&key, &alloc, Some(&before.alloc));
            self.release_spec(before.alloc.spec);
        } else {
            self.link_alloc(&key, &alloc, None);
        }
        self.note_moved(&key);
    }

    pub(crate) fn remove_alloc(&mut self, id: AllocId) {
        let Some(record) = self.allocs.remove(&id) else {
            return;
        };
        self.touch(Table::Allocs);
        self.move_live(signed_live(&record), None);
        let key = record.alloc.job_key();
        self.unlink_alloc(&key, &record.alloc, None);
        self.release_spec(record.alloc.spec);
        self.note_moved(&key);
        self.relink(&record.alloc);
    }

    /// Counts a live allocation out of one root key's number and into that of another one.
    fn move_live(&mut self, from: Option<u32>, to: Option<u32>) {
        if from == to {
            return;
        }
        if let Some(from) = from
            && let Some(count) = self.live_by_key.get_mut(&from)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.live_by_key.remove(&from);
            }
        }
        if let Some(to) = to {
            *self.live_by_key.entry(to).or_default() += 1;
        }
    }

    /// Who came before an allocation that is forgotten is followed by who came after it: a place
    /// that is taken stays so, and a gap is one.
    fn relink(&mut self, gone: &Allocation) {
        let (before, after) = (gone.previous_allocation, gone.next_allocation);
        if let Some(mut record) = self.row(before)
            && record.alloc.next_allocation == Some(gone.id)
        {
            Arc::make_mut(&mut record.alloc).next_allocation = after;
            self.put_changed(record);
        }
        if let Some(mut record) = self.row(after)
            && record.alloc.previous_allocation == Some(gone.id)
        {
            Arc::make_mut(&mut record.alloc).previous_allocation = before;
            self.put_changed(record);
        }
    }

    fn row(&self, id: Option<AllocId>) -> Option<AllocRecord> {
        self.allocs.get(&id?).cloned()
    }

    fn put_changed(&mut self, mut record: AllocRecord) {
        Arc::make_mut(&mut record.alloc).modify_index = self.index;
        self.put_alloc(record);
    }

    /// An allocation of the job changed at the index being applied. (A job whose last allocation
    /// went needs no note: queries on it then wait for all allocations.)
    fn note_moved(&mut self, key: &JobKey) {
        if let Some(tally) = self.alloc_tallies.get_mut(key) {
            Arc::make_mut(tally).moved = self.index;
        }
    }

    fn tally_allocs(&mut self, key: &JobKey, change: impl FnOnce(&mut AllocTally)) {
        self.touch(Table::JobSummaries);
        // A key is two texts: it is copied only for a job that was not counted yet.
        let Some(tally) = self.alloc_tallies.get_mut(key) else {
            let mut tally = AllocTally::default();
            change(&mut tally);
            if tally.all > 0 {
                self.alloc_tallies.insert(key.clone(), Arc::new(tally));
            }
            return;
        };
        let tally = Arc::make_mut(tally);
        change(tally);
        if tally.all == 0 {
            self.alloc_tallies.remove(key);
        }
    }

    /// Enters an allocation of a job into what is derived. `before` is what it was: the indexes
    /// over what never changes (job, node, evaluation of a kept one) are left alone.
    fn link_alloc(&mut self, key: &JobKey, alloc: &Allocation, before: Option<&Arc<Allocation>>) {
        self.acquire_spec(alloc.spec);
        if before.is_none() {
            index_insert(&mut self.allocs_by_job, key, alloc.id);
            index_insert(&mut self.allocs_by_node, &alloc.node_id, alloc.id);
        }
        if before.is_none_or(|before| before.eval_id != alloc.eval_id) {
            index_insert(&mut self.allocs_by_eval, &alloc.eval_id, alloc.id);
        }
        if let Some(deployment) = alloc.deployment_id
            && before.is_none_or(|before| before.deployment_id != alloc.deployment_id)
        {
            index_insert(&mut self.allocs_by_deployment, &deployment, alloc.id);
        }
        if before.is_none_or(|before| !same_counts(before, alloc)) {
            self.tally_allocs(key, |tally| tally.count(alloc));
        }
        if alloc.holds_room() && before.is_none_or(|before| !same_usage(before, alloc)) {
            self.columns
                .add_usage(alloc.node_id, &Usage::of(&alloc.allocated_resources));
        }
    }

    /// The reverse of [`Self::link_alloc`]; `after` is what it becomes.
    fn unlink_alloc(&mut self, key: &JobKey, alloc: &Allocation, after: Option<&Arc<Allocation>>) {
        if after.is_none() {
            index_remove(&mut self.allocs_by_job, key, &alloc.id);
            index_remove(&mut self.allocs_by_node, &alloc.node_id, &alloc.id);
        }
        if after.is_none_or(|after| after.eval_id != alloc.eval_id) {
            index_remove(&mut self.allocs_by_eval, &alloc.eval_id, &alloc.id);
        }
        if let Some(deployment) = alloc.deployment_id
            && after.is_none_or(|after| after.deployment_id != alloc.deployment_id)
        {
            index_remove(&mut self.allocs_by_deployment, &deployment, &alloc.id);
        }
        if after.is_none_or(|after| !same_counts(after, alloc)) {
            self.tally_allocs(key, |tally| tally.forget(alloc));
        }
        if alloc.holds_room() && after.is_none_or(|after| !same_usage(after, alloc)) {
            self.columns
                .subtract_usage(alloc.node_id, &Usage::of(&alloc.allocated_resources));
        }
    }
}

/// The root key of an allocation that is not over for its client: it may still use its identities.
pub(crate) fn signed_live(record: &AllocRecord) -> Option<u32> {
    (!record.alloc.client_terminal()).then_some(record.key)
}

/// Whether two states of one allocation count the same in its job's tally.
fn same_counts(before: &Allocation, after: &Allocation) -> bool {
    before.client_status == after.client_status && before.terminal() == after.terminal()
}

/// Whether two states of one allocation take the same of its node.
fn same_usage(before: &Allocation, after: &Allocation) -> bool {
    before.holds_room() == after.holds_room()
        && before.allocated_resources == after.allocated_resources
}

impl GroupTally {
    /// The counter of one client status.
    pub(crate) fn counter(&mut self, status: ClientStatus) -> &mut u64 {
        match status {
            ClientStatus::Pending => &mut self.starting,
            ClientStatus::Running => &mut self.running,
            ClientStatus::Complete => &mut self.complete,
            ClientStatus::Failed => &mut self.failed,
            ClientStatus::Lost => &mut self.lost,
            ClientStatus::Unknown => &mut self.unknown,
        }
    }
}

impl AllocTally {
    /// Counts an allocation in.
    pub(crate) fn count(&mut self, alloc: &Allocation) {
        self.all += 1;
        self.live += u64::from(!alloc.terminal());
        let group = self.groups.entry(alloc.task_group.clone()).or_default();
        *group.counter(alloc.client_status) += 1;
    }

    fn forget(&mut self, alloc: &Allocation) {
        self.all = self.all.saturating_sub(1);
        self.live = self.live.saturating_sub(u64::from(!alloc.terminal()));
        if let Some(group) = self.groups.get_mut(&alloc.task_group) {
            let counter = group.counter(alloc.client_status);
            *counter = counter.saturating_sub(1);
            if *group == GroupTally::default() {
                self.groups.remove(&alloc.task_group);
            }
        }
    }
}
