//! Jobs that are launched from templates: dispatches, and the part that every launch shares.

use protocol_model::{Job, JobKey};

use super::draft::Draft;
use crate::applied::{Launched, Outcome, Refusal};
use crate::command::ChildJob;

impl Draft {
    /// Launches a child of a parameterized job, unless its idempotency token was used before.
    pub(crate) fn job_dispatch(&mut self, child: ChildJob) -> Result<Outcome, Refusal> {
        let parent = child.parent();
        if !child.job.dispatched {
            return Err(Refusal::malformed("a dispatched job says so"));
        }
        let Some(template) = self.tables.job(&parent) else {
            return Err(Refusal::UnknownJob(parent));
        };
        if !template.is_parameterized() {
            return Err(Refusal::NotParameterized(parent));
        }
        let token = &child.job.dispatch_idempotency_token;
        if let Some(known) = self.tables.dispatched_with(&parent, token) {
            let child = known.key();
            let create_index = known.create_index;
            let eval = None;
            return Ok(Outcome::JobDispatched(Launched {
                child,
                create_index,
                eval,
            }));
        }
        self.register_child(child).map(Outcome::JobDispatched)
    }

    /// Registers a child with its evaluation. The template has to exist, to be active, and to be
    /// the version that the child was made from; the child's id has to be free, and its namespace
    /// has to take it: it may have changed since the template was registered. Rules of one kind
    /// of launch (tokens, overlap, due times) are the caller's.
    pub(super) fn register_child(&mut self, child: ChildJob) -> Result<Launched, Refusal> {
        let parent = child.parent();
        let ChildJob {
            job,
            spec,
            parent_index,
            eval,
        } = child;
        let key = job.key();
        self.check_template(&parent, parent_index)?;
        if !is_below(&key, &parent) {
            return Err(Refusal::malformed("a child's id begins with its parent's"));
        }
        self.tables.check_namespace_of_job(&job)?;
        if self.tables.job(&key).is_some() {
            return Err(Refusal::ChildExists(key));
        }
        self.check_eval_of(&key, eval.as_ref())?;
        self.put_new_version(&key, Job::clone(&job), spec, None);
        let eval = self.put_job_eval(eval, self.index);
        Ok(Launched {
            child: key,
            create_index: self.index,
            eval,
        })
    }

    /// Refuses a launch from a template that is gone, stopped, or another one than `index` names.
    fn check_template(&self, parent: &JobKey, index: u64) -> Result<(), Refusal> {
        let Some(template) = self.tables.job(parent) else {
            return Err(Refusal::UnknownJob(parent.clone()));
        };
        if template.stop {
            return Err(Refusal::TemplateStopped(parent.clone()));
        }
        if template.job_modify_index != index {
            return Err(Refusal::TemplateChanged {
                key: parent.clone(),
                wanted: index,
                found: template.job_modify_index,
            });
        }
        Ok(())
    }
}

fn is_below(child: &JobKey, parent: &JobKey) -> bool {
    let rest = child.id.strip_prefix(parent.id.as_str());
    !parent.id.is_empty()
        && child.namespace == parent.namespace
        && rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}
