//! Draining a node: its allocations leave it before a deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::instant::{UnixNanos, rfc3339, rfc3339_always};
use crate::nullable;

/// An operator's wish for a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainSpec {
    /// Nanoseconds until everything that is left is stopped; 0 = no deadline, negative = now.
    pub deadline: i64,
    /// Whether system jobs stay on the node.
    pub ignore_system_jobs: bool,
}

/// A drain that is under way, in the shape of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DrainStrategy {
    /// As in [`DrainSpec::deadline`].
    pub deadline: i64,
    /// As in [`DrainSpec::ignore_system_jobs`].
    pub ignore_system_jobs: bool,
    /// When everything that is left is stopped; `None` without a deadline and where it is now.
    #[serde(with = "rfc3339")]
    pub force_deadline: Option<UnixNanos>,
    /// When the drain began. A change of its deadline keeps this.
    #[serde(with = "rfc3339_always")]
    pub started_at: UnixNanos,
}

impl DrainStrategy {
    /// The drain that `spec` asks for at `now`, of a node that drains since `started_at`. A
    /// deadline counts from `now`.
    pub fn new(spec: DrainSpec, started_at: UnixNanos, now: UnixNanos) -> Self {
        let wait = u64::try_from(spec.deadline).ok().filter(|wait| *wait > 0);
        Self {
            deadline: spec.deadline,
            ignore_system_jobs: spec.ignore_system_jobs,
            force_deadline: wait.map(|wait| now.saturating_add(Duration::from_nanos(wait))),
            started_at,
        }
    }

    /// Whether everything that is left is stopped at `now`.
    pub fn is_overdue(&self, now: UnixNanos) -> bool {
        self.deadline < 0 || self.force_deadline.is_some_and(|at| at <= now)
    }
}

/// The outcome of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrainStatus {
    /// It is under way.
    #[default]
    Draining,
    /// Nothing is left that had to leave.
    Complete,
    /// An operator ended it.
    Canceled,
}

impl DrainStatus {
    /// The word that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Complete => "complete",
            Self::Canceled => "canceled",
        }
    }
}

/// The newest drain of a node, in the shape of the API.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LastDrain {
    /// When it began.
    #[serde(with = "rfc3339_always")]
    pub started_at: UnixNanos,
    /// When it last changed.
    #[serde(with = "rfc3339_always")]
    pub updated_at: UnixNanos,
    /// Its outcome.
    pub status: DrainStatus,
    /// The accessor of the token that changed it last; empty without access control.
    #[serde(rename = "AccessorID")]
    pub accessor_id: String,
    /// The operator's notes.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_none_at_zero_and_over_at_once_below() {
        let now = UnixNanos(1_000);
        for (deadline, force_deadline, overdue, overdue_later) in [
            (0, None, false, false),
            (-1, None, true, true),
            (5, Some(UnixNanos(1_005)), false, true),
        ] {
            let spec = DrainSpec {
                deadline,
                ignore_system_jobs: false,
            };
            let strategy = DrainStrategy::new(spec, UnixNanos(7), now);
            assert_eq!(strategy.force_deadline, force_deadline, "{deadline}");
            assert_eq!(strategy.started_at, UnixNanos(7));
            assert_eq!(strategy.is_overdue(now), overdue, "{deadline}");
            assert_eq!(strategy.is_overdue(UnixNanos(1_005)), overdue_later);
        }
    }

    #[test]
    fn a_last_drain_has_the_keys_of_nomad() {
        let shown = serde_json::to_value(LastDrain::default()).expect("JSON");
        assert_eq!(
            shown,
            serde_json::json!({
                "StartedAt": "1970-01-01T00:00:00Z", "UpdatedAt": "1970-01-01T00:00:00Z",
                "Status": "draining", "AccessorID": "", "Meta": null,
            })
        );
    }
}
