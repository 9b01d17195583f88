//! Starting a process: configuration -> sandbox -> plan -> keeper.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use isolation::cgroup::{CPUSET_CPUS, CgroupLimits, Controller, Unenforced};
use isolation::{Identity, Namespace, Network, Resource, ResourceLimit, SandboxSpec};
use noded_core::driver::{Ability, TaskRoot};
use noded_core::effect::StartTask;
use noded_core::env::core_list;
use noded_core::env::interpolate::{replace, replace_config};
use noded_core::event::Recovery;
use noded_keeper::client::seal_plan;
use noded_keeper::io::OutputStream;
use noded_keeper::protocol::{Refusal, Request, SpawnRequest, StdioSource};
use protocol_error_chain::chain;
use protocol_model::NetworkMode;

use super::limits::{LimitRules, limits};
use super::masks::masks;
use super::prepare::layout;
use super::sandbox::KeptSandbox;
use super::users::identity_of;
use super::{Executor, cgroup_of, keeper_key};
use crate::alloc_dir::group_of;
use crate::config::Config;
use crate::drivers::{Checked, HostPaths, StartFailed, TaskInputs};
use crate::keeper_link::CallError;

/// The kernel needs milliseconds; a program on a slow network disk more.
const START_TIMEOUT_MS: u64 = 30_000;
/// Where programs are looked for when noded itself was started without a PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Variables of noded's own environment that say something about the host rather than about noded.
const HOST_VARIABLES: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// A request to keeper for a process.
struct Spawn {
    request: Request,
    descriptors: Vec<OwnedFd>,
    /// A line for the task's history.
    message: Option<String>,
}

impl Executor {
    /// Asks keeper for a process. Its events tell the rest. Returns a line about limits for the
    /// task's history, where there is one.
    pub(super) async fn start(
        self: &std::sync::Arc<Self>,
        start: StartTask,
    ) -> Result<Option<String>, StartFailed> {
        let node = self.config.now();
        if let Checked::Own = node.drivers.of(&start.driver)?.check(&start.config)?
            && let Some(runs) = self.own.get(start.driver.as_str())
        {
            return runs.start(start.run, &start.config).map(|()| None);
        }
        let run = start.run.clone();
        let spawn = self.blocking(move |own| own.spawn_request(&start)).await?;
        match self.keeper.call(spawn.request, spawn.descriptors).await {
            Ok(_) => Ok(spawn.message),
            Err(CallError::Refused(refusal)) => Err(refused(&refusal)),
            // noded ends; the next one asks keeper what became of it.
            Err(CallError::ShuttingDown) => {
                tracing::debug!(%run, "not started: noded ends");
                std::future::pending().await
            }
        }
    }

    /// Everything that keeper needs. Blocks.
    fn spawn_request(&self, start: &StartTask) -> Result<Spawn, StartFailed> {
        let key = keeper_key(&start.run)
            .ok_or_else(|| StartFailed::hopeless("the task's name is not one for a file"))?;
        let (mut spec, limits) = self.sandbox(start)?;
        if !self.hierarchy.controllers().contains(Controller::Cpuset) {
            spec.processors.clone_from(&limits.cpus);
        }
        let plan = isolation::plan(&spec).map_err(|error| StartFailed::hopeless(chain(&error)))?;
        let path = cgroup_of(&key).map_err(|error| StartFailed::hopeless(chain(&error)))?;
        let cgroup = self
            .hierarchy
            .create_task(&path)
            .map_err(|error| StartFailed::possible(&error))?;
        let unenforced = cgroup
            .apply_limits(&limits)
            .map_err(|error| StartFailed::possible(&error))?;
        for limit in &unenforced {
            tracing::debug!(run = %start.run, "{limit}");
        }
        let message = unpinned(&limits, &unenforced);
        let sealed = seal_plan(&plan).map_err(|error| StartFailed::possible(&error))?;
        let mut descriptors = vec![sealed];
        let network = if spec.network == Network::Descriptor {
            let alloc = start.run.alloc;
            let network = match mode(start) {
                NetworkMode::None => self.networks.without_network(alloc),
                _ => self.networks.prepared(alloc),
            };
            descriptors.push(network.map_err(|error| StartFailed::possible(&error))?);
            Some(1)
        } else {
            None
        };
        let kept = KeptSandbox {
            run: start.run.clone(),
            spec,
        };
        if let Err(error) = self.sandboxes.keep(&kept) {
            tracing::warn!(run = %start.run, %error, "exec into this task will not work");
        }
        let output = |stream: OutputStream| match logs_disabled(start) {
            true => StdioSource::Null,
            false => StdioSource::Fifo {
                name: stream.fifo_name(key.owner()),
            },
        };
        let (stdout, stderr) = (output(OutputStream::Stdout), output(OutputStream::Stderr));
        let request = Request::Spawn(SpawnRequest {
            cgroup: path.to_string(),
            stdin: StdioSource::Null,
            stdout,
            stderr,
            network,
            target: None,
            start_timeout_ms: START_TIMEOUT_MS,
            key,
        });
        Ok(Spawn {
            request,
            descriptors,
            message,
        })
    }

    fn sandbox(&self, start: &StartTask) -> Result<(SandboxSpec, CgroupLimits), StartFailed> {
        let node = self.config.now();
        let identity =
            identity_of(&node, &start.driver, &start.user).map_err(StartFailed::hopeless)?;
        self.give_directories(start, &identity)?;
        let identity = in_group(identity, group_of(start.run.alloc));
        let host = host_variables(&identity);
        let config = replace_config(&start.config, &|name| host_value(&host, name));
        let driver = node.drivers.of(&start.driver)?;
        let Checked::Sandboxed(task) = driver.check(&config)? else {
            let problem = format!("a task of driver {} has no sandbox", start.driver);
            return Err(StartFailed::hopeless(problem));
        };
        let base = self.allocs.path_of(start.run.alloc);
        let view = match driver.root() {
            TaskRoot::OwnRoot => self.view(&node, start)?,
            TaskRoot::Host => HostPaths::default(),
        };
        let mut spec = task.sandbox(TaskInputs {
            identity,
            layout: layout(&base, &start.run.task),
            network: network(start),
            view,
        });
        spec.resource_limits = vec![ResourceLimit {
            resource: Resource::OpenFiles,
            soft: Some(node.task_open_files),
            hard: None,
        }];
        if spec.namespaces.contains(&Namespace::Uts) && !start.network.hostname.is_empty() {
            spec.hostname = Some(start.network.hostname.clone());
        }
        spec.env = environment(host, &start.environment, task.denied_variables());
        let rules = LimitRules {
            pids_max: node.task_pids_max,
            memory: driver.has(Ability::MemoryLimit),
            asked: task.asked_limits(),
            cpu_hard_limit: node.task_cpu_hard_limit,
            core_mhz: self.core_mhz.load(Ordering::Relaxed),
        };
        Ok((spec, limits(start, &rules)))
    }

    /// A user that only the task's templates name is known now: until here the directories were
    /// closed to everybody.
    fn give_directories(&self, start: &StartTask, owner: &Identity) -> Result<(), StartFailed> {
        let task = start.spec.task(&start.run.task);
        if !task.is_some_and(|task| task.user.contains("${")) {
            return Ok(());
        }
        let access = self.access_of(&start.driver, owner).anew();
        self.allocs
            .build_task(start.run.alloc, &start.run.task, access)
            .map_err(|error| StartFailed::possible(&error))?;
        self.give_tokens(start, owner)
            .map_err(StartFailed::hopeless)
    }

    /// What a task with a root of its own sees of the host.
    fn view(&self, node: &Config, start: &StartTask) -> Result<HostPaths, StartFailed> {
        let (paths, volumes) = (node.chroot_paths.clone(), self.binds(start)?);
        let masked = masks(node, &paths, &volumes).map_err(StartFailed::hopeless)?;
        // Ours, and so never hidden. A volume that covers one of them is the job's own choice.
        let binds = [self.name_files(start)?, volumes].concat();
        Ok(HostPaths {
            paths,
            binds,
            masked,
        })
    }
}

/// Without the cpuset controller a task starts on its cores, and nothing keeps it there.
fn unpinned(limits: &CgroupLimits, unenforced: &[Unenforced]) -> Option<String> {
    unenforced.iter().find(|it| it.limit == CPUSET_CPUS)?;
    let cores = core_list(&limits.cpus);
    Some(format!(
        "reserved cores {cores}: the task starts on them and may leave them, because this host has no \
         cpuset controller"
    ))
}

/// The tasks of an allocation share its directory by a group of its own; root needs none.
fn in_group(identity: Identity, group: u32) -> Identity {
    let Identity::User {
        uid,
        gid,
        mut groups,
    } = identity
    else {
        return identity;
    };
    groups.push(group);
    Identity::User { uid, gid, groups }
}

/// The kind of the group's network; a group has one at most.
pub(super) fn mode(start: &StartTask) -> NetworkMode<'_> {
    let network = start.spec.group().networks.first();
    network.map_or(NetworkMode::Host, |network| network.mode())
}

fn network(start: &StartTask) -> Network {
    match mode(start) {
        NetworkMode::None | NetworkMode::Bridge => Network::Descriptor,
        NetworkMode::Host | NetworkMode::Cni(_) | NetworkMode::Unknown(_) => Network::Host,
    }
}

fn logs_disabled(start: &StartTask) -> bool {
    start
        .spec
        .task(&start.run.task)
        .and_then(|task| task.log_config.as_ref())
        .is_some_and(protocol_model::LogConfig::disabled)
}

/// What a task learns about the host and about the user that it runs as.
fn host_variables(identity: &Identity) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = HOST_VARIABLES
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    variables
        .entry("PATH".to_owned())
        .or_insert_with(|| PATH_DEFAULT.to_owned());
    let uid = match identity {
        Identity::Keeper => 0,
        Identity::User { uid, .. } => *uid,
    };
    if let Ok(Some(user)) = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        let home = user.dir.to_string_lossy().into_owned();
        variables.insert("HOME".to_owned(), home);
        variables.insert("LOGNAME".to_owned(), user.name.clone());
        variables.insert("USER".to_owned(), user.name);
    }
    variables
}

/// What a reference that noded-core left names among the host's variables.
fn host_value(host: &BTreeMap<String, String>, name: &str) -> Option<String> {
    host.get(name.strip_prefix("env.").unwrap_or(name)).cloned()
}

/// The host's variables beneath the task's, which may refer to them: `PATH = "/opt:${PATH}"`.
fn environment(
    host: BTreeMap<String, String>,
    of_task: &BTreeMap<String, String>,
    denied: &[String],
) -> BTreeMap<String, String> {
    let value_of = |value: &str| replace(value, &|name| host_value(&host, name));
    let of_task: Vec<_> = of_task
        .iter()
        .map(|(name, value)| (name.clone(), value_of(value)))
        .collect();
    let mut environment = host;
    environment.retain(|name, _| !denied.contains(name));
    environment.extend(of_task);
    environment
}

fn refused(refusal: &Refusal) -> StartFailed {
    let recovery = match refusal {
        Refusal::BadPlan { .. }
        | Refusal::Malformed { .. }
        | Refusal::MissingDescriptor { .. }
        | Refusal::NoCommonVersion { .. } => Recovery::Hopeless,
        _ => Recovery::Possible,
    };
    StartFailed {
        message: format!("keeper did not start it: {refusal}"),
        recovery,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_s_variables_win_over_the_host_s_and_denied_ones_are_gone() {
        let host = || host_variables(&Identity::Keeper);
        assert_eq!(host()["USER"], "root");
        let own = BTreeMap::from([("PATH".to_owned(), "/own".to_owned())]);
        assert_eq!(environment(host(), &own, &[])["PATH"], "/own");
        let longer = BTreeMap::from([("PATH".to_owned(), "/opt:${PATH}:${env.X}".to_owned())]);
        let path = format!("/opt:{}:${{env.X}}", host()["PATH"]);
        assert_eq!(environment(host(), &longer, &[])["PATH"], path);
        let denied = ["PATH".to_owned()];
        assert!(!environment(host(), &BTreeMap::new(), &denied).contains_key("PATH"));
    }
}
