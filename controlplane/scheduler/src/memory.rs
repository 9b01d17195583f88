//! Memory beyond the reserved: `memory_max` has an effect only where the scheduler's settings allow
//! it, those of the job's pool before those of the cluster.

use controlplane_state::Snapshot;
use protocol_model::{AllocatedResources, Job};

/// Takes the limits above the reserved memory away: each task has what it reserves.
pub(crate) fn withhold(resources: &mut AllocatedResources) {
    for task in resources.tasks.values_mut() {
        task.memory.memory_max_mb = 0;
    }
}

/// A sentence for each task of `job` whose `memory_max` is ignored.
pub fn memory_warnings(snapshot: &Snapshot, job: &Job) -> Vec<String> {
    let config = snapshot.scheduler_config_of_pool(&job.node_pool);
    if config.memory_oversubscription {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for group in &job.task_groups {
        for task in &group.tasks {
            let asked = task.resources.as_ref();
            if asked.is_some_and(|asked| asked.memory_max_mb.unwrap_or(0) != 0) {
                warnings.push(format!(
                    "Memory oversubscription is not enabled; Task \"{}.{}\" memory_max value will \
                     be ignored. Update the Scheduler Configuration to allow oversubscription.",
                    group.name, task.name
                ));
            }
        }
    }
    warnings
}
