//! How much of a batch a report takes: an estimate from above, so that caps hold on the wire.

use protocol_wire::report::{AllocReport, event_bytes};

/// Tags, lengths and numbers of one message.
const FIXED_BYTES: usize = 64;

/// The bytes of one report.
pub(crate) fn report_bytes(report: &AllocReport) -> usize {
    let tasks: usize = report
        .task_states
        .iter()
        .map(|(name, state)| {
            let events = state.events.iter().map(|event| event_bytes(event));
            FIXED_BYTES + name.len() + events.sum::<usize>()
        })
        .sum();
    FIXED_BYTES + report.client_description.len() + tasks
}
