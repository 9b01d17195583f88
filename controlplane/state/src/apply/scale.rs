//! Scaling: the count of one group, within its bounds, and the events that are kept of it.

use std::sync::Arc;

use protocol_model::{Job, JobKey, SCALING_EVENTS_MAX, ScalingEvent};

use super::draft::Draft;
use crate::applied::{Outcome, Refusal, ScaleRefusal};
use crate::command::JobScale;
use crate::record::JobRecord;
use crate::tables::{Table, Tables};

impl Tables {
    /// Whether a group of a job may get this count now.
    fn check_scale(&self, job: &Job, group: &str, count: i64) -> Result<(), ScaleRefusal> {
        let group = job
            .task_group(group)
            .ok_or_else(|| ScaleRefusal::UnknownGroup(group.to_owned()))?;
        if job.job_type.is_per_node() && !(0..=1).contains(&count) {
            return Err(ScaleRefusal::PerNode(job.job_type));
        }
        if let Some(scaling) = &group.scaling {
            if let Some(min) = scaling.min
                && count < i64::from(min)
            {
                return Err(ScaleRefusal::BelowMinimum { count, min });
            }
            if let Some(max) = scaling.max
                && count > i64::from(max)
            {
                return Err(ScaleRefusal::AboveMaximum { count, max });
            }
        }
        let rollout = self.latest_deployment(&job.key());
        let active = rollout.is_some_and(|found| {
            found.status.is_active() && found.job_create_index == job.create_index
        });
        if active {
            return Err(ScaleRefusal::ActiveDeployment);
        }
        Ok(())
    }
}

impl Draft {
    pub(crate) fn job_scale(&mut self, command: JobScale) -> Result<Outcome, Refusal> {
        let JobScale {
            key,
            group,
            mut event,
            register,
        } = command;
        let Some(job) = self.tables.job(&key).cloned() else {
            return Err(Refusal::UnknownJob(key));
        };
        let Some(before) = job.task_group(&group) else {
            return Err(Refusal::Scale(ScaleRefusal::UnknownGroup(group)));
        };
        event.previous_count = before.count.map_or(0, i64::from);
        event.time = self.now;
        event.create_index = self.index;
        event.eval_id = None;
        let outcome = match (event.count, register) {
            (Some(count), Some(register)) => {
                if register.job.key() != key {
                    return Err(Refusal::malformed("the scaled job is another one"));
                }
                self.check_register(&register)?;
                self.tables
                    .check_scale(&job, &group, count)
                    .map_err(Refusal::Scale)?;
                let eval = register.eval.as_ref().map(|eval| eval.id.to_string());
                event.eval_id = eval;
                self.job_register(register)?
            }
            (None, None) => Outcome::JobRegistered {
                version: job.version,
                job_modify_index: job.job_modify_index,
                eval: None,
            },
            (Some(_), None) | (None, Some(_)) => {
                return Err(Refusal::malformed("a count comes with the job that has it"));
            }
        };
        self.put_scaling_event(&key, &group, event);
        Ok(outcome)
    }

    fn put_scaling_event(&mut self, key: &JobKey, group: &str, event: ScalingEvent) {
        let Some(record) = self.tables.jobs.get(key) else {
            return;
        };
        let mut record = JobRecord::clone(record);
        let events = record.scaling.entry(group.to_owned()).or_default();
        events.insert(0, event);
        events.truncate(SCALING_EVENTS_MAX);
        self.tables.jobs.insert(key.clone(), Arc::new(record));
        self.tables.touch(Table::Jobs);
    }
}
