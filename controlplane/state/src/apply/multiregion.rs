//! The deployment of a version that several regions take part in. It is made with the version, so
//! that every evaluation of the job finds it and waits for its status, whatever triggered it:
//!
//! ```text
//!   JobRegister  initializing, without groups
//!   first plan   pending, with what its groups want
//!   leader       running, once it is this region's turn
//! ```

use std::collections::BTreeMap;

use protocol_model::{Deployment, DeploymentStatus, Evaluation, JobKey};

use super::draft::Draft;

impl Draft {
    /// Begins the deployment of the newest version of a job, where its regions wait for each other.
    pub(super) fn begin_multiregion(&mut self, key: &JobKey, eval: Option<&Evaluation>) {
        let Some(record) = self.tables.jobs.get(key).cloned() else {
            return;
        };
        let job = &record.job;
        if !job.waits_for_regions() {
            return;
        }
        let deployment = Deployment {
            id: self.draw_deployment_id(),
            namespace: job.namespace.clone(),
            job_id: job.id.clone(),
            job_version: job.version,
            job_modify_index: job.modify_index,
            job_spec_modify_index: job.job_modify_index,
            job_create_index: job.create_index,
            is_multiregion: true,
            task_groups: BTreeMap::new(),
            status: DeploymentStatus::Initializing,
            status_description: Deployment::PENDING_FOR_PEER.to_owned(),
            eval_priority: eval.map_or(job.priority, |eval| eval.priority),
            create_index: self.index,
            modify_index: self.index,
            create_time: self.now,
            modify_time: self.now,
        };
        self.put_deployment(deployment, Some(record.spec));
    }
}
