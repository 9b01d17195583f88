//! Placements: each finds its node, and what it takes the place of is stopped with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, Job, TaskGroup};

use super::Deciding;
use crate::place::{self, Placement, Placer};
use crate::reconcile::{Buckets, Wanted};

impl Deciding<'_> {
    pub(super) fn place_group(
        &mut self,
        job: &Arc<Job>,
        group: &TaskGroup,
        buckets: &Buckets,
        allocs: &[Arc<Allocation>],
    ) {
        if buckets.place.is_empty() {
            return;
        }
        let leaving = buckets.leaving();
        let standing = allocs
            .iter()
            .filter(|alloc| !alloc.terminal() && !leaving.contains(&alloc.id));
        self.overlay
            .begin_group(standing.map(|alloc| alloc.node_id));
        let mut placer = Placer::new(self.snapshot, job, group, &leaving);
        let destructive: BTreeMap<AllocId, &Arc<Allocation>> = buckets
            .destructive
            .iter()
            .chain(&buckets.migrate)
            .map(|alloc| (alloc.id, alloc))
            .collect();
        let mut unplaced = 0;
        for wanted in &buckets.place {
            let found = placer.place(wanted, &mut self.overlay, &mut self.ids, self.scratch);
            match found {
                Ok(placement) => {
                    let alloc = self.allocation(job, group, wanted, placement);
                    if let Some(record) = self.snapshot.node(alloc.node_id) {
                        placer.placed(&alloc, &record.node);
                    }
                    self.stop_replaced(wanted);
                    self.plan.placed.push(Arc::new(alloc));
                }
                Err(metrics) => {
                    unplaced += 1;
                    self.keep_replaced(wanted, &destructive);
                    match self.failed.get_mut(&group.name) {
                        Some(known) => known.coalesced_failures += 1,
                        None => {
                            self.failed.insert(group.name.clone(), *metrics);
                        }
                    }
                }
            }
        }
        if unplaced > 0 {
            self.queued.insert(group.name.clone(), unplaced);
            self.note_classes(&placer);
        }
    }

    /// What a placement takes the place of is stopped with it.
    fn stop_replaced(&mut self, wanted: &Wanted) {
        let Some(previous) = wanted
            .previous
            .as_ref()
            .filter(|alloc| !alloc.server_terminal())
        else {
            return;
        };
        let description = match previous.client_status {
            ClientStatus::Failed => "alloc was rescheduled because it failed",
            // A lost or silent one is dealt with already.
            ClientStatus::Lost | ClientStatus::Unknown => return,
            ClientStatus::Pending | ClientStatus::Running | ClientStatus::Complete
                if previous.desired_transition.should_migrate() =>
            {
                "alloc is being migrated"
            }
            ClientStatus::Pending | ClientStatus::Running | ClientStatus::Complete => {
                "alloc is being updated due to job update"
            }
        };
        let handled = self
            .plan
            .changed
            .iter()
            .any(|change| change.id == previous.id);
        if !handled {
            self.stop(&Arc::clone(previous), description, false);
        }
    }

    /// Nothing found its place: what should have been replaced goes on, and its room is taken
    /// again.
    fn keep_replaced(
        &mut self,
        wanted: &Wanted,
        destructive: &BTreeMap<AllocId, &Arc<Allocation>>,
    ) {
        let Some(previous) = &wanted.previous else {
            return;
        };
        if destructive.contains_key(&previous.id) {
            place::keep(&mut self.overlay, self.snapshot, previous);
        }
    }

    fn allocation(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        wanted: &Wanted,
        placement: Placement,
    ) -> Allocation {
        let Placement {
            node,
            resources,
            metrics,
        } = placement;
        Allocation {
            id: AllocId(self.ids.next_id()),
            namespace: job.namespace.clone(),
            eval_id: self.eval.id,
            name: wanted.name.clone(),
            node_id: node.id,
            node_name: node.name.clone(),
            job_id: job.id.clone(),
            job: None,
            job_version: job.version,
            job_create_index: job.create_index,
            spec: self.snapshot.job_spec(&job.key()).unwrap_or_default(),
            task_group: group.name.clone(),
            allocated_resources: resources,
            metrics,
            desired_status: DesiredStatus::Run,
            desired_description: String::new(),
            desired_transition: Default::default(),
            client_status: ClientStatus::Pending,
            client_description: String::new(),
            task_states: BTreeMap::new(),
            alloc_states: Vec::new(),
            deployment_id: self.rollout.deployment_of(group),
            deployment_status: None,
            followup_eval_id: None,
            previous_allocation: wanted.previous.as_ref().map(|alloc| alloc.id),
            next_allocation: None,
            reschedule_tracker: wanted.tracker.clone(),
            preempted_allocations: Vec::new(),
            preempted_by_allocation: None,
            create_index: 0,
            modify_index: 0,
            alloc_modify_index: 0,
            create_time: self.now,
            modify_time: self.now,
        }
    }
}
