//! Times of day at which a task runs.

use serde::{Deserialize, Serialize};

use crate::nullable::or_default;

/// When a task runs and when it is paused.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Schedule {
    /// The schedule as cron expressions.
    pub cron: Option<ScheduleCron>,
}

/// A schedule as cron expressions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScheduleCron {
    /// When the task starts.
    #[serde(deserialize_with = "or_default")]
    pub start: String,
    /// When it is paused: minute and hour.
    #[serde(deserialize_with = "or_default")]
    pub end: String,
    /// The time zone of both.
    #[serde(deserialize_with = "or_default")]
    pub timezone: String,
}
