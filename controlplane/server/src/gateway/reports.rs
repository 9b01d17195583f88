//! A node's reports, read.

use protocol_wire::convert::ConvertError;
use protocol_wire::report::{AllocReport, keep_newest_events};
use protocol_wire::v1;

/// Reads a list of reports, with as many of their events as are kept of any.
pub(super) fn from_wire(reports: Vec<v1::AllocReport>) -> Result<Vec<AllocReport>, ConvertError> {
    let read = |report: v1::AllocReport| {
        let mut report = AllocReport::try_from(report)?;
        keep_newest_events(&mut report.task_states);
        Ok(report)
    };
    reports.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use protocol_model::{AllocId, ClientStatus, TaskEvent, TaskEventKind, TaskState, UnixNanos};
    use protocol_wire::report::ALLOC_EVENT_BYTES_MAX;

    use super::*;

    #[test]
    fn a_node_that_says_more_of_events_than_it_may_is_cut_short() {
        let long = "x".repeat(ALLOC_EVENT_BYTES_MAX / 3);
        let event = |at| {
            let kind = TaskEventKind::Started;
            Arc::new(TaskEvent::new(kind, long.clone(), UnixNanos(at)))
        };
        let mut report = AllocReport::new(AllocId::from_u128(1), 1, ClientStatus::Running);
        let states = ["a", "b"].map(|task| {
            let state = TaskState {
                events: (0..4).map(event).collect(),
                ..TaskState::default()
            };
            (task.to_owned(), state)
        });
        report.task_states = BTreeMap::from(states);
        let read = from_wire(vec![(&report).into()]).expect("a report");
        let kept = |task: &str| -> Vec<UnixNanos> {
            let events = read[0].task_states[task].events.iter();
            events.map(|event| event.time).collect()
        };
        assert_eq!(kept("a"), [UnixNanos(2), UnixNanos(3)], "the newest");
        assert_eq!(kept("b"), []);
    }
}
