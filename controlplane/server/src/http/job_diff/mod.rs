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

use protocol_model::{Job, nullable};
use serde::Serialize;
use serde_json::Value;

use compare::{members, pairs};

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

#[cfg(test)]
mod tests;
