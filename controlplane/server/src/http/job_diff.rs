//! The difference of two jobs, as `plan` shows it.
//!
//! Both are compared in the form of the API: a field that a later release adds is compared without
//! a line here. What is equal is left out.
//!
//! ```text
//!   scalars            -> Fields   {Type, Name, Old, New}
//!   free maps          -> Fields   Meta[key]; of a driver's configuration args[0], env[A]
//!   objects            -> Objects  {Type, Name, Fields, Objects}
//!   lists of objects   -> Objects, matched by name or label, else by being equal
//!   groups and tasks   -> lists of their own
//! ```

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{Job, nullable};
use serde::Serialize;
use serde_json::{Map, Value};

/// What happened to something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) enum DiffType {
    None,
    Added,
    Deleted,
    Edited,
}

/// One value's change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FieldDiff {
    #[serde(rename = "Type")]
    diff_type: DiffType,
    pub(super) name: String,
    old: String,
    new: String,
    /// What the change forces; the caller's to say.
    #[serde(with = "nullable")]
    pub(super) annotations: Vec<&'static str>,
}

/// One block's change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ObjectDiff {
    #[serde(rename = "Type")]
    diff_type: DiffType,
    name: String,
    #[serde(with = "nullable")]
    fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    objects: Vec<Self>,
}

/// One task's change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TaskDiff {
    #[serde(rename = "Type")]
    pub(super) diff_type: DiffType,
    name: String,
    #[serde(with = "nullable")]
    fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    objects: Vec<ObjectDiff>,
    /// What the change forces; the caller's to say.
    #[serde(with = "nullable")]
    pub(super) annotations: Vec<&'static str>,
}

/// One group's change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GroupDiff {
    #[serde(rename = "Type")]
    pub(super) diff_type: DiffType,
    pub(super) name: String,
    #[serde(with = "nullable")]
    pub(super) fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    objects: Vec<ObjectDiff>,
    #[serde(with = "nullable")]
    pub(super) tasks: Vec<TaskDiff>,
    /// How many allocations do what; the caller's to say.
    #[serde(with = "nullable")]
    pub(super) updates: BTreeMap<&'static str, u64>,
}

/// The job's change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct JobDiff {
    #[serde(rename = "Type")]
    pub(super) diff_type: DiffType,
    #[serde(rename = "ID")]
    id: String,
    #[serde(with = "nullable")]
    fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    objects: Vec<ObjectDiff>,
    #[serde(with = "nullable")]
    pub(super) task_groups: Vec<GroupDiff>,
}

/// What the control plane fills in: no part of what a user changed.
const VOLATILE: [&str; 15] = [
    "ID",
    "Status",
    "StatusDescription",
    "Version",
    "VersionTag",
    "Stable",
    "CreateIndex",
    "ModifyIndex",
    "JobModifyIndex",
    "SubmitTime",
    "NomadTokenID",
    "ConsulToken",
    "VaultToken",
    "Update",
    "TaskGroups",
];
/// Maps whose keys are the user's: shown as fields of what they are in.
const FREE_MAPS: [&str; 6] = [
    "Meta",
    "Env",
    "CanaryMeta",
    "CanaryTags",
    "Options",
    "Headers",
];

impl JobDiff {
    /// How `new` differs from `old`; everything is new where there is no `old`. Both are canonical.
    pub(super) fn new(old: Option<&Job>, new: &Job) -> Self {
        // Fails only for maps whose keys are no texts, and a job has none.
        let json = |job: &Job| serde_json::to_value(job).unwrap_or_default();
        let old = old.map_or(Value::Null, json);
        let id = new.id.clone();
        let new = json(new);
        let (fields, objects) = members(&old, &new, &VOLATILE);
        let task_groups = pairs(&old["TaskGroups"], &new["TaskGroups"])
            .into_iter()
            .map(|(name, old, new)| GroupDiff::of(name, old, new))
            .collect::<Vec<_>>();
        let changed = !fields.is_empty()
            || !objects.is_empty()
            || task_groups
                .iter()
                .any(|group| group.diff_type != DiffType::None);
        Self {
            diff_type: kind(&old, &new, changed),
            id,
            fields,
            objects,
            task_groups,
        }
    }
}

impl GroupDiff {
    fn of(name: String, old: &Value, new: &Value) -> Self {
        let (fields, objects) = members(old, new, &["Name", "Tasks"]);
        let tasks = pairs(&old["Tasks"], &new["Tasks"])
            .into_iter()
            .map(|(name, old, new)| TaskDiff::of(name, old, new))
            .filter(|task| task.diff_type != DiffType::None)
            .collect::<Vec<_>>();
        let changed = !fields.is_empty() || !objects.is_empty() || !tasks.is_empty();
        let updates = BTreeMap::new();
        Self {
            diff_type: kind(old, new, changed),
            name,
            fields,
            objects,
            tasks,
            updates,
        }
    }
}

impl TaskDiff {
    fn of(name: String, old: &Value, new: &Value) -> Self {
        let (fields, objects) = members(old, new, &["Name"]);
        let changed = !fields.is_empty() || !objects.is_empty();
        let annotations = Vec::new();
        Self {
            diff_type: kind(old, new, changed),
            name,
            fields,
            objects,
            annotations,
        }
    }
}

fn kind(old: &Value, new: &Value, changed: bool) -> DiffType {
    match (old.is_null(), new.is_null()) {
        (true, false) => DiffType::Added,
        (false, true) => DiffType::Deleted,
        _ if changed => DiffType::Edited,
        _ => DiffType::None,
    }
}

/// Things with names, side by side, in the order of their names.
fn pairs<'a>(old: &'a Value, new: &'a Value) -> Vec<(String, &'a Value, &'a Value)> {
    let named = |list: &'a Value| -> BTreeMap<&'a str, &'a Value> {
        let items = list.as_array().into_iter().flatten();
        items
            .map(|item| (item["Name"].as_str().unwrap_or(""), item))
            .collect()
    };
    let (old, new) = (named(old), named(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let of = |side: &BTreeMap<&str, &'a Value>, name: &str| {
        side.get(name).copied().unwrap_or(&Value::Null)
    };
    names
        .into_iter()
        .map(|name| (name.to_owned(), of(&old, name), of(&new, name)))
        .collect()
}

type Members = (Vec<FieldDiff>, Vec<ObjectDiff>);

/// Compares what two objects hold, except for `skipped`.
fn members(old: &Value, new: &Value, skipped: &[&str]) -> Members {
    let none = Map::new();
    let (old, new) = (
        old.as_object().unwrap_or(&none),
        new.as_object().unwrap_or(&none),
    );
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let (mut fields, mut objects) = (Vec::new(), Vec::new());
    for key in keys
        .into_iter()
        .filter(|key| !skipped.contains(&key.as_str()))
    {
        let old = old.get(key).unwrap_or(&Value::Null);
        let new = new.get(key).unwrap_or(&Value::Null);
        if old != new {
            member(key, old, new, &mut fields, &mut objects);
        }
    }
    (fields, objects)
}

fn member(
    key: &str,
    old: &Value,
    new: &Value,
    fields: &mut Vec<FieldDiff>,
    objects: &mut Vec<ObjectDiff>,
) {
    if FREE_MAPS.contains(&key) {
        flat(key, old, new, fields);
        return;
    }
    match (old, new) {
        (Value::Array(_), _) | (_, Value::Array(_)) => list(key, old, new, objects),
        (Value::Object(_), _) | (_, Value::Object(_)) => {
            let (fields, inner) = if key == "Config" {
                let mut fields = Vec::new();
                flat("", old, new, &mut fields);
                (fields, Vec::new())
            } else {
                members(old, new, &["ID", "CreateIndex", "ModifyIndex"])
            };
            push_object(key, old, new, (fields, inner), objects);
        }
        _ => fields.extend(field(key.to_owned(), old, new)),
    }
}

fn push_object(
    name: &str,
    old: &Value,
    new: &Value,
    (fields, inner): Members,
    objects: &mut Vec<ObjectDiff>,
) {
    let diff_type = kind(old, new, !fields.is_empty() || !inner.is_empty());
    if diff_type != DiffType::None {
        objects.push(ObjectDiff {
            diff_type,
            name: name.to_owned(),
            fields,
            objects: inner,
        });
    }
}

fn list(key: &str, old: &Value, new: &Value, objects: &mut Vec<ObjectDiff>) {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (mut old, mut new) = (items(old), items(new));
    if !old.iter().chain(&new).any(Value::is_object) {
        scalars(key, &old, &new, objects);
        return;
    }
    // What is in both is no difference, wherever it stands.
    old.retain(|item| match new.iter().position(|other| other == item) {
        Some(place) => {
            new.remove(place);
            false
        }
        None => true,
    });
    let name = singular(key);
    for item in &old {
        let same = new
            .iter()
            .position(|other| label(other).is_some() && label(other) == label(item));
        // One of each left: it is the same one, changed.
        let lone = old.len() == 1 && new.len() == 1 && label(item).is_none();
        let partner = match same.or_else(|| lone.then_some(0)) {
            Some(place) => new.remove(place),
            None => Value::Null,
        };
        push_object(name, item, &partner, members(item, &partner, &[]), objects);
    }
    for item in &new {
        push_object(
            name,
            &Value::Null,
            item,
            members(&Value::Null, item, &[]),
            objects,
        );
    }
}

/// What tells the elements of a list apart.
fn label(item: &Value) -> Option<&str> {
    ["Name", "Label", "DestPath", "RelativeDest", "Volume"]
        .iter()
        .find_map(|key| item[*key].as_str())
        .filter(|text| !text.is_empty())
}

/// The name that one element of a list has.
fn singular(key: &str) -> &str {
    match key {
        "Affinities" => "Affinity",
        "Identities" => "Identity",
        "ScalingPolicies" => "ScalingPolicy",
        "Devices" => "Device",
        other => other.strip_suffix('s').unwrap_or(other),
    }
}

/// Lists of plain values are sets here; only where just the order differs are places shown.
fn scalars(key: &str, old: &[Value], new: &[Value], objects: &mut Vec<ObjectDiff>) {
    let gone = old.iter().filter(|item| !new.contains(item));
    let come = new.iter().filter(|item| !old.contains(item));
    let mut fields: Vec<FieldDiff> = gone
        .map(|item| (item, &Value::Null))
        .chain(come.map(|item| (&Value::Null, item)))
        .filter_map(|(old, new)| field(key.to_owned(), old, new))
        .collect();
    if fields.is_empty() {
        let both = old.iter().zip(new).enumerate();
        fields.extend(
            both.filter_map(|(place, (old, new))| field(format!("{key}[{place}]"), old, new)),
        );
    }
    let all = |items: &[Value]| {
        if items.is_empty() {
            Value::Null
        } else {
            Value::Bool(true)
        }
    };
    push_object(key, &all(old), &all(new), (fields, Vec::new()), objects);
}

/// A tree of free keys as fields: `labels[a]`, `args[0]`, `mount[0].type`.
fn flat(name: &str, old: &Value, new: &Value, fields: &mut Vec<FieldDiff>) {
    let mut leaves = (BTreeMap::new(), BTreeMap::new());
    collect(name, old, &mut leaves.0);
    collect(name, new, &mut leaves.1);
    let (old, new) = leaves;
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let of = |side: &BTreeMap<String, Value>| side.get(name).cloned().unwrap_or(Value::Null);
        fields.extend(field(name.clone(), &of(&old), &of(&new)));
    }
}

fn collect(name: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    let below = |key: &str| match name {
        "" => key.to_owned(),
        name => format!("{name}[{key}]"),
    };
    match value {
        Value::Null => {}
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| collect(&below(key), value, leaves)),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                collect(&below(&place.to_string()), item, leaves);
            }
        }
        leaf => {
            leaves.insert(name.to_owned(), leaf.clone());
        }
    }
}

fn field(name: String, old: &Value, new: &Value) -> Option<FieldDiff> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (old, new) = (text(old), text(new));
    let diff_type = match (old.is_empty(), new.is_empty()) {
        _ if old == new => return None,
        (true, _) => DiffType::Added,
        (_, true) => DiffType::Deleted,
        _ => DiffType::Edited,
    };
    let annotations = Vec::new();
    Some(FieldDiff {
        diff_type,
        name,
        old,
        new,
        annotations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Job {
        let mut job: Job = serde_json::from_str(text).expect("a job");
        job.canonicalize();
        job
    }

    const WEB: &str = r#"{"ID":"web","TaskGroups":[{"Name":"g","Count":1,"Tasks":[
        {"Name":"t","Driver":"exec","Config":{"command":"a","args":["x"]},"Env":{"A":"1"}}]}]}"#;

    #[test]
    fn equal_jobs_have_no_difference() {
        let mut old = job(WEB);
        old.version = 3;
        old.modify_index = 9;
        let diff = JobDiff::new(Some(&old), &job(WEB));
        assert_eq!(diff.diff_type, DiffType::None);
        assert!(diff.fields.is_empty() && diff.objects.is_empty());
    }

    #[test]
    fn changes_are_found_where_they_are() {
        let new = WEB
            .replace(r#""Count":1"#, r#""Count":3"#)
            .replace(r#"["x"]"#, r#"["y"]"#)
            .replace(r#"{"A":"1"}"#, r#"{"A":"2","B":"3"}"#);
        let diff = JobDiff::new(Some(&job(WEB)), &job(&new));
        assert_eq!(diff.diff_type, DiffType::Edited);
        let group = &diff.task_groups[0];
        assert_eq!(
            (group.fields[0].name.as_str(), group.fields[0].new.as_str()),
            ("Count", "3")
        );
        let task = &group.tasks[0];
        let names: Vec<&str> = task
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(names, ["Env[A]", "Env[B]"]);
        assert_eq!(task.fields[1].diff_type, DiffType::Added);
        let config = &task.objects[0];
        assert_eq!(
            (config.name.as_str(), config.fields[0].name.as_str()),
            ("Config", "args[0]")
        );
        assert_eq!(
            (config.fields[0].old.as_str(), config.fields[0].new.as_str()),
            ("x", "y")
        );
    }

    #[test]
    fn a_new_job_is_added_whole_and_lists_are_matched() {
        let new = job(WEB);
        let diff = JobDiff::new(None, &new);
        assert_eq!(diff.diff_type, DiffType::Added);
        assert_eq!(diff.task_groups[0].tasks[0].diff_type, DiffType::Added);
        let mut more = job(WEB);
        more.datacenters.push("dc2".to_owned());
        more.task_groups.push(new.task_groups[0].clone());
        more.task_groups[1].name = "h".to_owned();
        let diff = JobDiff::new(Some(&new), &more);
        assert_eq!(diff.objects[0].name, "Datacenters");
        let kinds: Vec<DiffType> = diff
            .task_groups
            .iter()
            .map(|group| group.diff_type)
            .collect();
        assert_eq!(kinds, [DiffType::None, DiffType::Added]);
    }
}
