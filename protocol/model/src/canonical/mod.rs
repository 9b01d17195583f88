//! Canonicalization: every value that a job file leaves out is filled in, so that the scheduler,
//! the nodes and the API's readers never have to know a default.
//!
//! ```text
//! job ──► groups (job-level update, reschedule, migrate merged in) ──► tasks (group's restart)
//!  │        └─ networks, services, scaling, volumes                      └─ templates, files...
//!  └─ periodic, parameterized, constraints
//! ```
//!
//! It is idempotent, and a job that a server answered may be sent back: its canonical form is the
//! same again.

pub mod defaults;
mod group;
mod policy;
mod service;
mod task;

use crate::group::TaskGroup;
use crate::ids::DEFAULT_NAMESPACE;
use crate::job::{Job, JobType};
use crate::placement::{Affinity, Constraint, Spread};
use crate::policy::{MigrateStrategy, ReschedulePolicy, UpdateStrategy};

/// What the parts of a job need to know about it while they are filled in.
struct JobContext {
    job_type: JobType,
    namespace: String,
    id: String,
    name: String,
    update: Option<UpdateStrategy>,
    reschedule: Option<ReschedulePolicy>,
    migrate: Option<MigrateStrategy>,
}

impl Job {
    /// Fills in everything that is absent, as Nomad does for a job of this type.
    ///
    /// Idempotent. It never refuses: wrong values stay, for [`Job::validate`] to name.
    pub fn canonicalize(&mut self) {
        set_if_empty(&mut self.region, defaults::REGION);
        set_if_empty(&mut self.namespace, DEFAULT_NAMESPACE);
        set_if_empty(&mut self.node_pool, defaults::NODE_POOL);
        if self.name.is_empty() {
            self.name.clone_from(&self.id);
        }
        if self.priority == 0 {
            self.priority = defaults::PRIORITY;
        }
        if self.datacenters.is_empty() {
            self.datacenters.push(defaults::DATACENTERS.to_owned());
        }
        self.consul_token = None;
        self.vault_token = None;
        canonicalize_constraints(&mut self.constraints);
        canonicalize_affinities(&mut self.affinities);
        canonicalize_spreads(&mut self.spreads);
        if let Some(periodic) = &mut self.periodic {
            periodic.enabled.get_or_insert(true);
            set_if_empty(&mut periodic.spec_type, "cron");
            set_if_empty(&mut periodic.time_zone, "UTC");
        }
        if let Some(parameterized) = &mut self.parameterized_job {
            set_if_empty(&mut parameterized.payload, "optional");
        }
        self.canonicalize_groups();
    }

    fn canonicalize_groups(&mut self) {
        let context = JobContext {
            job_type: self.job_type,
            namespace: self.namespace.clone(),
            id: self.id.clone(),
            name: self.name.clone(),
            update: policy::job_update(self.job_type, self.update.take()),
            reschedule: self.reschedule.take(),
            migrate: self.migrate.take(),
        };
        for group in &mut self.task_groups {
            group.canonicalize(&context);
        }
        self.update = Some(policy::job_update_remainder(context.update.as_ref()));
    }
}

fn set_if_empty(field: &mut String, value: &str) {
    if field.is_empty() {
        value.clone_into(field);
    }
}

fn canonicalize_constraints(constraints: &mut [Constraint]) {
    for constraint in constraints {
        set_if_empty(&mut constraint.operand, "=");
    }
}

fn canonicalize_affinities(affinities: &mut [Affinity]) {
    for affinity in affinities {
        set_if_empty(&mut affinity.operand, "=");
        affinity.weight.get_or_insert(defaults::AFFINITY_WEIGHT);
    }
}

fn canonicalize_spreads(spreads: &mut [Spread]) {
    for spread in spreads {
        spread.weight.get_or_insert(defaults::SPREAD_WEIGHT);
    }
}

impl JobContext {
    /// The name of a service that has none.
    fn service_name(&self, group: &str, task: Option<&str>) -> String {
        match task {
            Some(task) => format!("{}-{group}-{task}", self.name),
            None => format!("{}-{group}", self.name),
        }
    }

    /// Replaces the variables that names of services may contain.
    fn expand_service_name(&self, name: &str, group: &str, task: Option<&str>) -> String {
        let task = task.unwrap_or("group");
        let base = format!("{}-{group}-{task}", self.name);
        let pairs = [
            ("${JOB}", self.name.as_str()),
            ("${TASKGROUP}", group),
            ("${TASK}", task),
            ("${BASE}", &base),
        ];
        pairs
            .iter()
            .fold(name.to_owned(), |text, (variable, value)| {
                text.replace(variable, value)
            })
    }
}

/// How many allocations a group gets that says nothing: the least its scaling allows, else one.
fn default_count(group: &TaskGroup) -> u32 {
    group
        .scaling
        .as_ref()
        .and_then(|scaling| scaling.min)
        .unwrap_or(1)
}
