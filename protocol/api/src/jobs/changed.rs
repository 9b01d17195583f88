//! The answers of writes to a job.

use serde::{Deserialize, Serialize};

/// The answer of [`super::RegisterJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Registered {
    /// The evaluation; empty where the job runs nothing by itself.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// 0 where there is no evaluation.
    pub eval_create_index: u64,
    pub job_modify_index: u64,
    /// The blocks of the job without effect in this release, for people.
    pub warnings: String,
    pub index: u64,
    /// Always 0: the leader answers.
    pub last_contact: u64,
    pub known_leader: bool,
    /// Always empty.
    pub next_token: String,
}

/// The answer of [`super::StopJob`] and [`super::EvaluateJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Evaluated {
    /// The evaluation; empty where nothing has to be evaluated.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// 0 where there is no evaluation.
    pub eval_create_index: u64,
    pub job_modify_index: u64,
    pub index: u64,
    /// Always 0: the leader answers.
    pub last_contact: u64,
    pub known_leader: bool,
    /// Always empty.
    pub next_token: String,
}

/// The answer of [`super::ForcePeriodic`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Forced {
    /// The evaluation of the launched job; empty where that was collected already.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// 0 where there is no evaluation.
    pub eval_create_index: u64,
    pub index: u64,
}

/// The answer of [`super::ValidateJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Validated {
    pub driver_config_validated: bool,
    /// Every mistake; `null` where there is none.
    pub validation_errors: Option<Vec<String>>,
    /// The same as one text; empty where the job is valid.
    pub error: String,
    /// The blocks of the job without effect in this release, for people.
    pub warnings: String,
}
