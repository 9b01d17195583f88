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
/// Rule (Nomad): everything that affects a task's environment is destructive, and so is another
/// preference among nodes (affinities, spreads), which only a new placement can follow. Count,
/// policies and services are not, except for the lease of a group that stops itself. Neither are
/// constraints, datacenters and the pool: whether the allocation may stay where it is is asked of
/// its node, by whoever uses this answer.
fn difference(old_job: &Job, new_job: &Job, name: &str) -> Difference {
    let (Some(old), Some(new)) = (old_job.task_group(name), new_job.task_group(name)) else {
        return Difference::Destructive;
    };
    let same = old_job.meta == new_job.meta
        && old_job.affinities == new_job.affinities
        && old_job.spreads == new_job.spreads
        && same_group(old, new)
        && keeps_lease(old, new);
    if same {
        Difference::InPlace
    } else {
        Difference::Destructive
    }
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

/// Whether the new version's lease is no shorter than the one that a node may have given already.
/// A node that falls silent before it hears of a version goes by an older one, while the control
/// plane knows the newer one alone. So a lease may only grow in place. What is to have a shorter
/// one, none any more, or one for the first time is ended and started anew: until it has ended it
/// counts as one of the version that its node knows.
fn keeps_lease(old: &TaskGroup, new: &TaskGroup) -> bool {
    match (old.lease_term(), new.lease_term()) {
        (None, None) => true,
        (Some(old), Some(new)) => old <= new,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Destructured whole, so that a new field has to be thought about here.
fn same_group(old: &TaskGroup, new: &TaskGroup) -> bool {
    let TaskGroup {
        name: _,
        count: _,
        // Checked on the node that the allocation is on.
        constraints: _,
        affinities,
        tasks,
        spreads,
        volumes,
        // Policies and timeouts reach a running task. Of a lease: see `keeps_lease`.
        restart_policy: _,
        disconnect: _,
        reschedule_policy: _,
        ephemeral_disk: _,
        update: _,
        migrate: _,
        networks,
        meta,
        services,
        shutdown_delay: _,
        stop_after_client_disconnect: _,
        max_client_disconnect: _,
        scaling: _,
        consul,
        prevent_reschedule_on_lost: _,
        max_run_duration: _,
    } = old;
    let disk = |group: &TaskGroup| group.ephemeral_disk.as_ref().map(EphemeralDisk::size_mb);
    *affinities == new.affinities
        && *spreads == new.spreads
        && *volumes == new.volumes
        && disk(old) == disk(new)
        && *networks == new.networks
        && *meta == new.meta
        && same_connections(services, &new.services)
        && *consul == new.consul
        && tasks.len() == new.tasks.len()
        && tasks
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
        affinities,
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
        && *affinities == new.affinities
        && *env == new.env
        && same_connections(services, &new.services)
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

/// Services may come, change and go while a task runs; only mesh connections are part of its
/// environment.
fn same_connections(old: &[Service], new: &[Service]) -> bool {
    let connected = |service: &&Service| service.connect.is_some();
    let connections = |services| {
        let services: std::slice::Iter<'_, Service> = services;
        services.filter(connected).map(|it| (&it.name, &it.connect))
    };
    connections(old.iter()).eq(connections(new.iter()))
}
