//! A node's reports against what the state has: which of them say something new.

use protocol_model::{Allocation, TaskState};
use protocol_wire::convert::ConvertError;
use protocol_wire::report::AllocReport;
use protocol_wire::v1;

/// Reads a list of reports.
pub(super) fn from_wire(reports: Vec<v1::AllocReport>) -> Result<Vec<AllocReport>, ConvertError> {
    reports.into_iter().map(AllocReport::try_from).collect()
}

/// Whether a report says something that the state does not have. Events are volatile and do not
/// count.
pub(super) fn is_news(report: &AllocReport, stored: &Allocation) -> bool {
    let AllocReport {
        id: _,
        revision: _,
        client_status,
        client_description,
        task_states,
        health,
        desired_version: _,
    } = report;
    *client_status != stored.client_status
        || *client_description != stored.client_description
        || task_states.len() != stored.task_states.len()
        || task_states.iter().any(|(name, state)| {
            stored
                .task_states
                .get(name)
                .is_none_or(|known| !same_but_events(state, known))
        })
        || health.is_some_and(|health| {
            stored
                .deployment_status
                .as_ref()
                .and_then(|status| status.healthy)
                != Some(health.healthy)
        })
}

fn same_but_events(left: &TaskState, right: &TaskState) -> bool {
    let TaskState {
        state,
        failed,
        restarts,
        last_restart,
        started_at,
        finished_at,
        events: _,
    } = left;
    *state == right.state
        && *failed == right.failed
        && *restarts == right.restarts
        && *last_restart == right.last_restart
        && *started_at == right.started_at
        && *finished_at == right.finished_at
}

/// Reports without what does not belong into the log: the events of allocations that live. The last
/// word of one that ended keeps them, because its node may go away.
pub(super) fn durable(mut reports: Vec<AllocReport>) -> Vec<AllocReport> {
    for report in &mut reports {
        if !report.client_status.is_terminal() {
            report
                .task_states
                .values_mut()
                .for_each(|state| state.events = Vec::new());
        }
    }
    reports
}
