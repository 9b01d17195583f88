//! References that no node can resolve, or that stand where nothing replaces them.
//!
//! Of a name without a known root only the job file's reader can tell whether it was meant for a
//! shell (`$${x}`): it warns of those.

use std::collections::BTreeSet;

use super::Warning;
use crate::group::TaskGroup;
use crate::job::Job;
use crate::network::{NetworkMode, NetworkResource};
use crate::placement::{Affinity, Constraint, Spread};
use crate::reference::{Reference, ReferenceForm, references, variable_name};
use crate::task::Task;

/// How many of these warnings one job gets; one more says that there are others.
const WARNINGS_MAX: usize = 64;

/// What a node says of itself.
const OF_NODE: [&str; 6] = [
    "node.class",
    "node.datacenter",
    "node.pool",
    "node.region",
    "node.unique.id",
    "node.unique.name",
];
/// Variables of the host that every task gets.
const OF_HOST: [&str; 7] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER"];
/// `NOMAD_*` of every task; some only where the node or the job has a value.
const OF_TASK: [&str; 20] = [
    "ALLOC_DIR",
    "ALLOC_ID",
    "ALLOC_INDEX",
    "ALLOC_NAME",
    "CPU_CORES",
    "CPU_LIMIT",
    "DC",
    "GROUP_NAME",
    "JOB_ID",
    "JOB_NAME",
    "JOB_PARENT_ID",
    "MEMORY_LIMIT",
    "MEMORY_MAX_LIMIT",
    "NAMESPACE",
    "PARENT_CGROUP",
    "REGION",
    "SECRETS_DIR",
    "SHORT_ALLOC_ID",
    "TASK_DIR",
    "TASK_NAME",
];
/// `NOMAD_*` of every port, in front of its label.
const OF_PORT: [&str; 7] = [
    "ADDR_",
    "ALLOC_PORT_",
    "HOST_ADDR_",
    "HOST_IP_",
    "HOST_PORT_",
    "IP_",
    "PORT_",
];

/// The same of a port in a network of mode bridge.
const OF_BRIDGE_PORT: [&str; 3] = ["ALLOC_ADDR_", "ALLOC_INTERFACE_", "ALLOC_IP_"];

/// What replaces the references of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The scheduler, with what a node says of itself.
    Comparison,
    /// The node.
    Text,
    /// The node, as HCL2.
    Config,
}

/// The variables that a task's texts may name.
struct Variables<'j> {
    own: BTreeSet<&'j str>,
    ports: BTreeSet<String>,
    bridge_ports: BTreeSet<String>,
    meta: BTreeSet<String>,
    /// A template adds others, whose names are known once it is rendered.
    has_others: bool,
}

impl<'j> Variables<'j> {
    fn of(job: &'j Job, group: &'j TaskGroup, task: &'j Task) -> Self {
        let older = task.resources.iter().flat_map(|it| &it.networks);
        let networks = group.networks.iter().chain(older);
        let ports = networks.flat_map(NetworkResource::ports);
        let bridges = group.networks.iter();
        let bridges = bridges.filter(|network| network.mode() == NetworkMode::Bridge);
        let bridge_ports = bridges.flat_map(NetworkResource::ports);
        let dispatched = job.parameterized_job.iter();
        let dispatched = dispatched.flat_map(|it| it.meta_required.iter().chain(&it.meta_optional));
        let meta = [&job.meta, &group.meta, &task.meta];
        let keys = meta.into_iter().flat_map(|meta| meta.keys());
        let keys = keys.chain(dispatched).map(|key| variable_name(key));
        let is_made = |name: &String| name.contains("${");
        Self {
            own: task.env.keys().map(String::as_str).collect(),
            ports: ports.map(|port| variable_name(&port.label)).collect(),
            bridge_ports: bridge_ports
                .map(|port| variable_name(&port.label))
                .collect(),
            meta: keys.flat_map(|key| [key.to_uppercase(), key]).collect(),
            has_others: task.templates.iter().any(crate::Template::envvars)
                || task.env.keys().any(is_made),
        }
    }

    fn has(&self, name: &str) -> bool {
        if self.has_others || self.own.contains(name) || OF_HOST.contains(&name) {
            return true;
        }
        let Some(name) = name.strip_prefix("NOMAD_") else {
            return false;
        };
        let name = variable_name(name);
        let is_of = |ports: &BTreeSet<String>, kind: &str| {
            let label = name.strip_prefix(kind);
            label.is_some_and(|label| ports.contains(label))
        };
        OF_TASK.contains(&name.as_str())
            || OF_PORT.iter().any(|kind| is_of(&self.ports, kind))
            || OF_BRIDGE_PORT
                .iter()
                .any(|kind| is_of(&self.bridge_ports, kind))
            || name
                .strip_prefix("META_")
                .is_some_and(|key| self.meta.contains(key))
    }
}

/// Collects the warnings of one job.
pub(super) struct Search {
    left: usize,
}

impl Search {
    pub(super) fn new() -> Self {
        Self { left: WARNINGS_MAX }
    }

    pub(super) fn job(&mut self, job: &Job, out: &mut Vec<Warning>) {
        let mut texts = comparisons(&job.constraints, &job.affinities, &job.spreads);
        texts.extend(job.meta.values().map(|text| at("meta", text)));
        self.look(texts, "", None, out);
    }

    pub(super) fn group(&mut self, group: &TaskGroup, place: &str, out: &mut Vec<Warning>) {
        let mut texts = comparisons(&group.constraints, &group.affinities, &group.spreads);
        texts.extend(group.meta.values().map(|text| at("meta", text)));
        self.look(texts, place, None, out);
    }

    pub(super) fn task(
        &mut self,
        (job, group, task): (&Job, &TaskGroup, &Task),
        place: &str,
        out: &mut Vec<Warning>,
    ) {
        let mut texts = comparisons(&task.constraints, &task.affinities, &[]);
        texts.extend(task.meta.values().map(|text| at("meta", text)));
        let pairs = task.env.iter().flat_map(|(name, value)| [name, value]);
        texts.extend(pairs.map(|text| at("env", text)));
        texts.push(at("user", &task.user));
        for (offset, template) in task.templates.iter().enumerate() {
            let of = |field: &str| format!("template {} > {field}", offset + 1);
            texts.push((of("destination"), Place::Text, template.dest_path()));
            let source = template.source_path.as_deref().unwrap_or_default();
            texts.push((of("source"), Place::Text, source));
        }
        let payload = task.dispatch_payload.iter();
        texts.extend(payload.map(|it| at("dispatch_payload > file", &it.file)));
        for (key, value) in &task.config {
            let path = format!("config > {key}");
            let mut found = vec![key.as_str()];
            texts_of(value, &mut found);
            texts.extend(
                found
                    .iter()
                    .map(|text| (path.clone(), Place::Config, *text)),
            );
        }
        let variables = Variables::of(job, group, task);
        self.look(texts, place, Some(&variables), out);
    }

    fn look(
        &mut self,
        texts: Vec<(String, Place, &str)>,
        around: &str,
        variables: Option<&Variables<'_>>,
        out: &mut Vec<Warning>,
    ) {
        let mut told = BTreeSet::new();
        for (path, place, text) in texts {
            for reference in references(text) {
                let Some(why) = complaint(&reference, place, variables) else {
                    continue;
                };
                let written = &text[reference.span];
                if self.left == 0 || !told.insert((path.clone(), written)) {
                    continue;
                }
                self.left -= 1;
                let block = path.rsplit(" > ").next().unwrap_or(&path);
                let more = match self.left {
                    0 => "; further ones are not listed",
                    _ => "",
                };
                out.push(Warning {
                    message: format!("{block}: `{written}` stays as it is: {why}{more}"),
                    path: format!("{around}{path}"),
                });
            }
        }
    }
}

fn at<'t>(path: &str, text: &'t str) -> (String, Place, &'t str) {
    (path.to_owned(), Place::Text, text)
}

fn comparisons<'j>(
    constraints: &'j [Constraint],
    affinities: &'j [Affinity],
    spreads: &'j [Spread],
) -> Vec<(String, Place, &'j str)> {
    let mut texts = Vec::new();
    let mut add = |block: &str, offset: usize, field: &str, text: &'j str| {
        let path = format!("{block} {} > {field}", offset + 1);
        texts.push((path, Place::Comparison, text));
    };
    for (offset, it) in constraints.iter().enumerate() {
        add("constraint", offset, "attribute", &it.l_target);
        add("constraint", offset, "value", &it.r_target);
    }
    for (offset, it) in affinities.iter().enumerate() {
        add("affinity", offset, "attribute", &it.l_target);
        add("affinity", offset, "value", &it.r_target);
    }
    for (offset, it) in spreads.iter().enumerate() {
        add("spread", offset, "attribute", &it.attribute);
    }
    texts
}

/// Every text within a driver's configuration, keys included.
fn texts_of<'v>(value: &'v serde_json::Value, out: &mut Vec<&'v str>) {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, out)),
        Value::Object(fields) => {
            for (key, value) in fields {
                out.push(key);
                texts_of(value, out);
            }
        }
    }
}

/// Why nothing replaces a reference; `None` where something may.
fn complaint(
    reference: &Reference<'_>,
    place: Place,
    variables: Option<&Variables<'_>>,
) -> Option<String> {
    let name = &*reference.name;
    let (root, rest) = name.split_once('.').unwrap_or((name, ""));
    let is_ours = name.starts_with("NOMAD_");
    if !is_ours && !ROOTS.contains(&root) {
        return None;
    }
    let wrong_form = match (place, reference.form) {
        (_, ReferenceForm::Plain)
        | (Place::Config, _)
        | (Place::Comparison, ReferenceForm::Spaced) => None,
        (_, ReferenceForm::Indexed) => Some("an index is understood in a task's `config` only"),
        (Place::Text, ReferenceForm::Spaced) => {
            Some("blanks are allowed in a task's `config` only")
        }
    };
    if let Some(wrong) = wrong_form {
        return Some(format!("{wrong}; write `${{{name}}}`"));
    }
    match root {
        "attr" | "meta" if !rest.is_empty() => None,
        "node" if OF_NODE.contains(&name) => None,
        "node" if place == Place::Comparison && name == "node.dc" => None,
        "node"
            if place == Place::Config
                && (rest.starts_with("attr.") || rest.starts_with("meta.")) =>
        {
            None
        }
        "attr" | "meta" | "node" => Some(format!(
            "no node has it; there are attr.NAME, meta.NAME, {}",
            OF_NODE.join(", ")
        )),
        "device" | "secret" | "unique" => Some(format!(
            "nothing has a name that begins with `{root}.` in this release"
        )),
        _ if place == Place::Comparison => {
            Some("nodes are compared by attr.NAME, meta.NAME and node.NAME only".to_owned())
        }
        _ => {
            let variable = if is_ours { name } else { rest };
            let missing = variables.is_some_and(|variables| !variables.has(variable));
            missing.then(|| format!("the task has no variable `{variable}`"))
        }
    }
}

/// What the names of references begin with, besides `NOMAD_`.
const ROOTS: [&str; 7] = ["attr", "device", "env", "meta", "node", "secret", "unique"];
