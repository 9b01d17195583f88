//! Deployments: made by plans, counted with every allocation, ended by the leader's watcher.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentId, DeploymentState,
    DeploymentStatus, Evaluation, UnixNanos,
};

use super::draft::{AllocTouch, Draft};
use super::plan::IfOver;
use crate::applied::{Outcome, Refusal, Signal};
use crate::command::{DeploymentChange, DeploymentStatusUpdate, PromoteGroups};
use crate::record::DeploymentRecord;

impl Draft {
    /// A plan's deployment: a new one, or new numbers of one that goes on. The counters are the
    /// state's.
    pub(super) fn upsert_deployment(&mut self, plan: &Deployment) -> Result<(), Refusal> {
        let existing = self.tables.deployments.get(&plan.id).cloned();
        let mut deployment = plan.clone();
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        let spec = match &existing {
            None => {
                deployment.create_index = self.index;
                deployment.create_time = self.now;
                let versions = self.tables.job_versions.get(&deployment.job_key());
                versions
                    .and_then(|versions| versions.get(&deployment.job_version))
                    .map(|version| version.spec)
            }
            Some(record) => {
                let before = &record.deployment;
                if before.job_key() != deployment.job_key() {
                    return Err(Refusal::malformed("a deployment cannot change its job"));
                }
                if !before.status.is_active() {
                    return Err(Refusal::DeploymentTerminal(plan.id));
                }
                deployment.create_index = before.create_index;
                deployment.create_time = before.create_time;
                record.spec
            }
        };
        for (name, state) in &mut deployment.task_groups {
            let before = existing
                .as_ref()
                .and_then(|record| record.deployment.task_groups.get(name).cloned());
            keep_counters(state, before.unwrap_or_default());
        }
        self.signal(Signal::DeploymentChanged(deployment.id));
        self.tables.put_deployment(DeploymentRecord {
            deployment: Arc::new(deployment),
            spec,
        });
        Ok(())
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
            group.require_progress_by = Some(progress_by(self.now, group.progress_deadline));
        }
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        self.tables.put_deployment(DeploymentRecord {
            deployment: Arc::new(deployment),
            spec,
        });
        self.signal(Signal::DeploymentChanged(id));
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
        } = change;
        let Some(record) = self.tables.deployments.get(id) else {
            return Err(Refusal::UnknownDeployment(*id));
        };
        if !record.deployment.status.is_active() {
            return match if_over {
                IfOver::Ignore => Ok(()),
                IfOver::Refuse => Err(Refusal::DeploymentTerminal(*id)),
            };
        }
        let mut deployment = Deployment::clone(&record.deployment);
        let spec = record.spec;
        deployment.status = *status;
        deployment.status_description.clone_from(description);
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        let (key, version) = (deployment.job_key(), deployment.job_version);
        let create_index = deployment.job_create_index;
        self.tables.put_deployment(DeploymentRecord {
            deployment: Arc::new(deployment),
            spec,
        });
        self.signal(Signal::DeploymentChanged(*id));
        let same_job = self
            .tables
            .job(&key)
            .is_some_and(|job| job.create_index == create_index);
        if *status == DeploymentStatus::Successful && same_job {
            self.mark_stable(&key, version, true);
        }
        Ok(())
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

    pub(crate) fn deployment_promote(
        &mut self,
        id: DeploymentId,
        groups: &PromoteGroups,
        eval: Option<Evaluation>,
    ) -> Result<Outcome, Refusal> {
        let Some(record) = self.tables.deployments.get(&id) else {
            return Err(Refusal::UnknownDeployment(id));
        };
        if !record.deployment.status.is_active() {
            return Err(Refusal::DeploymentTerminal(id));
        }
        let mut deployment = Deployment::clone(&record.deployment);
        let spec = record.spec;
        let wanted = |name: &String| match groups {
            PromoteGroups::All => true,
            PromoteGroups::Named(names) => names.contains(name),
        };
        let mut canaries: BTreeSet<AllocId> = BTreeSet::new();
        for (name, group) in &mut deployment.task_groups {
            if group.desired_canaries == 0 || group.promoted || !wanted(name) {
                continue;
            }
            if self.healthy_canaries(group) < group.desired_canaries as usize {
                return Err(Refusal::NotPromotable(id));
            }
            group.promoted = true;
            canaries.extend(&group.placed_canaries);
        }
        if canaries.is_empty() {
            return Err(Refusal::NotPromotable(id));
        }
        deployment.modify_index = self.index;
        deployment.modify_time = self.now;
        self.tables.put_deployment(DeploymentRecord {
            deployment: Arc::new(deployment),
            spec,
        });
        self.signal(Signal::DeploymentChanged(id));
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

    fn healthy_canaries(&self, group: &DeploymentState) -> usize {
        group
            .placed_canaries
            .iter()
            .filter_map(|id| self.tables.alloc(*id))
            .filter(|alloc| {
                !alloc.terminal()
                    && alloc
                        .deployment_status
                        .as_ref()
                        .is_some_and(|status| status.is_healthy())
            })
            .count()
    }

    pub(crate) fn deployment_alloc_health(
        &mut self,
        id: DeploymentId,
        healthy: &[AllocId],
        unhealthy: &[AllocId],
        eval: Option<Evaluation>,
        change: Option<DeploymentChange>,
    ) -> Result<Outcome, Refusal> {
        let Some(deployment) = self.tables.deployment(id) else {
            return Err(Refusal::UnknownDeployment(id));
        };
        if !deployment.status.is_active() {
            return Err(Refusal::DeploymentTerminal(id));
        }
        let marks = healthy
            .iter()
            .map(|alloc| (*alloc, true))
            .chain(unhealthy.iter().map(|alloc| (*alloc, false)));
        for (alloc_id, is_healthy) in marks {
            let Some(alloc) = self
                .tables
                .alloc(alloc_id)
                .filter(|alloc| alloc.deployment_id == Some(id))
            else {
                return Err(Refusal::UnknownAlloc(alloc_id));
            };
            let mut alloc = Allocation::clone(alloc);
            let status = alloc
                .deployment_status
                .get_or_insert_with(AllocDeploymentStatus::default);
            status.healthy = Some(is_healthy);
            status.timestamp = Some(self.now);
            status.modify_index = self.index;
            self.put_alloc(alloc, AllocTouch::Known);
        }
        if let Some(change) = change {
            self.change_deployment(&change, IfOver::Refuse)?;
        }
        self.put_deployment_eval(eval)
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

fn progress_by(now: UnixNanos, deadline: Duration) -> UnixNanos {
    now.saturating_add(deadline)
}
