//! What an allocation says of itself.

use std::collections::BTreeMap;

use protocol_model::{ClientStatus, TaskRunState, TaskState};
use protocol_wire::report::{AllocReport, ReportedHealth, keep_newest_events};

use super::{AllocRunner, Preparation};
use crate::lifecycle::Role;

impl AllocRunner {
    /// Its report; the batcher gives it its revision.
    pub fn report(&self) -> AllocReport {
        let (client_status, description) = self.client_status();
        AllocReport {
            id: self.spec.id(),
            revision: 0,
            client_status,
            client_description: description,
            task_states: self.task_states(),
            health: self.state.health.map(|health| ReportedHealth {
                healthy: health.healthy,
                at: health.at,
                judged_for: health.deployment.into(),
            }),
            desired_version: self.spec.version(),
            network: self.state.resources.network.clone(),
        }
    }

    /// Its status and why: any failed task makes it failed, else any running one running, else any
    /// pending one pending, else it is complete.
    pub fn client_status(&self) -> (ClientStatus, String) {
        if let Some(awaited) = self.awaited.filter(|_| self.waits()) {
            let message = format!("Waiting for allocation {} to end", awaited.short());
            return (ClientStatus::Pending, message);
        }
        if let Preparation::Failed { message } = &self.preparation {
            return (ClientStatus::Failed, message.clone());
        }
        let (mut failed, mut running, mut pending) = (false, false, false);
        for member in self.members() {
            match member.facts.state {
                TaskRunState::Dead => failed |= member.facts.failed,
                TaskRunState::Running => running = true,
                // It begins in a moment: an allocation that ran does not look new in between.
                TaskRunState::Pending if member.facts.role == Role::Poststop => {
                    let ran =
                        |task: &crate::task_runner::TaskRunner| task.state().started_at.is_some();
                    let anything_ran = self.tasks.values().any(ran);
                    running |= anything_ran && self.others_dead();
                    pending |= !anything_ran;
                }
                TaskRunState::Pending => pending = true,
            }
        }
        let (status, text) = if failed {
            (ClientStatus::Failed, "Failed tasks")
        } else if running {
            (ClientStatus::Running, "Tasks are running")
        } else if pending {
            (ClientStatus::Pending, "No tasks have started")
        } else {
            (ClientStatus::Complete, "All tasks have completed")
        };
        (status, text.to_owned())
    }

    fn others_dead(&self) -> bool {
        let members = self.members();
        let mut others = members
            .iter()
            .filter(|member| member.facts.role != Role::Poststop);
        others.all(|member| member.facts.state == TaskRunState::Dead)
    }

    /// The tasks' states with as many of their newest events as fit.
    fn task_states(&self) -> BTreeMap<String, TaskState> {
        let mut states: BTreeMap<String, TaskState> = self
            .tasks
            .values()
            .map(|task| (task.name().to_owned(), task.state().clone()))
            .collect();
        keep_newest_events(&mut states);
        states
    }
}
