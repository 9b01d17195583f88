//! Deployments: made by plans, or with their version (`multiregion`); counted with every
//! allocation, ended by the leader's watcher.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentId, DeploymentState,
    DeploymentStatus, Evaluation, SpecHash, UnixNanos,
};

use super::draft::{AllocTouch, Draft};
use super::plan::IfOver;
use crate::applied::{Outcome, Refusal, ShortOfCanaries, Signal};
use crate::command::{
    DeploymentAllocHealth, DeploymentChange, DeploymentPromote, DeploymentStatusUpdate,
    PromoteGroups,
};
use crate::record::DeploymentRecord;

impl Draft {
    /// A plan's deployment: a new one, or new numbers of one that goes on. The counters are the
    /// state's.
    pub(super) fn upsert_deployment(&mut self, plan: &Deployment) -> Result<(), Refusal> {
        if let Some(record) = self.tables.deployments.get(&plan.id).cloned() {
            return self.renumber_deployment(&record, plan);
        }
        let mut deployment = plan.clone();
        deployment.create_index = self.index;
        deployment.create_time = self.now;
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        for state in deployment.task_groups.values_mut() {
            keep_counters(state, DeploymentState::default());
        }
        let versions = self.tables.job_versions.get(&deployment.job_key());
        let spec = versions
            .and_then(|versions| versions.get(&deployment.job_version))
            .map(|version| version.spec);
        self.put_deployment(deployment, spec);
        Ok(())
    }

    /// New numbers of a deployment that goes on. Its status, its description and its promotions
    /// are not the plan's: they may have changed since the plan's snapshot.
    fn renumber_deployment(
        &mut self,
        record: &DeploymentRecord,
        plan: &Deployment,
    ) -> Result<(), Refusal> {
        if record.deployment.job_key() != plan.job_key() {
            return Err(Refusal::malformed("a deployment cannot change its job"));
        }
        if !record.deployment.status.is_active() {
            return Err(Refusal::DeploymentTerminal(plan.id));
        }
        let mut deployment = Deployment::clone(&record.deployment);
        for (name, numbers) in &plan.task_groups {
            let group = deployment.task_groups.entry(name.clone()).or_default();
            let mut numbers = numbers.clone();
            keep_counters(&mut numbers, std::mem::take(group));
            *group = numbers;
        }
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        self.put_deployment(deployment, record.spec);
        Ok(())
    }

    pub(super) fn put_deployment(&mut self, deployment: Deployment, spec: Option<SpecHash>) {
        let id = deployment.id;
        self.tables.put_deployment(DeploymentRecord {
            deployment: Arc::new(deployment),
            spec,
        });
        self.signal(Signal::DeploymentChanged(id));
    }

    /// Counts a changed allocation in the deployment that it belongs to.
    pub(super) fn count_in_deployment(&mut self, before: Option<&Allocation>, after: &Allocation) {
        let Some(id) = after.deployment_id else {
            return;
        };
        let Some(record) = self.tables.deployments.get(&id) else {
            return;
        };
        let joined = before.is_none_or(|before| before.deployment_id != Some(id));
        let health_before = before
            .filter(|_| !joined)
            .and_then(|before| before.deployment_status.as_ref())
            .and_then(|status| status.healthy);
        let health = after
            .deployment_status
            .as_ref()
            .and_then(|status| status.healthy);
        if !joined && health_before == health {
            return;
        }
        let mut deployment = Deployment::clone(&record.deployment);
        let spec = record.spec;
        let Some(group) = deployment.task_groups.get_mut(&after.task_group) else {
            return;
        };
        if joined {
            group.placed_allocs = group.placed_allocs.saturating_add(1);
            let canary = after
                .deployment_status
                .as_ref()
                .is_some_and(|status| status.canary);
            if canary && !group.placed_canaries.contains(&after.id) {
                group.placed_canaries.push(after.id);
            }
        }
        count_health(group, health_before, health);
        let progressed = joined && group.require_progress_by.is_none() || health == Some(true);
        if progressed && group.progress_deadline > Duration::ZERO {
            group.require_progress_by = progress_by(self.now, group);
        }
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        self.put_deployment(deployment, spec);
    }

    /// Puts a deployment's new status; a success makes its version one to go back to.
    pub(super) fn change_deployment(
        &mut self,
        change: &DeploymentChange,
        if_over: IfOver,
    ) -> Result<(), Refusal> {
        let DeploymentChange {
            id,
            status,
            description,
            from,
        } = change;
        let record = match self.startable(*id, *from) {
            Ok(record) => record,
            Err(Refusal::DeploymentTerminal(_)) if if_over == IfOver::Ignore => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let mut deployment = Deployment::clone(&record.deployment);
        // A pause takes no time of the rollout's.
        if status.is_active() && *status != deployment.status {
            for group in deployment.task_groups.values_mut() {
                if group.require_progress_by.is_some() {
                    group.require_progress_by = progress_by(self.now, group);
                }
            }
        }
        deployment.status = *status;
        deployment.status_description.clone_from(description);
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        let (key, version) = (deployment.job_key(), deployment.job_version);
        let create_index = deployment.job_create_index;
        self.put_deployment(deployment, record.spec);
        let same_job = self
            .tables
            .job(&key)
            .is_some_and(|job| job.create_index == create_index);
        if *status == DeploymentStatus::Successful && same_job {
            self.mark_stable(&key, version, true);
        }
        Ok(())
    }

    /// The deployment that a change starts from, if it is active and still has the status `from`.
    fn startable(
        &self,
        id: DeploymentId,
        from: Option<DeploymentStatus>,
    ) -> Result<DeploymentRecord, Refusal> {
        let Some(record) = self.tables.deployments.get(&id) else {
            return Err(Refusal::UnknownDeployment(id));
        };
        let found = record.deployment.status;
        if !found.is_active() {
            return Err(Refusal::DeploymentTerminal(id));
        }
        if from.is_some_and(|from| from != found) {
            return Err(Refusal::DeploymentMoved { id, found });
        }
        Ok(record.clone())
    }

    pub(crate) fn deployment_status(
        &mut self,
        update: DeploymentStatusUpdate,
    ) -> Result<Outcome, Refusal> {
        let DeploymentStatusUpdate {
            change,
            revert,
            eval,
        } = update;
        let (change, revert) = self.without_denied_revert(change, revert);
        self.change_deployment(&change, IfOver::Refuse)?;
        if let Some(revert) = revert {
            self.job_register(revert)?;
        }
        self.put_deployment_eval(eval)
    }

    fn put_deployment_eval(&mut self, eval: Option<Evaluation>) -> Result<Outcome, Refusal> {
        let Some(mut eval) = eval else {
            return Ok(Outcome::Evaluated(Vec::new()));
        };
        self.check_eval(&eval)?;
        if let Some(job) = self.tables.job(&eval.job_key()) {
            eval.job_modify_index = job.job_modify_index;
        }
        let id = eval.id;
        self.put_eval(eval);
        Ok(Outcome::Evaluated(vec![id]))
    }

    /// Promotes groups, all of those named or none. To promote a group again, or one without
    /// canaries, changes nothing.
    pub(crate) fn deployment_promote(
        &mut self,
        command: DeploymentPromote,
    ) -> Result<Outcome, Refusal> {
        let DeploymentPromote {
            id,
            groups,
            eval,
            from,
        } = command;
        let record = self.startable(id, from)?;
        let mut deployment = Deployment::clone(&record.deployment);
        let wanted = match groups {
            PromoteGroups::All => deployment.task_groups.keys().cloned().collect(),
            PromoteGroups::Named(names) => names,
        };
        let mut short = Vec::new();
        let mut canaries: BTreeSet<AllocId> = BTreeSet::new();
        for name in wanted {
            let Some(group) = deployment.task_groups.get_mut(&name) else {
                return Err(Refusal::UnknownDeploymentGroup { id, group: name });
            };
            if !group.awaits_promotion() {
                continue;
            }
            let healthy = group.healthy_canaries(|id| self.tables.alloc(id).map(|it| &**it));
            if healthy < group.desired_canaries {
                short.push(ShortOfCanaries {
                    group: name,
                    healthy,
                    desired: group.desired_canaries,
                });
                continue;
            }
            group.promoted = true;
            group.require_progress_by = progress_by(self.now, group);
            canaries.extend(&group.placed_canaries);
        }
        if !short.is_empty() {
            return Err(Refusal::NotPromotable(short));
        }
        if !canaries.is_empty() {
            if deployment.status == DeploymentStatus::Running {
                deployment.status_description = deployment.running_description().to_owned();
            }
            deployment.modify_index = self.index;
            deployment.modify_time = self.now;
            self.put_deployment(deployment, record.spec);
        }
        for canary in canaries {
            let Some(alloc) = self.tables.alloc(canary) else {
                continue;
            };
            let mut alloc = Allocation::clone(alloc);
            if let Some(status) = &mut alloc.deployment_status {
                status.canary = false;
                status.modify_index = self.index;
            }
            self.put_alloc(alloc, AllocTouch::Desired);
        }
        self.put_deployment_eval(eval)
    }

    /// Marks allocations of a deployment as healthy or not; all of them, or none.
    pub(crate) fn deployment_alloc_health(
        &mut self,
        command: DeploymentAllocHealth,
    ) -> Result<Outcome, Refusal> {
        let DeploymentAllocHealth {
            id,
            healthy,
            unhealthy,
            eval,
            change,
            revert,
        } = command;
        self.startable(id, None)?;
        let healthy = healthy.into_iter().map(|alloc| (alloc, true));
        let unhealthy = unhealthy.into_iter().map(|alloc| (alloc, false));
        for (alloc_id, is_healthy) in healthy.chain(unhealthy) {
            let Some(alloc) = self.tables.alloc(alloc_id) else {
                return Err(Refusal::UnknownAlloc(alloc_id));
            };
            if alloc.deployment_id != Some(id) {
                return Err(Refusal::NotOfDeployment {
                    alloc: alloc_id,
                    deployment: id,
                });
            }
            let mut alloc = Allocation::clone(alloc);
            let status = alloc
                .deployment_status
                .get_or_insert_with(AllocDeploymentStatus::default);
            status.healthy = Some(is_healthy);
            status.timestamp = Some(self.now);
            status.modify_index = self.index;
            self.put_alloc(alloc, AllocTouch::Known);
        }
        let mut revert = revert;
        if let Some(change) = change {
            let (change, allowed) = self.without_denied_revert(change, revert);
            self.change_deployment(&change, IfOver::Refuse)?;
            revert = allowed;
        }
        if let Some(revert) = revert {
            self.job_register(revert)?;
        }
        self.put_deployment_eval(eval)
    }

    /// Whether the canaries of a plan's allocation were promoted since the plan's snapshot.
    pub(super) fn is_promoted(&self, alloc: &Allocation) -> bool {
        let deployment = alloc
            .deployment_id
            .and_then(|id| self.tables.deployment(id));
        deployment
            .and_then(|deployment| deployment.task_groups.get(&alloc.task_group))
            .is_some_and(|group| group.promoted)
    }
}

/// What the state counts stays; what the plan decides is taken.
fn keep_counters(state: &mut DeploymentState, before: DeploymentState) {
    state.require_progress_by = before.require_progress_by;
    state.promoted = before.promoted || state.promoted;
    state.placed_canaries = before.placed_canaries;
    state.placed_allocs = before.placed_allocs;
    state.healthy_allocs = before.healthy_allocs;
    state.unhealthy_allocs = before.unhealthy_allocs;
}

fn count_health(group: &mut DeploymentState, before: Option<bool>, after: Option<bool>) {
    if before == after {
        return;
    }
    match before {
        Some(true) => group.healthy_allocs = group.healthy_allocs.saturating_sub(1),
        Some(false) => group.unhealthy_allocs = group.unhealthy_allocs.saturating_sub(1),
        None => {}
    }
    match after {
        Some(true) => group.healthy_allocs = group.healthy_allocs.saturating_add(1),
        Some(false) => group.unhealthy_allocs = group.unhealthy_allocs.saturating_add(1),
        None => {}
    }
}

/// When the next progress of a group is due, if it progresses now.
fn progress_by(now: UnixNanos, group: &DeploymentState) -> Option<UnixNanos> {
    let deadline = group.progress_deadline;
    (deadline > Duration::ZERO).then(|| now.saturating_add(deadline))
}
