//! How urgent an update is, against what the control plane has recorded.
//!
//! | case | priority |
//! |---|---|
//! | client status differs; first word that is already failed; newly known health | urgent |
//! | description or any task's state differs; first word otherwise | typical |
//! | only task events differ | volatile: with the next batch, after 5 s at the latest |
//! | nothing differs | none |
//!
//! The table is Nomad's, with health made urgent (a running deployment waits for it) and with a
//! limit for volatile detail.

use std::collections::BTreeMap;

use protocol_model::{ClientStatus, DeploymentId, NetworkStatus, TaskState};
use protocol_wire::report::{AllocReport, JudgedFor};
use serde::{Deserialize, Serialize};

/// What the control plane has recorded of an allocation, as far as its node reports it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AckedState {
    /// Its client status.
    pub client_status: ClientStatus,
    /// Why, for people.
    pub client_description: String,
    /// Its tasks' states, without their events.
    pub task_states: BTreeMap<String, TaskState>,
    /// Its health.
    pub healthy: Option<bool>,
    /// The deployment that was told of its health: to another one the same word is news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_for: Option<DeploymentId>,
    /// Its own network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,
}

impl AckedState {
    /// What a report leaves recorded: everything but volatile detail.
    pub fn of(report: &AllocReport) -> Self {
        let AllocReport {
            id: _,
            revision: _,
            client_status,
            client_description,
            task_states,
            health: _,
            desired_version: _,
            network,
        } = report;
        let task_states = task_states.iter();
        let (healthy, healthy_for) = health_of(report);
        Self {
            client_status: *client_status,
            client_description: client_description.clone(),
            task_states: task_states
                .map(|(name, state)| (name.clone(), state.without_events()))
                .collect(),
            healthy,
            healthy_for,
            network: network.clone(),
        }
    }

    /// Whether it is what `report` leaves recorded.
    pub(crate) fn says(&self, report: &AllocReport) -> bool {
        let Self {
            client_status,
            client_description,
            task_states,
            healthy,
            healthy_for,
            network,
        } = self;
        *client_status == report.client_status
            && (*healthy, *healthy_for) == health_of(report)
            && *client_description == report.client_description
            && *network == report.network
            && task_states.len() == report.task_states.len()
            && task_states.iter().zip(&report.task_states).all(
                |((name, known), (reported, state))| {
                    name == reported && known.same_but_events(state)
                },
            )
    }
}

/// How urgent an update is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UpdatePriority {
    /// Only detail that is never recorded: it rides along with the next batch, and makes one where
    /// none comes.
    Volatile,
    /// It may gather for a while.
    Typical,
    /// Someone waits for it.
    Urgent,
}

/// The priority of a report; `None` where nothing recorded differs.
pub fn priority(report: &AllocReport, acked: Option<&AckedState>) -> Option<UpdatePriority> {
    let Some(acked) = acked else {
        let failed = report.client_status == ClientStatus::Failed;
        return Some(if failed {
            UpdatePriority::Urgent
        } else {
            UpdatePriority::Typical
        });
    };
    if acked.says(report) {
        return None;
    }
    let health = health_of(report);
    let health_known = health.0.is_some() && health != (acked.healthy, acked.healthy_for);
    if report.client_status != acked.client_status || health_known {
        return Some(UpdatePriority::Urgent);
    }
    Some(UpdatePriority::Typical)
}

/// A report's health, as it is recorded: what it is, and for which deployment.
fn health_of(report: &AllocReport) -> (Option<bool>, Option<DeploymentId>) {
    let healthy = report.health.map(|health| health.healthy);
    let healthy_for = report.health.and_then(|health| match health.judged_for {
        JudgedFor::Deployment(id) => Some(id),
        JudgedFor::NoDeployment | JudgedFor::Unsaid => None,
    });
    (healthy, healthy_for)
}

#[cfg(test)]
mod tests {
    use protocol_model::{AllocId, TaskRunState, UnixNanos};
    use protocol_wire::report::ReportedHealth;

    use super::*;

    #[test]
    fn priorities_follow_the_table() {
        let report = |status| AllocReport::new(AllocId::from_u128(1), 0, status);
        let pending = AckedState::of(&report(ClientStatus::Pending));
        let running = AckedState::of(&report(ClientStatus::Running));
        let mut restarted = report(ClientStatus::Running);
        let state = TaskState {
            state: TaskRunState::Running,
            restarts: 1,
            ..TaskState::default()
        };
        restarted.task_states.insert("main".to_owned(), state);
        let mut healthy = report(ClientStatus::Running);
        healthy.health = Some(ReportedHealth {
            healthy: true,
            at: UnixNanos(1),
            judged_for: JudgedFor::Deployment(DeploymentId::from_u128(4)),
        });
        let told_another = AckedState {
            healthy_for: Some(DeploymentId::from_u128(3)),
            ..AckedState::of(&healthy)
        };
        let mut described = report(ClientStatus::Running);
        described.client_description = "why".to_owned();
        for (report, acked, expected) in [
            (
                report(ClientStatus::Failed),
                None,
                Some(UpdatePriority::Urgent),
            ),
            (
                report(ClientStatus::Running),
                None,
                Some(UpdatePriority::Typical),
            ),
            (
                report(ClientStatus::Running),
                Some(&pending),
                Some(UpdatePriority::Urgent),
            ),
            (report(ClientStatus::Running), Some(&running), None),
            (restarted, Some(&running), Some(UpdatePriority::Typical)),
            (described, Some(&running), Some(UpdatePriority::Typical)),
            (
                healthy.clone(),
                Some(&running),
                Some(UpdatePriority::Urgent),
            ),
            (healthy, Some(&told_another), Some(UpdatePriority::Urgent)),
        ] {
            assert_eq!(priority(&report, acked), expected, "{report:?}");
        }
    }
}
