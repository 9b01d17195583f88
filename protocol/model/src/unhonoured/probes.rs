//! How to see that a block is there.

use crate::artifact::Artifact;
use crate::canonical::defaults;
use crate::group::TaskGroup;
use crate::job::{Job, JobType};
use crate::network::{NetworkMode, NetworkResource, Port};
use crate::policy::{HealthCheck, UpdateStrategy};
use crate::resources::Resources;
use crate::service::Service;
use crate::task::Task;
use crate::template::Template;
use crate::volume::VolumeRequest;

/// Drivers that nodes of this release have.
pub const KNOWN_DRIVERS: [&str; 3] = ["exec", "mock_driver", "raw_exec"];

fn has_checks(services: &[Service]) -> bool {
    services.iter().any(|service| !service.checks.is_empty())
}

/// Getters of artifacts that nodes of this release do not have.
const NO_GETTERS: [&str; 4] = ["file", "gcs", "hg", "s3"];

/// Artifacts whose source names such a getter, by force (`s3::...`) or by its scheme.
pub(super) fn fetches_in_vain(task: &Task) -> bool {
    let source = |artifact: &Artifact| artifact.getter_source.clone().unwrap_or_default();
    task.artifacts.iter().map(source).any(|source| {
        NO_GETTERS.iter().any(|getter| {
            let rest = source.strip_prefix(getter);
            rest.is_some_and(|rest| rest.starts_with("::") || rest.starts_with("://"))
        })
    })
}

fn has_connect(services: &[Service]) -> bool {
    services.iter().any(|service| service.connect.is_some())
}

pub(super) fn has_update(group: &TaskGroup, wants: impl Fn(&UpdateStrategy) -> bool) -> bool {
    group.update.as_ref().is_some_and(wants)
}

/// Services have canaries, promotion and manual health; system jobs do not yet.
pub(super) fn of_system(
    job: &Job,
    group: &TaskGroup,
    wants: impl Fn(&UpdateStrategy) -> bool,
) -> bool {
    job.job_type == JobType::System && has_update(group, wants)
}

/// Services go on with the health of what was replaced.
pub(super) fn staggers_in_vain(job: &Job, group: &TaskGroup) -> bool {
    let differs = |update: &UpdateStrategy| update.stagger() != defaults::UPDATE_STAGGER;
    job.job_type != JobType::System && has_update(group, differs)
}

/// A system job's update without canaries, promotion and manual health, which are told for
/// themselves.
pub(super) fn asks_for_health_in_vain(job: &Job, group: &TaskGroup) -> bool {
    let differs = |update: &UpdateStrategy| {
        update.min_healthy_time() != defaults::MIN_HEALTHY_TIME
            || update.healthy_deadline() != defaults::HEALTHY_DEADLINE
            || update.progress_deadline() != defaults::PROGRESS_DEADLINE
            || update.auto_revert()
    };
    job.job_type == JobType::System && has_update(group, differs)
}

pub(super) fn unhonoured_mode(group: &TaskGroup) -> Option<&str> {
    group
        .networks
        .iter()
        .map(NetworkResource::mode)
        .find_map(|mode| match mode {
            NetworkMode::Host | NetworkMode::None | NetworkMode::Bridge => None,
            NetworkMode::Cni(name) | NetworkMode::Unknown(name) => Some(name),
        })
}

pub(super) fn claims_other_volumes(group: &TaskGroup) -> bool {
    let is_host = |volume: &VolumeRequest| matches!(volume.volume_type.as_str(), "" | "host");
    let mut volumes = group.volumes.values();
    volumes.any(|volume| !is_host(volume) || volume.sticky)
}

pub(super) fn mounts_in_vain(task: &Task) -> bool {
    !task.volume_mounts.is_empty() && task.driver != "exec"
}

pub(super) fn unknown_driver(task: &Task) -> Option<&str> {
    (!KNOWN_DRIVERS.contains(&task.driver.as_str())).then_some(task.driver.as_str())
}

/// The scheduler fills these in; a job that names them wants a say.
pub(super) fn fixes_address(group: &TaskGroup) -> bool {
    group.networks.iter().any(|network| {
        !network.ip.is_empty() || !network.cidr.is_empty() || !network.device.is_empty()
    })
}

pub(super) fn has_port(group: &TaskGroup, wants: impl Fn(&Port) -> bool) -> bool {
    let mut ports = group.networks.iter().flat_map(NetworkResource::ports);
    ports.any(wants)
}

pub(super) fn asks(task: &Task, amount: impl Fn(&Resources) -> Option<u64>) -> bool {
    task.resources
        .as_ref()
        .and_then(amount)
        .is_some_and(|amount| amount > 0)
}

pub(super) fn group_has_checks(group: &TaskGroup) -> bool {
    has_checks(&group.services)
}

pub(super) fn group_has_connect(group: &TaskGroup) -> bool {
    has_connect(&group.services)
}

pub(super) fn task_has_checks(task: &Task) -> bool {
    has_checks(&task.services)
}

pub(super) fn task_has_connect(task: &Task) -> bool {
    has_connect(&task.services)
}

pub(super) fn is_manual(update: &UpdateStrategy) -> bool {
    update.health_check() == Ok(HealthCheck::Manual)
}

pub(super) fn moves_data(group: &TaskGroup) -> bool {
    group
        .ephemeral_disk
        .as_ref()
        .is_some_and(|disk| disk.migrate == Some(true))
}

pub(super) fn calls_any(task: &Task, functions: &[&str]) -> bool {
    let mut templates = task.templates.iter();
    templates.any(|template| calls(template, functions))
}

/// Functions that ask the cluster for data.
pub(super) const CLUSTER_FUNCTIONS: &[&str] = &["nomadService", "nomadServices"];

/// Functions that ask something beside the cluster, or that nodes refuse.
pub(super) const FOREIGN_FUNCTIONS: &[&str] = &[
    "caLeaf",
    "caRoots",
    "connect",
    "datacenters",
    "key",
    "keyExists",
    "keyOrDefault",
    "ls",
    "node",
    "nodes",
    "pkiCert",
    "plugin",
    "safeLs",
    "safeTree",
    "secret",
    "secrets",
    "service",
    "services",
    "sockaddr",
    "tree",
    "writeToFile",
];

/// Whether an action of the template names one of the functions.
fn calls(template: &Template, functions: &[&str]) -> bool {
    let right = template.right_delim.as_deref().filter(|d| !d.is_empty());
    let actions = template
        .embedded_tmpl()
        .split(template.left_delim())
        .skip(1);
    let actions = actions.filter_map(|after| after.split(right.unwrap_or("}}")).next());
    actions
        .filter(|action| !action.trim_start_matches(['-', ' ']).starts_with("/*"))
        .any(|action| {
            // Every second part is inside quotes.
            let code = action.split(['"', '`']).step_by(2);
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
            code.flat_map(|code| code.split(|c| !is_part(c)))
                .any(|word| functions.contains(&word))
        })
}

pub(super) fn has_devices(task: &Task) -> bool {
    task.resources
        .as_ref()
        .is_some_and(|resources| !resources.devices.is_empty())
}

pub(super) fn has_numa(task: &Task) -> bool {
    task.resources
        .as_ref()
        .is_some_and(|resources| resources.numa.is_some())
}

pub(super) fn has_networks(task: &Task) -> bool {
    task.resources
        .as_ref()
        .is_some_and(|resources| !resources.networks.is_empty())
}

pub(super) fn sizes_secrets(task: &Task) -> bool {
    task.resources
        .as_ref()
        .is_some_and(|resources| resources.secrets_mb.unwrap_or(0) > 0)
}
