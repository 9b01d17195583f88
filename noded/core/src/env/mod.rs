//! What a task is told about itself: its environment, and the values of `${...}` in its job file.
//!
//! From low to high: what the node knows (`NOMAD_*`), the job's `env`, what hooks and templates
//! add. The variables of the host that a driver lets through lie beneath all of them; the shell
//! adds them. Names and meanings are Nomad's, so that images and scripts carry over.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{
    Allocation, DnsConfig, Node, Task, VolumeMount, WorkloadIdentity, variable_name,
};
use serde_json::{Map, Value};

pub mod file;
pub mod interpolate;
pub mod layout;
mod ports;

use crate::alloc_spec::AllocSpec;
use crate::driver::TaskRoot;
use crate::effect::{PreparedArtifact, PreparedIdentity, PreparedTemplate, Rendering, TaskNetwork};
use crate::identities::{DEFAULT_IDENTITY, name_of, shown_identities};
use crate::settings::Settings;
use crate::task_runner::RunContext;
use layout::TaskPaths;

/// Everything that one task's configuration may refer to.
#[derive(Clone, Debug)]
pub(crate) struct TaskWorld<'a> {
    task: &'a Task,
    host: TaskPaths,
    seen: TaskPaths,
    node: &'a Node,
    region: &'a str,
    environment: BTreeMap<String, String>,
}

impl<'a> TaskWorld<'a> {
    pub(crate) fn new(ctx: RunContext<'a>, task: &'a Task) -> Self {
        let RunContext {
            settings,
            node,
            spec,
            resources,
        } = ctx;
        let root = settings
            .drivers
            .get(&task.driver)
            .map_or(TaskRoot::Host, |driver| driver.root);
        let host = TaskPaths::on_host(&settings.alloc_root, spec.id(), &task.name);
        let seen = TaskPaths::as_seen(root, &settings.alloc_root, spec.id(), &task.name);
        let region = region(spec, settings);
        let mut environment = identity_variables(spec, task, &node.datacenter, region);
        if !settings.parent_cgroup.is_empty() {
            let parent = settings.parent_cgroup.clone();
            environment.insert("NOMAD_PARENT_CGROUP".to_owned(), parent);
        }
        environment.extend(directory_variables(&seen));
        if settings.has_task_api(&task.driver)
            && let Ok(path) = seen.api_socket()
        {
            environment.insert("NOMAD_UNIX_ADDR".to_owned(), format!("unix://{path}"));
        }
        environment.extend(resource_variables(spec.alloc(), &task.name));
        let network = resources.network.as_ref();
        environment.extend(ports::variables(spec.alloc(), &task.name, network));
        let mut world = Self {
            task,
            host,
            seen,
            node,
            region,
            environment,
        };
        world.add_meta(spec);
        // The job's variables may use each other's node values and NOMAD_*, not each other.
        let own = task
            .env
            .iter()
            .map(|(name, value)| (world.resolve(name), world.resolve(value)))
            .collect();
        world.add(own);
        world
    }

    /// Adds variables over those that are there.
    pub(crate) fn add(&mut self, variables: BTreeMap<String, String>) {
        self.environment.extend(variables);
    }

    /// The task's environment.
    #[cfg(test)]
    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The same, when nothing else is left to be asked.
    pub(crate) fn into_environment(self) -> BTreeMap<String, String> {
        self.environment
    }

    /// The environment as templates see it: with the values of the node under their names, as
    /// Nomad's templates have them.
    pub(crate) fn into_template_environment(self) -> BTreeMap<String, String> {
        let mut environment = self.environment;
        for name in interpolate::node_names(self.node) {
            if let Some(value) = interpolate::node_value(self.node, self.region, &name) {
                environment.entry(name).or_insert(value);
            }
        }
        environment
    }

    /// A text of the job file with its `${...}` resolved.
    pub(crate) fn resolve(&self, text: &str) -> String {
        interpolate::replace(text, &|name| self.lookup(name))
    }

    /// The driver's configuration with its `${...}` resolved.
    pub(crate) fn resolve_config(&self, config: &BTreeMap<String, Value>) -> Map<String, Value> {
        let config = config.clone().into_iter().collect();
        interpolate::replace_config(&config, &|name| self.lookup(name))
    }

    /// Where the task sees volumes of its group.
    pub(crate) fn volume_mounts(&self) -> Vec<VolumeMount> {
        let resolved = |text: &Option<String>| text.as_deref().map(|text| self.resolve(text));
        let mounts = self.task.volume_mounts.iter();
        mounts
            .map(|mount| VolumeMount {
                volume: resolved(&mount.volume),
                destination: resolved(&mount.destination),
                read_only: mount.read_only,
                propagation_mode: resolved(&mount.propagation_mode),
                selinux_label: mount.selinux_label.clone(),
            })
            .collect()
    }

    /// The task's templates with their paths on the host; `rendering` says which are written.
    pub(crate) fn templates(
        &self,
        rendering: impl Fn(usize) -> Rendering,
    ) -> Vec<PreparedTemplate> {
        let on_host = |path: &str| layout::host_path(&self.host, &self.seen, &self.resolve(path));
        let templates = self.task.templates.iter().enumerate();
        templates
            .map(|(offset, template)| PreparedTemplate {
                offset,
                rendering: rendering(offset),
                source: template
                    .source_path
                    .as_deref()
                    .filter(|path| !path.is_empty())
                    .map(on_host),
                destination: on_host(template.dest_path()),
            })
            .collect()
    }

    /// The task's artifacts, without those of the given offsets.
    pub(crate) fn artifacts(&self, fetched: &BTreeSet<usize>) -> Vec<PreparedArtifact> {
        let resolved = |texts: &BTreeMap<String, String>| {
            let pairs = texts.iter();
            let pairs = pairs.map(|(name, value)| (self.resolve(name), self.resolve(value)));
            pairs.collect()
        };
        let artifacts = self.task.artifacts.iter().enumerate();
        let missing = artifacts.filter(|(offset, _)| !fetched.contains(offset));
        missing
            .map(|(offset, artifact)| PreparedArtifact {
                offset,
                source: self.resolve(artifact.getter_source.as_deref().unwrap_or_default()),
                options: resolved(&artifact.getter_options),
                headers: resolved(&artifact.getter_headers),
                destination: {
                    let path = artifact.relative_dest.as_deref();
                    let path = path.filter(|path| !path.is_empty()).unwrap_or("local/");
                    layout::host_path(&self.host, &self.seen, &self.resolve(path))
                },
            })
            .collect()
    }

    /// The identities that the task shows.
    pub(crate) fn identities(&self) -> Vec<PreparedIdentity> {
        shown_identities(self.task)
            .map(|identity| self.identity(identity))
            .collect()
    }

    fn identity(&self, identity: &WorkloadIdentity) -> PreparedIdentity {
        let name = name_of(identity);
        let is_default = name == DEFAULT_IDENTITY;
        let path = match identity.filepath.as_str() {
            "" if is_default => "secrets/nomad_token".to_owned(),
            "" => format!("secrets/nomad_{name}.jwt"),
            path => self.resolve(path),
        };
        let variable = match is_default {
            true => "NOMAD_TOKEN".to_owned(),
            false => format!("NOMAD_TOKEN_{name}"),
        };
        PreparedIdentity {
            name: name.to_owned(),
            file: identity
                .file
                .then(|| layout::host_path(&self.host, &self.seen, &path)),
            variable: identity.env.then_some(variable),
        }
    }

    /// The group's network as the task sees it.
    pub(crate) fn network(&self, ctx: RunContext<'_>) -> TaskNetwork {
        let asked = ctx.spec.group().networks.first();
        let resolve = |texts: &Vec<String>| texts.iter().map(|text| self.resolve(text)).collect();
        let dns = asked.and_then(|network| network.dns.as_ref());
        TaskNetwork {
            status: ctx.resources.network.clone(),
            hostname: asked.map_or_else(String::new, |network| self.resolve(&network.hostname)),
            dns: dns.map(|dns| DnsConfig {
                servers: resolve(&dns.servers),
                searches: resolve(&dns.searches),
                options: resolve(&dns.options),
            }),
        }
    }

    /// Where the payload of a dispatched job goes on the host: its path begins in `local`.
    pub(crate) fn dispatch_payload_file(&self) -> Option<String> {
        let file = self.resolve(&self.task.dispatch_payload.as_ref()?.file);
        let joined = format!("{}/{}", self.host.local, file.trim_start_matches('/'));
        Some(layout::settled(&self.host, joined))
    }

    /// A variable is found as it is written, and as the environment spells it: of a port `my-db`
    /// both `NOMAD_PORT_my-db` and `NOMAD_PORT_my_db`.
    fn lookup(&self, name: &str) -> Option<String> {
        let variable = name.strip_prefix("env.").unwrap_or(name);
        let respelt = || {
            let is_ours = variable.starts_with("NOMAD_");
            self.environment
                .get(&is_ours.then(|| variable_name(variable))?)
        };
        self.environment
            .get(variable)
            .or_else(respelt)
            .cloned()
            .or_else(|| interpolate::node_value(self.node, self.region, name))
    }

    /// `NOMAD_META_key`, as written and in upper case: the task's value wins over the group's, and
    /// the group's over the job's.
    fn add_meta(&mut self, spec: &AllocSpec) {
        let mut meta = spec.job().meta.clone();
        meta.extend(spec.group().meta.clone());
        meta.extend(self.task.meta.clone());
        for (key, value) in meta {
            let value = self.resolve(&value);
            let key = variable_name(&key);
            self.environment
                .insert(format!("NOMAD_META_{}", key.to_uppercase()), value.clone());
            self.environment.insert(format!("NOMAD_META_{key}"), value);
        }
    }
}

fn region<'a>(spec: &'a AllocSpec, settings: &'a Settings) -> &'a str {
    match spec.job().region.as_str() {
        "" => &settings.region,
        region => region,
    }
}

fn identity_variables(
    spec: &AllocSpec,
    task: &Task,
    datacenter: &str,
    region: &str,
) -> BTreeMap<String, String> {
    let (alloc, job) = (spec.alloc(), spec.job());
    let name = if job.name.is_empty() {
        &job.id
    } else {
        &job.name
    };
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        variables.insert(name.to_owned(), value.to_owned());
    };
    set("NOMAD_ALLOC_ID", &alloc.id.to_string());
    set("NOMAD_SHORT_ALLOC_ID", &alloc.id.short());
    set("NOMAD_ALLOC_NAME", &alloc.name);
    if let Some(index) = alloc.index() {
        set("NOMAD_ALLOC_INDEX", &index.to_string());
    }
    set("NOMAD_TASK_NAME", &task.name);
    set("NOMAD_GROUP_NAME", &alloc.task_group);
    set("NOMAD_JOB_ID", &job.id);
    set("NOMAD_JOB_NAME", name);
    if !job.parent_id.is_empty() {
        set("NOMAD_JOB_PARENT_ID", &job.parent_id);
    }
    set("NOMAD_DC", datacenter);
    set("NOMAD_REGION", region);
    set("NOMAD_NAMESPACE", &alloc.namespace);
    variables
}

fn directory_variables(seen: &TaskPaths) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("NOMAD_ALLOC_DIR".to_owned(), seen.alloc.clone()),
        ("NOMAD_TASK_DIR".to_owned(), seen.local.clone()),
        ("NOMAD_SECRETS_DIR".to_owned(), seen.secrets.clone()),
    ])
}

fn resource_variables(alloc: &Allocation, task: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let Some(given) = alloc.allocated_resources.tasks.get(task) else {
        return variables;
    };
    let mut set = |name: &str, value: String| {
        variables.insert(name.to_owned(), value);
    };
    if given.memory.memory_mb > 0 {
        set("NOMAD_MEMORY_LIMIT", given.memory.memory_mb.to_string());
    }
    if given.memory.memory_max_mb > 0 {
        set(
            "NOMAD_MEMORY_MAX_LIMIT",
            given.memory.memory_max_mb.to_string(),
        );
    }
    if given.cpu.cpu_shares > 0 {
        set("NOMAD_CPU_LIMIT", given.cpu.cpu_shares.to_string());
    }
    if !given.cpu.reserved_cores.is_empty() {
        set("NOMAD_CPU_CORES", core_list(&given.cpu.reserved_cores));
    }
    variables
}

/// Cores as the kernel's lists have them: `0-2,5`.
pub fn core_list(cores: &[u16]) -> String {
    let mut cores = cores.to_vec();
    cores.sort_unstable();
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if core <= last.saturating_add(1) => *last = core,
            Some(_) | None => ranges.push((core, core)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
