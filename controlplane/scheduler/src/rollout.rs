//! The rollout of a service's version: which deployment it is, what it lets happen now, what
//! becomes of it.
//!
//! ```text
//!   no deployment of this version --something of it is placed or changed--> begun, with this plan
//!   begun --every allocation healthy, nothing left to do--> successful, with the plan that sees it
//!   begun --a newer version, a stop--> cancelled            (failed: the leader's deadlines)
//! ```
//!
//! The state counts health and makes the next evaluation with every report of it, so a rollout goes
//! on exactly as fast as its allocations become healthy. A rollout that failed or is paused changes
//! nothing more; what it has left running runs on, and what is lost is replaced.
//!
//! Nobody waits for the health of what is silent. Such a one takes no slot of `max_parallel` (what
//! replaces it does), and where nobody takes its place the rollout is done without it, once
//! something else of its group is healthy: a host that is away holds no rollout up and fails none.
//! Back with an older version, it follows.
//!
//! Semantics and the texts that people see are Nomad's (its reconciler and deployment watcher).
//! A group with canaries, before it is promoted, is described in `reconcile::canary`.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::Snapshot;
use controlplane_state::command::DeploymentChange;
use protocol_model::{
    Allocation, ClientStatus, Deployment, DeploymentId, DeploymentState, DeploymentStatus, Job,
    JobKey, JobType, TaskGroup, UpdateStrategy,
};

use crate::reconcile::Buckets;

/// The rollout of the version that is wanted.
#[derive(Debug, Default)]
pub(crate) struct Rollout {
    /// The newest deployment of this version, whatever became of it.
    current: Option<Arc<Deployment>>,
    /// The one that begins with this plan, or that this plan says the groups of.
    begun: Option<Deployment>,
    /// Deployments whose status changes with it.
    changed: Vec<DeploymentChange>,
    /// Whether some group still has something to do.
    unfinished: bool,
    /// Only found out for a person: no turn of another region is waited for.
    is_trial: bool,
    /// How many of each group nobody waits for: they are silent, and were not healthy before.
    silent: BTreeMap<String, u32>,
}

impl Rollout {
    /// The rollout of `job`; without a job, everything that is under way is cancelled. As a trial,
    /// it shows what a version does once it is this region's turn.
    pub(crate) fn of(snapshot: &Snapshot, key: &JobKey, job: Option<&Job>, is_trial: bool) -> Self {
        let mut rollout = Self {
            is_trial,
            ..Self::default()
        };
        for deployment in snapshot.deployments_by_job(key) {
            let ours = job.is_some_and(|job| {
                deployment.job_version == job.version
                    && deployment.job_create_index == job.create_index
            });
            if ours {
                let newest = rollout
                    .current
                    .as_ref()
                    .is_none_or(|known| known.create_index < deployment.create_index);
                if newest {
                    rollout.current = Some(Arc::clone(deployment));
                }
            } else if deployment.status.is_active() {
                let text = job.map_or(Deployment::JOB_STOPPED, |_| Deployment::NEWER_VERSION);
                rollout.turn(deployment, DeploymentStatus::Cancelled, text);
            }
        }
        rollout
    }

    /// The newest deployment of this version, whatever became of it.
    pub(crate) fn current(&self) -> Option<&Deployment> {
        self.current.as_deref()
    }

    /// How many canaries the group asks for where its version begins.
    pub(crate) fn canaries_wanted(&self, job: &Job, group: &TaskGroup) -> u32 {
        strategy(job, group).map_or(0, UpdateStrategy::canary)
    }

    /// Whether nothing of this version may be added or changed: somebody paused it, it failed, or
    /// it is another region's turn.
    pub(crate) fn is_halted(&self) -> bool {
        let stopped = matches!(
            self.status(),
            Some(DeploymentStatus::Paused | DeploymentStatus::Failed)
        );
        stopped || self.is_withheld()
    }

    /// Whether the older version stands for this one, of which nothing was placed yet: see
    /// [`Deployment::is_withheld`].
    pub(crate) fn is_withheld(&self) -> bool {
        !self.is_trial && self.current().is_some_and(Deployment::is_withheld)
    }

    /// Whether this allocation belongs to a rollout that failed: it is not tried elsewhere, because
    /// it would fail there as well.
    pub(crate) fn gave_up_on(&self, alloc: &Allocation) -> bool {
        self.status() == Some(DeploymentStatus::Failed)
            && alloc.deployment_id.is_some()
            && alloc.deployment_id == self.current.as_ref().map(|current| current.id)
    }

    /// How many of the group may be replaced now: `max_parallel`, less those that were and are not
    /// healthy yet. None, while one of them is unhealthy. One that is silent is waited for no
    /// longer: where it is placed anew, that one counts.
    pub(crate) fn limit(
        &self,
        job: &Job,
        group: &TaskGroup,
        existing: &[Arc<Allocation>],
        is_silent: impl Fn(&Allocation) -> bool,
    ) -> usize {
        let Some(strategy) = strategy(job, group) else {
            return usize::MAX;
        };
        let parallel = usize::try_from(strategy.max_parallel()).unwrap_or(usize::MAX);
        let Some(current) = &self.current else {
            return parallel;
        };
        if self.is_halted() {
            return 0;
        }
        let mut limit = parallel;
        for alloc in members(current, existing) {
            match health(alloc) {
                Some(true) => {}
                Some(false) => return 0,
                None if is_silent(alloc) => {}
                None => limit = limit.saturating_sub(1),
            }
        }
        limit
    }

    /// What becomes of those that are to be replaced later than now, where the rollout is over and
    /// no report of health makes an evaluation any more. `leaves`: who goes with this plan.
    pub(crate) fn holds_up(
        &self,
        existing: &[Arc<Allocation>],
        leaves: impl Fn(&Allocation) -> bool,
    ) -> HeldUp {
        let members = self.current.iter().flat_map(|it| members(it, existing));
        let staying = members.filter(|alloc| !leaves(alloc));
        let worst = staying.map(|alloc| match health(alloc) {
            Some(true) => HeldUp::No,
            None if alloc.client_terminal() => HeldUp::No,
            None if alloc.client_status == ClientStatus::Unknown => HeldUp::No,
            None => HeldUp::UntilJudged,
            Some(false) => HeldUp::ForGood,
        });
        worst.max().unwrap_or(HeldUp::No)
    }

    /// Takes in what is to be done for a group. Begins a deployment with it, where this version has
    /// none yet and something of it comes to be.
    pub(crate) fn take_in(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        buckets: &Buckets,
        existing: &[Arc<Allocation>],
        new_id: impl FnOnce() -> DeploymentId,
    ) {
        self.unfinished |= !buckets.is_quiet(job);
        self.note_silent(group, buckets);
        let Some(strategy) = strategy(job, group) else {
            return;
        };
        let is_first = !existing.iter().any(|alloc| {
            alloc.job_version == job.version && alloc.job_create_index == job.create_index
        });
        let updates = !(buckets.canaries.is_none()
            && buckets.destructive.is_empty()
            && buckets.in_place.is_empty()
            && buckets.later.is_empty());
        let goes_on = match &self.current {
            None => is_first || updates,
            Some(current) => current.lacks_groups(),
        };
        if group.count() == 0 || !goes_on {
            return;
        }
        let known = self.current.as_deref();
        let begun = self.begun.get_or_insert_with(|| {
            known
                .cloned()
                .unwrap_or_else(|| new_deployment(job, new_id()))
        });
        let state = DeploymentState {
            auto_revert: strategy.auto_revert(),
            auto_promote: strategy.auto_promote(),
            progress_deadline: strategy.progress_deadline(),
            desired_total: group.count(),
            // Also where none finds room: promotion waits for them all the same (Nomad #20308).
            desired_canaries: buckets.canaries.unwrap_or(0),
            ..DeploymentState::default()
        };
        begun.task_groups.insert(group.name.clone(), state);
        begun.status_description = begun.running_description().to_owned();
    }

    /// The deployment that begins or goes on with this plan, or ends with it.
    pub(crate) fn under_way(&self) -> Option<&Deployment> {
        let goes_on = |current: &&Deployment| current.status.is_active();
        let current = self.current.as_deref().filter(goes_on);
        self.begun.as_ref().or(current)
    }

    /// The deployment that counts what the group places or changes now.
    pub(crate) fn deployment_of(&self, group: &TaskGroup) -> Option<DeploymentId> {
        let deployment = self.under_way()?;
        deployment
            .task_groups
            .contains_key(&group.name)
            .then_some(deployment.id)
    }

    /// The deployments of the plan: the one that begins, and the ones that change.
    pub(crate) fn into_plan(mut self) -> (Option<Arc<Deployment>>, Vec<DeploymentChange>) {
        if let Some(current) = self.current.clone()
            && current.status == DeploymentStatus::Running
            && !self.unfinished
            && self.begun.is_none()
            && current
                .task_groups
                .iter()
                .all(|(name, group)| self.is_done(name, group))
        {
            self.turn(
                &current,
                DeploymentStatus::Successful,
                Deployment::SUCCESSFUL,
            );
        }
        if let Some(current) = self.current.clone()
            && current.status == DeploymentStatus::Initializing
        {
            self.turn(
                &current,
                DeploymentStatus::Pending,
                Deployment::PENDING_FOR_PEER,
            );
        }
        (self.begun.map(Arc::new), self.changed)
    }

    fn note_silent(&mut self, group: &TaskGroup, buckets: &Buckets) {
        let current = self.current.as_ref().map(|current| current.id);
        let is_healthy = |alloc: &&Arc<Allocation>| {
            current.is_some() && alloc.deployment_id == current && health(alloc) == Some(true)
        };
        let waited_for = buckets.waited_for.iter();
        let silent = waited_for.filter(|alloc| !is_healthy(alloc)).count();
        if silent > 0 {
            let silent = u32::try_from(silent).unwrap_or(u32::MAX);
            self.silent.insert(group.name.clone(), silent);
        }
    }

    /// Whether everything of a group is healthy that can be heard, and something is. Not before its
    /// canaries are promoted.
    fn is_done(&self, name: &str, group: &DeploymentState) -> bool {
        if group.awaits_promotion() {
            return false;
        }
        let silent = self.silent.get(name).copied().unwrap_or(0);
        let enough = group.healthy_allocs.saturating_add(silent) >= group.desired_total;
        enough && (silent == 0 || group.healthy_allocs > 0)
    }

    fn status(&self) -> Option<DeploymentStatus> {
        self.current.as_ref().map(|current| current.status)
    }

    fn turn(&mut self, deployment: &Deployment, status: DeploymentStatus, text: &str) {
        self.changed.push(DeploymentChange {
            id: deployment.id,
            status,
            description: text.to_owned(),
            from: Some(deployment.status),
        });
    }
}

/// Whether members of a rollout that is over hold up what is still to be replaced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HeldUp {
    /// They do not.
    No,
    /// One is not judged yet. It will be: its node does that once.
    UntilJudged,
    /// One is unhealthy, and is judged no more. What ends it makes an evaluation.
    ForGood,
}

/// What of a group a deployment placed or changed, and that stands or ended by itself without a
/// successor yet.
fn members<'a>(
    deployment: &Deployment,
    existing: &'a [Arc<Allocation>],
) -> impl Iterator<Item = &'a Arc<Allocation>> {
    let id = deployment.id;
    existing
        .iter()
        .filter(move |alloc| alloc.deployment_id == Some(id) && !alloc.server_terminal())
        .filter(|alloc| alloc.client_status != ClientStatus::Lost)
}

fn health(alloc: &Allocation) -> Option<bool> {
    alloc.deployment_status.as_ref().and_then(|it| it.healthy)
}

/// How a group is rolled out; nothing where all of it is replaced at once, without a deployment.
fn strategy<'a>(job: &Job, group: &'a TaskGroup) -> Option<&'a UpdateStrategy> {
    group
        .update
        .as_ref()
        .filter(|update| job.job_type == JobType::Service && update.max_parallel() > 0)
}

/// A version's deployment without groups.
fn new_deployment(job: &Job, id: DeploymentId) -> Deployment {
    Deployment {
        id,
        namespace: job.namespace.clone(),
        job_id: job.id.clone(),
        job_version: job.version,
        job_modify_index: job.modify_index,
        job_spec_modify_index: job.job_modify_index,
        job_create_index: job.create_index,
        is_multiregion: false,
        task_groups: Default::default(),
        status: DeploymentStatus::Running,
        status_description: String::new(),
        eval_priority: job.priority,
        create_index: 0,
        modify_index: 0,
        create_time: Default::default(),
        modify_time: Default::default(),
    }
}
