//! What parses but is not honoured by this release yet. Users hear of each such block when they
//! validate, plan or register: never silence.
//!
//! [`ROWS`] is the whole list. Whoever makes a block work deletes its row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::canonical::defaults;
use crate::group::TaskGroup;
use crate::identity::WorkloadIdentity;
use crate::job::Job;
use crate::network::{NetworkMode, NetworkResource};
use crate::policy::UpdateStrategy;
use crate::service::Service;
use crate::task::Task;
use crate::template::Template;

/// A block of a job that is stored but has no effect.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Warning {
    /// Where: `group "web" > service`; a job's own blocks stand alone.
    pub path: String,
    /// The block and what does not happen, for operators.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.rsplit_once(" > ") {
            Some((place, _)) => write!(f, "{place} > {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Job {
    /// Names each block that this release stores without doing what it says, in the order of the
    /// job; each place once, however often the block stands there. Meant for canonical jobs.
    pub fn unhonoured(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for row in ROWS {
            if let Probe::Job(present) = row.probe
                && present(self)
            {
                warnings.push(row.warning(String::new(), row.block.to_owned()));
            }
        }
        for group in &self.task_groups {
            unhonoured_group(group, &mut warnings);
        }
        warnings
    }
}

fn unhonoured_group(group: &TaskGroup, warnings: &mut Vec<Warning>) {
    let place = format!("group {:?} > ", group.name);
    for row in ROWS {
        let block = match row.probe {
            Probe::Job(_) | Probe::Task(_) | Probe::NamedTask(_) => None,
            Probe::Group(present) => present(group).then(|| row.block.to_owned()),
            Probe::NamedGroup(name) => name(group).map(|name| format!("{} {name:?}", row.block)),
        };
        warnings.extend(block.map(|block| row.warning(place.clone(), block)));
    }
    for task in &group.tasks {
        let place = format!("{place}task {:?} > ", task.name);
        for row in ROWS {
            let block = match row.probe {
                Probe::Job(_) | Probe::Group(_) | Probe::NamedGroup(_) => None,
                Probe::Task(present) => present(task).then(|| row.block.to_owned()),
                Probe::NamedTask(name) => name(task).map(|name| format!("{} {name:?}", row.block)),
            };
            warnings.extend(block.map(|block| row.warning(place.clone(), block)));
        }
    }
}

/// How to see whether a block is there.
enum Probe {
    Job(fn(&Job) -> bool),
    Group(fn(&TaskGroup) -> bool),
    /// The same for blocks whose name must be told.
    NamedGroup(fn(&TaskGroup) -> Option<&str>),
    Task(fn(&Task) -> bool),
    /// The same for blocks whose name must be told.
    NamedTask(fn(&Task) -> Option<&str>),
}

/// One block that is not honoured.
struct Row {
    block: &'static str,
    probe: Probe,
    /// What does not happen.
    effect: &'static str,
}

impl Row {
    fn warning(&self, place: String, block: String) -> Warning {
        let message = format!("{block}: {}", self.effect);
        Warning {
            path: place + &block,
            message,
        }
    }
}

const fn row(block: &'static str, probe: Probe, effect: &'static str) -> Row {
    Row {
        block,
        probe,
        effect,
    }
}

/// Drivers that nodes have.
const DRIVERS: [&str; 4] = ["exec", "raw_exec", "mock", "mock_driver"];

use Probe::{Group as OfGroup, Job as OfJob, NamedGroup, NamedTask, Task as OfTask};

/// Every block that is not honoured: delete the row of what you make work.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    // --- the job ---
    row("all_at_once", OfJob(|job| job.all_at_once), "placements are committed as they fit, not together"),
    row("multiregion", OfJob(|job| job.multiregion.is_some()), "parsed and stored, but the job runs in this region only"),
    row("periodic", OfJob(|job| job.periodic.is_some()), "parsed and stored, but this release launches nothing by time"),
    row("parameterized", OfJob(|job| job.parameterized_job.is_some()), "parsed and stored, but this release cannot dispatch the job"),
    row("spread", OfJob(|job| !job.spreads.is_empty()), "parsed and stored, but does not move placements in this release"),
    // --- groups ---
    row("spread", OfGroup(|group| !group.spreads.is_empty()), "parsed and stored, but does not move placements in this release"),
    row("volume", OfGroup(|group| !group.volumes.is_empty()), "parsed and stored, but this release claims no volumes"),
    row("service", OfGroup(|group| !group.services.is_empty()), "parsed and stored, but not registered anywhere by this release"),
    row("check", OfGroup(|group| has_checks(&group.services)), "parsed and stored, but not run by this release"),
    row("connect", OfGroup(|group| has_connect(&group.services)), "parsed and stored, but this release starts no proxies"),
    row("consul", OfGroup(|group| group.consul.is_some()), "parsed and stored, but this release does not speak to Consul"),
    row("scaling", OfGroup(|group| group.scaling.is_some()), "parsed and stored, but not offered to autoscalers by this release"),
    row("network mode", NamedGroup(unhonoured_mode), "parsed and stored, but the tasks share the host's network in this release"),
    row("network dns", OfGroup(|group| group.networks.iter().any(|network| network.dns.is_some())), "parsed and stored, but tasks resolve names as the host does"),
    row("network hostname", OfGroup(|group| group.networks.iter().any(|network| !network.hostname.is_empty())), "parsed and stored, but tasks keep the host's name"),
    row("network host_network", NamedGroup(unhonoured_host_network), "parsed and stored, but ports are taken from the default host network"),
    row("update canary", OfGroup(|group| has_update(group, |update| update.canary() > 0)), "parsed and stored, but this release starts no canaries"),
    row("update auto_promote", OfGroup(|group| has_update(group, UpdateStrategy::auto_promote)), "parsed and stored, but this release has no canaries to promote"),
    row("update auto_revert", OfGroup(|group| has_update(group, UpdateStrategy::auto_revert)), "parsed and stored, but this release does not go back to an older version"),
    row("update health_check", OfGroup(|group| has_update(group, |update| update.health_check.as_deref() == Some("manual"))), "parsed and stored, but this release judges health by task states"),
    row("migrate", OfGroup(has_own_migrate), "parsed and stored, but this release does not drain nodes"),
    row("max_client_disconnect", OfGroup(|group| group.max_client_disconnect.is_some()), "parsed and stored, but allocations of a silent node are lost at once in this release"),
    row("stop_after_client_disconnect", OfGroup(|group| group.stop_after_client_disconnect.is_some()), "parsed and stored, but nodes without contact keep running the group"),
    row("prevent_reschedule_on_lost", OfGroup(|group| group.prevent_reschedule_on_lost == Some(true)), "parsed and stored, but lost allocations are replaced in this release"),
    row("disconnect", OfGroup(|group| group.disconnect.is_some()), "parsed and stored, but allocations of a silent node are lost at once in this release"),
    row("ephemeral_disk sticky", OfGroup(|group| group.ephemeral_disk.as_ref().is_some_and(|disk| disk.sticky == Some(true))), "parsed and stored, but successors start with an empty disk"),
    row("ephemeral_disk migrate", OfGroup(|group| group.ephemeral_disk.as_ref().is_some_and(|disk| disk.migrate == Some(true))), "parsed and stored, but data is not copied between nodes"),
    row("max_run_duration", OfGroup(|group| group.max_run_duration.is_some()), "parsed and stored, but allocations may run longer"),
    // --- tasks ---
    row("driver", NamedTask(unknown_driver), "this release has no such driver (it has exec, raw_exec and mock): the task cannot be placed"),
    row("lifecycle", NamedTask(|task| task.lifecycle.as_ref().map(|lifecycle| lifecycle.hook.as_str())), "parsed and stored, but this release starts all tasks together"),
    row("service", OfTask(|task| !task.services.is_empty()), "parsed and stored, but not registered anywhere by this release"),
    row("check", OfTask(|task| has_checks(&task.services)), "parsed and stored, but not run by this release"),
    row("connect", OfTask(|task| has_connect(&task.services)), "parsed and stored, but this release starts no proxies"),
    row("artifact", OfTask(|task| !task.artifacts.is_empty()), "parsed and stored, but not fetched by this release"),
    row("template source", OfTask(|task| task.templates.iter().any(has_source)), "parsed and stored, but this release renders inline data only"),
    row("template functions", OfTask(|task| task.templates.iter().any(has_functions)), "parsed and stored, but this release writes the data as it is, without evaluating it"),
    row("template wait", OfTask(|task| task.templates.iter().any(|template| template.wait.is_some())), "parsed and stored, but nothing changes after the first rendering"),
    row("vault", OfTask(|task| task.vault.is_some()), "parsed and stored, but this release does not speak to Vault"),
    row("consul", OfTask(|task| task.consul.is_some()), "parsed and stored, but this release does not speak to Consul"),
    row("identity", OfTask(has_own_identity), "parsed and stored, but this release signs no identities"),
    row("dispatch_payload", OfTask(|task| task.dispatch_payload.is_some()), "parsed and stored, but this release cannot dispatch jobs"),
    row("volume_mount", OfTask(|task| !task.volume_mounts.is_empty()), "parsed and stored, but this release mounts no volumes"),
    row("csi_plugin", OfTask(|task| task.csi_plugin_config.is_some()), "parsed and stored, but this release knows no storage plugins"),
    row("scaling", OfTask(|task| !task.scaling_policies.is_empty()), "parsed and stored, but not offered to autoscalers by this release"),
    row("action", OfTask(|task| !task.actions.is_empty()), "parsed and stored, but cannot be run in this release"),
    row("schedule", OfTask(|task| task.schedule.is_some()), "parsed and stored, but the task runs at all times"),
    row("secret", OfTask(|task| !task.secrets.is_empty()), "parsed and stored, but not fetched by this release"),
    row("restart render_templates", OfTask(|task| task.restart_policy.as_ref().is_some_and(|restart| restart.render_templates == Some(true))), "parsed and stored, but templates are rendered once"),
    row("resources cores", OfTask(|task| task.resources.as_ref().is_some_and(|resources| resources.cores() > 0)), "parsed and stored, but no cores are reserved by this release"),
    row("resources device", OfTask(|task| task.resources.as_ref().is_some_and(|resources| !resources.devices.is_empty())), "parsed and stored, but this release knows no devices"),
    row("resources numa", OfTask(|task| task.resources.as_ref().is_some_and(|resources| resources.numa.is_some())), "parsed and stored, but this release knows no memory domains"),
    row("resources network", OfTask(|task| task.resources.as_ref().is_some_and(|resources| !resources.networks.is_empty())), "parsed and stored, but this release gives ports to groups only: move it to the group"),
    row("resources secrets", OfTask(|task| task.resources.as_ref().is_some_and(|resources| resources.secrets_mb.unwrap_or(0) > 0)), "parsed and stored, but the secrets directory has the node's default size"),
];

fn has_checks(services: &[Service]) -> bool {
    services.iter().any(|service| !service.checks.is_empty())
}

fn has_connect(services: &[Service]) -> bool {
    services.iter().any(|service| service.connect.is_some())
}

fn has_update(group: &TaskGroup, wants: impl Fn(&UpdateStrategy) -> bool) -> bool {
    group.update.as_ref().is_some_and(wants)
}

fn unhonoured_mode(group: &TaskGroup) -> Option<&str> {
    group
        .networks
        .iter()
        .map(NetworkResource::mode)
        .find_map(|mode| match mode {
            NetworkMode::Host | NetworkMode::None => None,
            NetworkMode::Bridge => Some("bridge"),
            NetworkMode::Cni(name) | NetworkMode::Unknown(name) => Some(name),
        })
}

fn unhonoured_host_network(group: &TaskGroup) -> Option<&str> {
    let mut ports = group.networks.iter().flat_map(NetworkResource::ports);
    ports
        .find(|port| !matches!(port.host_network.as_str(), "" | defaults::HOST_NETWORK))
        .map(|port| port.host_network.as_str())
}

/// Every canonical service has a migrate strategy; only one that says something else is news.
fn has_own_migrate(group: &TaskGroup) -> bool {
    let Some(migrate) = &group.migrate else {
        return false;
    };
    let differs = |value: Option<Duration>, default| value.is_some_and(|value| value != default);
    migrate.max_parallel() != defaults::UPDATE_MAX_PARALLEL
        || migrate
            .health_check
            .as_deref()
            .is_some_and(|check| check != "checks")
        || differs(migrate.min_healthy_time, defaults::MIN_HEALTHY_TIME)
        || differs(migrate.healthy_deadline, defaults::HEALTHY_DEADLINE)
}

fn unknown_driver(task: &Task) -> Option<&str> {
    (!DRIVERS.contains(&task.driver.as_str())).then_some(task.driver.as_str())
}

fn has_source(template: &Template) -> bool {
    template
        .source_path
        .as_deref()
        .is_some_and(|path| !path.is_empty())
}

fn has_functions(template: &Template) -> bool {
    template.embedded_tmpl().contains(template.left_delim())
}

/// Every canonical task has the default identity; only one that is delivered somewhere is news.
fn has_own_identity(task: &Task) -> bool {
    let is_delivered = |identity: &WorkloadIdentity| identity.env || identity.file;
    !task.identities.is_empty() || task.identity.as_ref().is_some_and(is_delivered)
}
