//! What a new version of a job means for an allocation of an older one. The one definition of
//! "same".

use controlplane_state::Snapshot;
use protocol_model::{Allocation, EphemeralDisk, Job, Service, Task, TaskGroup};

use super::runs_version;

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Difference {
    /// Something that can change under a running allocation.
    InPlace,
    /// Something that its tasks are started with.
    Destructive,
}

/// Compares a group of two versions of a job.
///
/// Rule (Nomad): everything that affects a task's environment is destructive; count, constraints
/// (checked separately on the node), policies and services are not.
fn difference(old_job: &Job, new_job: &Job, name: &str) -> Difference {
    let (Some(old), Some(new)) = (old_job.task_group(name), new_job.task_group(name)) else {
        return Difference::Destructive;
    };
    if old_job.meta != new_job.meta || !same_environment(old, new) {
        return Difference::Destructive;
    }
    Difference::InPlace
}

/// What this job's version changes for `alloc`; nothing where it runs that very version.
pub(super) fn difference_of(
    snapshot: &Snapshot,
    job: &Job,
    alloc: &Allocation,
) -> Option<Difference> {
    if runs_version(alloc, job) {
        return None;
    }
    let Some(old) = snapshot.spec(alloc.spec) else {
        return Some(Difference::Destructive);
    };
    // The same specification under another version, too: the number has to follow.
    Some(difference(old, job, &alloc.task_group))
}

fn same_environment(old: &TaskGroup, new: &TaskGroup) -> bool {
    let disk = |group: &TaskGroup| group.ephemeral_disk.as_ref().map(EphemeralDisk::size_mb);
    old.tasks.len() == new.tasks.len()
        && disk(old) == disk(new)
        && old.networks == new.networks
        && old.volumes == new.volumes
        && old.meta == new.meta
        && old
            .tasks
            .iter()
            .all(|task| new.task(&task.name).is_some_and(|new| same_task(task, new)))
}

/// Destructured whole, so that a new field has to be thought about here.
fn same_task(old: &Task, new: &Task) -> bool {
    let Task {
        name: _,
        driver,
        user,
        lifecycle,
        config,
        // Checked on the node that the allocation is on.
        constraints: _,
        affinities: _,
        env,
        services,
        resources,
        // Policies and timeouts reach a running task.
        restart_policy: _,
        meta,
        kill_timeout: _,
        log_config,
        artifacts,
        vault,
        consul,
        templates,
        dispatch_payload,
        volume_mounts,
        csi_plugin_config,
        leader,
        shutdown_delay: _,
        kill_signal: _,
        kind,
        scaling_policies: _,
        identity,
        identities,
        actions: _,
        schedule: _,
        secrets,
    } = old;
    *driver == new.driver
        && *user == new.user
        && *lifecycle == new.lifecycle
        && *config == new.config
        && *env == new.env
        && same_ports(services, &new.services)
        && *resources == new.resources
        && *meta == new.meta
        && *log_config == new.log_config
        && *artifacts == new.artifacts
        && *vault == new.vault
        && *consul == new.consul
        && *templates == new.templates
        && *dispatch_payload == new.dispatch_payload
        && *volume_mounts == new.volume_mounts
        && *csi_plugin_config == new.csi_plugin_config
        && *leader == new.leader
        && *kind == new.kind
        && *identity == new.identity
        && *identities == new.identities
        && *secrets == new.secrets
}

/// Services may change while a task runs; only mesh connections are part of its environment.
fn same_ports(old: &[Service], new: &[Service]) -> bool {
    old.len() == new.len()
        && old
            .iter()
            .zip(new)
            .all(|(old, new)| old.connect == new.connect)
}
