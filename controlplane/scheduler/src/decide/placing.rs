//! Placements: each finds its node, and what it takes the place of is stopped with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::command::Preempted;
use protocol_model::{
    AllocDeploymentStatus, AllocId, AllocMetric, Allocation, ClientStatus, DesiredStatus, Job,
    TaskGroup,
};

use super::Deciding;
use crate::place::{Evicting, Placement, Placer, Tools};
use crate::reconcile::{Buckets, Older, Wanted, ends_first};

/// Placements of a group that were not made.
struct Tally {
    /// It found no node.
    unplaced: i64,
    /// Another one has to end first.
    waiting: i64,
}

/// Placements by the version that they are made in: the older ones first, which restore what was
/// there.
fn by_version(place: &[Wanted]) -> Vec<(Option<&Older>, Vec<&Wanted>)> {
    let mut older: BTreeMap<u64, (Option<&Older>, Vec<&Wanted>)> = BTreeMap::new();
    let mut newest = Vec::new();
    for wanted in place {
        match &wanted.older {
            None => newest.push(wanted),
            Some(version) => {
                let of_version = older.entry(version.job.version);
                let (_, list) = of_version.or_insert_with(|| (Some(version), Vec::new()));
                list.push(wanted);
            }
        }
    }
    let mut all: Vec<_> = older.into_values().collect();
    if !newest.is_empty() {
        all.push((None, newest));
    }
    all
}

/// Adds what one more placement of the group asks for of exhausted dimensions (as Nomad: memory and
/// processor time, with every task named).
fn exhaust(metrics: &mut AllocMetric, group: &TaskGroup) {
    if metrics.dimension_exhausted.is_empty() {
        return;
    }
    let lacks = |dimension| metrics.dimension_exhausted.contains_key(dimension);
    let (lacks_cpu, lacks_memory) = (lacks("cpu"), lacks("memory"));
    for task in &group.tasks {
        let known = metrics.resources_exhausted.entry(task.name.clone());
        let known = known.or_default();
        let Some(asked) = &task.resources else {
            continue;
        };
        if lacks_cpu {
            known.cpu = known.cpu.saturating_add(asked.cpu());
        }
        if lacks_memory {
            known.memory_mb = known.memory_mb.saturating_add(asked.memory_mb());
        }
    }
}

impl Deciding<'_> {
    pub(super) fn place_group(
        &mut self,
        job: &Arc<Job>,
        group: &TaskGroup,
        buckets: &Buckets,
        allocs: &[Arc<Allocation>],
    ) {
        if buckets.held_back > 0 {
            let held_back = i64::from(buckets.held_back);
            self.queued.insert(group.name.clone(), held_back);
        }
        if buckets.place.is_empty() {
            return;
        }
        let standing = allocs
            .iter()
            .filter(|alloc| !alloc.terminal() && !self.leaving.contains(&alloc.id));
        self.overlay
            .begin_group(standing.map(|alloc| alloc.node_id));
        let mut tally = Tally {
            unplaced: 0,
            waiting: i64::from(buckets.held_back),
        };
        for (older, wanted) in by_version(&buckets.place) {
            let (job, group) = match older {
                None => (&**job, Some(group)),
                Some(older) => (&*older.job, older.job.task_group(&group.name)),
            };
            let Some(group) = group else {
                debug_assert!(false, "a version that has the group was chosen");
                continue;
            };
            self.place_alike((job, group), &wanted, buckets, &mut tally);
        }
        let Tally { unplaced, waiting } = tally;
        if unplaced + waiting > 0 {
            self.queued.insert(group.name.clone(), unplaced + waiting);
        }
    }

    /// Places what is of one version of the job.
    fn place_alike(
        &mut self,
        (job, group): (&Job, &TaskGroup),
        wanted: &[&Wanted],
        buckets: &Buckets,
        tally: &mut Tally,
    ) {
        let mut placer = Placer::new(self.snapshot, job, group, self.standing());
        let ids = |allocs: &[Arc<Allocation>]| -> BTreeSet<AllocId> {
            allocs.iter().map(|alloc| alloc.id).collect()
        };
        let (outdated, migrating) = (ids(&buckets.destructive), ids(&buckets.migrate));
        let unplaced_before = tally.unplaced;
        for wanted in wanted {
            let mut tools = Tools {
                overlay: &mut self.overlay,
                ids: &mut self.ids,
                scratch: self.scratch,
            };
            // It leaves only for its successor: one at a time, so that none gives room away that
            // it needs itself in the end.
            let previous = wanted.previous.as_deref();
            let makes_way =
                previous.filter(|it| outdated.contains(&it.id) || migrating.contains(&it.id));
            if let Some(alloc) = makes_way {
                placer.make_way(alloc, tools.overlay);
            }
            let waits = makes_way.is_some_and(|it| ends_first(self.snapshot, group, it));
            // Its turn comes when the other one has ended: nothing is evicted before.
            let evicting = match waits {
                true => Evicting::Never,
                false => Evicting::AsConfigured,
            };
            match placer.place(wanted, evicting, &mut tools) {
                Ok(_) if waits => {
                    tally.waiting += 1;
                    self.stop_replaced(wanted, &migrating);
                }
                Ok(placement) => {
                    let victims = placement.victims.clone();
                    let alloc = self.allocation(job, group, wanted, placement);
                    self.evict(&alloc, victims);
                    placer.placed(&alloc);
                    self.stop_replaced(wanted, &migrating);
                    self.plan.placed.push(Arc::new(alloc));
                }
                Err(metrics) => {
                    tally.unplaced += 1;
                    if let Some(alloc) = makes_way {
                        placer.stay(alloc, tools.overlay);
                    }
                    self.note_failure(group, *metrics);
                }
            }
        }
        if tally.unplaced > unplaced_before {
            self.note_classes(&placer);
        }
    }

    /// A placement of `group` failed; the first explanation of several stays.
    fn note_failure(&mut self, group: &TaskGroup, metrics: AllocMetric) {
        let known = match self.failed.get_mut(&group.name) {
            Some(known) => {
                known.coalesced_failures += 1;
                known
            }
            None => self.failed.entry(group.name.clone()).or_insert(metrics),
        };
        exhaust(known, group);
    }

    /// `victims` go for `alloc`. Their jobs' evaluations are made where the plan is applied.
    fn evict(&mut self, alloc: &Allocation, victims: Vec<AllocId>) {
        if victims.is_empty() {
            return;
        }
        let report = self.report.entry(alloc.task_group.clone()).or_default();
        report.preemptions += u64::try_from(victims.len()).unwrap_or(u64::MAX);
        let by = alloc.id;
        let victims = victims.into_iter().map(|id| Preempted { id, by });
        self.plan.preempted.extend(victims);
    }

    /// What a placement takes the place of is stopped with it.
    fn stop_replaced(&mut self, wanted: &Wanted, migrating: &BTreeSet<AllocId>) {
        let Some(previous) = wanted
            .previous
            .as_ref()
            .filter(|alloc| !alloc.server_terminal())
        else {
            return;
        };
        let description = match previous.client_status {
            ClientStatus::Failed => "alloc was rescheduled because it failed",
            ClientStatus::Lost => return,
            _ if migrating.contains(&previous.id) => "alloc is being migrated",
            // A silent one is dealt with already.
            ClientStatus::Unknown => return,
            ClientStatus::Complete => "alloc was replaced because it ended",
            ClientStatus::Pending | ClientStatus::Running => {
                "alloc is being updated due to job update"
            }
        };
        if !self.handled.contains(&previous.id) {
            self.stop(previous, description, false);
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
            victims: _,
            displaced,
        } = placement;
        let older = wanted.older.as_ref();
        // A placement in an older version is no part of the rollout.
        let deployment_id = match older {
            None => self.rollout.deployment_of(group),
            Some(_) => None,
        };
        let spec = match older {
            None => self.snapshot.job_spec(&job.key()).unwrap_or_default(),
            Some(older) => older.spec,
        };
        let canary = || AllocDeploymentStatus {
            canary: true,
            ..AllocDeploymentStatus::default()
        };
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
            spec,
            task_group: group.name.clone(),
            allocated_resources: Arc::new(resources),
            metrics: Arc::new(metrics),
            desired_status: DesiredStatus::Run,
            desired_description: String::new(),
            desired_transition: Default::default(),
            client_status: ClientStatus::Pending,
            client_description: String::new(),
            task_states: BTreeMap::new(),
            network_status: None,
            alloc_states: Vec::new(),
            deployment_id,
            deployment_status: wanted.canary.then(canary),
            followup_eval_id: None,
            previous_allocation: wanted.previous.as_ref().map(|alloc| alloc.id),
            next_allocation: None,
            reschedule_tracker: wanted.tracker.clone(),
            preempted_allocations: displaced,
            preempted_by_allocation: None,
            create_index: 0,
            modify_index: 0,
            alloc_modify_index: 0,
            create_time: self.now,
            modify_time: self.now,
        }
    }
}
