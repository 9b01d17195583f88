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

mod compare;

use std::collections::BTreeMap;

use protocol_api::jobs::{DiffType, GroupDiff, JobDiff, TaskDiff};
use protocol_model::Job;
use serde_json::Value;

use compare::{members, pairs};

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

/// How `new` differs from `old`; everything is new where there is no `old`. Both are canonical.
pub(super) fn job(old: Option<&Job>, new: &Job) -> JobDiff {
    // Fails only for maps whose keys are no texts, and a job has none.
    let json = |job: &Job| serde_json::to_value(job).unwrap_or_default();
    let old = old.map_or(Value::Null, json);
    let id = new.id.clone();
    let new = json(new);
    let (fields, objects) = members(&old, &new, &VOLATILE);
    let task_groups = pairs(&old["TaskGroups"], &new["TaskGroups"])
        .into_iter()
        .map(|(name, old, new)| group(name, old, new))
        .collect::<Vec<_>>();
    let changed = !fields.is_empty()
        || !objects.is_empty()
        || task_groups
            .iter()
            .any(|group| group.diff_type != DiffType::None);
    JobDiff {
        diff_type: kind(&old, &new, changed),
        id,
        fields,
        objects,
        task_groups,
    }
}

fn group(name: String, old: &Value, new: &Value) -> GroupDiff {
    let (fields, objects) = members(old, new, &["Name", "Tasks"]);
    let tasks = pairs(&old["Tasks"], &new["Tasks"])
        .into_iter()
        .map(|(name, old, new)| task(name, old, new))
        .filter(|task| task.diff_type != DiffType::None)
        .collect::<Vec<_>>();
    let changed = !fields.is_empty() || !objects.is_empty() || !tasks.is_empty();
    let updates = BTreeMap::new();
    GroupDiff {
        diff_type: kind(old, new, changed),
        name,
        fields,
        objects,
        tasks,
        updates,
    }
}

fn task(name: String, old: &Value, new: &Value) -> TaskDiff {
    let (fields, objects) = members(old, new, &["Name"]);
    let changed = !fields.is_empty() || !objects.is_empty();
    let annotations = Vec::new();
    TaskDiff {
        diff_type: kind(old, new, changed),
        name,
        fields,
        objects,
        annotations,
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

#[cfg(test)]
mod tests;
