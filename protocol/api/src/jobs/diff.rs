//! The difference of two versions of a job.

use std::collections::BTreeMap;

use protocol_model::nullable;
use serde::{Deserialize, Serialize};

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum DiffType {
    /// Both are equal.
    #[default]
    None,
    Added,
    Deleted,
    Edited,
}

/// One value's change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FieldDiff {
    #[serde(rename = "Type")]
    pub diff_type: DiffType,
    pub name: String,
    /// Empty where it is new.
    pub old: String,
    /// Empty where it is gone.
    pub new: String,
    /// The effect on allocations: `forces create`.
    #[serde(with = "nullable")]
    pub annotations: Vec<String>,
}

/// One block's change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ObjectDiff {
    #[serde(rename = "Type")]
    pub diff_type: DiffType,
    pub name: String,
    #[serde(with = "nullable")]
    pub fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    pub objects: Vec<Self>,
}

/// One task's change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TaskDiff {
    #[serde(rename = "Type")]
    pub diff_type: DiffType,
    pub name: String,
    #[serde(with = "nullable")]
    pub fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    pub objects: Vec<ObjectDiff>,
    /// The effect on allocations: `forces create/destroy update`.
    #[serde(with = "nullable")]
    pub annotations: Vec<String>,
}

/// One group's change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GroupDiff {
    #[serde(rename = "Type")]
    pub diff_type: DiffType,
    pub name: String,
    #[serde(with = "nullable")]
    pub fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    pub objects: Vec<ObjectDiff>,
    #[serde(with = "nullable")]
    pub tasks: Vec<TaskDiff>,
    /// How many allocations do what: `create`, `in-place update`.
    #[serde(with = "nullable")]
    pub updates: BTreeMap<String, u64>,
}

/// A job's change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobDiff {
    #[serde(rename = "Type")]
    pub diff_type: DiffType,
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(with = "nullable")]
    pub fields: Vec<FieldDiff>,
    #[serde(with = "nullable")]
    pub objects: Vec<ObjectDiff>,
    #[serde(with = "nullable")]
    pub task_groups: Vec<GroupDiff>,
}
