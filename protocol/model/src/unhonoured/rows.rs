//! Every block that is not honoured: delete the row of what you make work, and its probe if nothing
//! else uses it.

use super::Probe::{
    Group as OfGroup, GroupOf, Job as OfJob, NamedGroup, NamedTask, Task as OfTask,
};
use super::Row;
use super::probes::*;
use crate::policy::UpdateStrategy;

const fn row(block: &'static str, probe: super::Probe, effect: &'static str) -> Row {
    Row {
        block,
        probe,
        effect,
    }
}

/// By level: the job, its groups, their tasks.
pub(super) const ROWS: &[Row] = &[
    // --- the job ---
    row(
        "consul_namespace",
        OfJob(|job| !job.consul_namespace.is_empty()),
        "this release does not speak to Consul",
    ),
    row(
        "vault_namespace",
        OfJob(|job| !job.vault_namespace.is_empty()),
        "this release does not speak to Vault",
    ),
    // --- groups ---
    row(
        "volume",
        OfGroup(claims_other_volumes),
        "no node of this release has volumes of another type than host, and none stays with its group",
    ),
    row(
        "service",
        OfGroup(|group| !group.services.is_empty()),
        "not registered anywhere by this release",
    ),
    row(
        "check",
        OfGroup(group_has_checks),
        "not run by this release",
    ),
    row(
        "connect",
        OfGroup(group_has_connect),
        "this release starts no proxies",
    ),
    row(
        "consul",
        OfGroup(|group| group.consul.is_some()),
        "this release does not speak to Consul",
    ),
    row(
        "network mode",
        NamedGroup(unhonoured_mode),
        "no node of this release offers it: the group waits",
    ),
    row(
        "network ip",
        OfGroup(fixes_address),
        "the node's own address is used: `device`, `cidr` and `ip` choose nothing",
    ),
    row(
        "network mbits",
        OfGroup(|group| {
            group
                .networks
                .iter()
                .any(|network| network.mbits.unwrap_or(0) > 0)
        }),
        "bandwidth is neither reserved nor limited",
    ),
    row(
        "network cni",
        OfGroup(|group| group.networks.iter().any(|network| network.cni.is_some())),
        "this release calls no network plugins",
    ),
    row(
        "network port ignore_collision",
        OfGroup(|group| has_port(group, |port| port.ignore_collision)),
        "a static port belongs to one allocation of a node",
    ),
    row(
        "update stagger",
        GroupOf(staggers_in_vain),
        "updates of a service go on as soon as what they started is healthy",
    ),
    row(
        "update",
        GroupOf(asks_for_health_in_vain),
        "a system job is paced by max_parallel and stagger alone: nobody judges its health",
    ),
    row(
        "update canary",
        GroupOf(|job, group| of_system(job, group, |update| update.canary() > 0)),
        "a system job's new version has no canaries in this release",
    ),
    row(
        "update auto_promote",
        GroupOf(|job, group| of_system(job, group, UpdateStrategy::auto_promote)),
        "a system job's new version has no canaries to promote in this release",
    ),
    row(
        "update health_check",
        GroupOf(|job, group| of_system(job, group, is_manual)),
        "a system job is paced by max_parallel and stagger alone: its health is not judged",
    ),
    row(
        "ephemeral_disk migrate",
        OfGroup(moves_data),
        "data is not copied between nodes",
    ),
    row(
        "max_run_duration",
        OfGroup(|group| group.max_run_duration.is_some()),
        "allocations may run longer",
    ),
    // --- tasks ---
    row(
        "driver",
        NamedTask(unknown_driver),
        "no node of this release has it (they have exec, raw_exec and mock_driver): the task waits",
    ),
    row(
        "kind",
        OfTask(|task| !task.kind.is_empty()),
        "this release gives no task a special part",
    ),
    row(
        "service",
        OfTask(|task| !task.services.is_empty()),
        "not registered anywhere by this release",
    ),
    row("check", OfTask(task_has_checks), "not run by this release"),
    row(
        "connect",
        OfTask(task_has_connect),
        "this release starts no proxies",
    ),
    row(
        "artifact source",
        OfTask(fetches_in_vain),
        "this release fetches over http, https and git; the task fails its setup",
    ),
    row(
        "template functions",
        OfTask(|task| calls_any(task, FOREIGN_FUNCTIONS)),
        "this cluster has no Consul and no Vault: the task fails its setup",
    ),
    row(
        "template nomad functions",
        OfTask(|task| calls_any(task, CLUSTER_FUNCTIONS)),
        "this release has no services: the task waits, with an event of kind \
         Template, until it is stopped",
    ),
    row(
        "vault",
        OfTask(|task| task.vault.is_some()),
        "this release does not speak to Vault",
    ),
    row(
        "consul",
        OfTask(|task| task.consul.is_some()),
        "this release does not speak to Consul",
    ),
    row(
        "volume_mount",
        OfTask(mounts_in_vain),
        "volumes are mounted by the driver exec alone; a raw_exec task fails its setup",
    ),
    row(
        "csi_plugin",
        OfTask(|task| task.csi_plugin_config.is_some()),
        "this release knows no storage plugins",
    ),
    row(
        "schedule",
        OfTask(|task| task.schedule.is_some()),
        "the task runs at all times",
    ),
    row(
        "secret",
        OfTask(|task| !task.secrets.is_empty()),
        "not fetched by this release",
    ),
    row(
        "resources disk",
        OfTask(|task| asks(task, |resources| resources.disk_mb)),
        "disk is reserved by the group's `ephemeral_disk` only",
    ),
    row(
        "resources iops",
        OfTask(|task| asks(task, |resources| resources.iops)),
        "input and output are neither reserved nor limited",
    ),
    row(
        "resources device",
        OfTask(has_devices),
        "this release knows no devices",
    ),
    row(
        "resources numa",
        OfTask(has_numa),
        "this release knows no memory domains",
    ),
    row(
        "resources network",
        OfTask(has_networks),
        "this release gives ports to groups only: move it to the group",
    ),
    row(
        "resources secrets",
        OfTask(sizes_secrets),
        "the secrets directory has the node's default size",
    ),
];
