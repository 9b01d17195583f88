//! Launch times of periodic jobs.

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;

/// When a periodic job is launched.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PeriodicConfig {
    /// Whether launches happen; absent becomes true.
    pub enabled: Option<bool>,
    /// One cron expression.
    #[serde(deserialize_with = "or_default")]
    pub spec: String,
    /// Several cron expressions; excludes `spec`.
    #[serde(with = "nullable")]
    pub specs: Vec<String>,
    /// The language of the expressions; `""` becomes `cron`.
    #[serde(deserialize_with = "or_default")]
    pub spec_type: String,
    /// Whether a launch is skipped while an earlier one still runs.
    #[serde(deserialize_with = "or_default")]
    pub prohibit_overlap: bool,
    /// The IANA name of the time zone; `""` becomes `UTC`.
    #[serde(deserialize_with = "or_default")]
    pub time_zone: String,
}
