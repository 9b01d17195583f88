//! Task states as the API shows them: each event also has the fields that Nomad's older clients
//! read. They are derived from the event's details, which is what is stored and reported.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::duration::parse_go;
use crate::instant::{UnixNanos, rfc3339};
use crate::task_state::{TaskEvent, TaskEventKind, TaskRunState, TaskState};

/// The states of an allocation's tasks, as the API shows them.
#[derive(Clone, Copy, Debug)]
pub struct ShownTaskStates<'a>(pub &'a BTreeMap<String, TaskState>);

impl Serialize for ShownTaskStates<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, serializer)
    }
}

/// For `#[serde(serialize_with)]`: `null` where there is no task.
pub(crate) fn serialize<S: Serializer>(
    states: &BTreeMap<String, TaskState>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if states.is_empty() {
        return serializer.serialize_none();
    }
    serializer.collect_map(states.iter().map(|(name, state)| (name, shown(state))))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownState<'a> {
    state: TaskRunState,
    failed: bool,
    restarts: u64,
    #[serde(with = "rfc3339")]
    last_restart: Option<UnixNanos>,
    #[serde(with = "rfc3339")]
    started_at: Option<UnixNanos>,
    #[serde(with = "rfc3339")]
    finished_at: Option<UnixNanos>,
    events: Option<Vec<ShownEvent<'a>>>,
}

fn shown(state: &TaskState) -> ShownState<'_> {
    let TaskState {
        state,
        failed,
        restarts,
        last_restart,
        started_at,
        finished_at,
        events,
    } = state;
    let shown = events.iter().map(|event| ShownEvent::new(event));
    ShownState {
        state: *state,
        failed: *failed,
        restarts: *restarts,
        last_restart: *last_restart,
        started_at: *started_at,
        finished_at: *finished_at,
        events: (!events.is_empty()).then(|| shown.collect()),
    }
}

/// An event with every key of Nomad 1.9.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownEvent<'a> {
    #[serde(rename = "Type")]
    kind: TaskEventKind,
    time: UnixNanos,
    message: &'a str,
    display_message: &'a str,
    details: &'a BTreeMap<String, String>,
    fails_task: bool,
    exit_code: i32,
    signal: i32,
    restart_reason: &'a str,
    setup_error: &'a str,
    driver_error: &'a str,
    driver_message: &'a str,
    kill_reason: &'a str,
    kill_error: &'a str,
    /// Nanoseconds.
    kill_timeout: i64,
    /// Nanoseconds.
    start_delay: i64,
    download_error: &'a str,
    validation_error: &'a str,
    disk_limit: i64,
    failed_sibling: &'a str,
    vault_error: &'a str,
    task_signal: &'a str,
    task_signal_reason: &'a str,
    generic_source: &'a str,
}

impl<'a> ShownEvent<'a> {
    fn new(event: &'a TaskEvent) -> Self {
        let TaskEvent {
            kind,
            time,
            display_message,
            details,
            exit_code,
            signal,
            fails_task,
        } = event;
        let detail = |name: &str| details.get(name).map_or("", String::as_str);
        let message = match detail("message") {
            "" => detail("exit_message"),
            message => message,
        };
        let kill_timeout = parse_go(detail("kill_timeout")).unwrap_or_default();
        Self {
            kind: *kind,
            time: *time,
            message,
            display_message,
            details,
            fails_task: *fails_task,
            exit_code: *exit_code,
            signal: *signal,
            restart_reason: detail("restart_reason"),
            setup_error: detail("setup_error"),
            driver_error: detail("driver_error"),
            driver_message: detail("driver_message"),
            kill_reason: detail("kill_reason"),
            kill_error: detail("kill_error"),
            kill_timeout: i64::try_from(kill_timeout.as_nanos()).unwrap_or(i64::MAX),
            start_delay: detail("start_delay").parse().unwrap_or(0),
            download_error: detail("download_error"),
            validation_error: detail("validation_error"),
            disk_limit: detail("disk_limit").parse().unwrap_or(0),
            failed_sibling: detail("failed_sibling"),
            vault_error: detail("vault_renewal_error"),
            task_signal: detail("task_signal"),
            task_signal_reason: detail("task_signal_reason"),
            generic_source: "",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(event: TaskEvent) -> Value {
        let mut state = TaskState::default();
        state.push_event(event);
        let states = BTreeMap::from([("main".to_owned(), state)]);
        let shown = serde_json::to_value(ShownTaskStates(&states)).expect("JSON");
        shown["main"]["Events"][0].clone()
    }

    #[test]
    fn an_event_has_every_older_key_of_nomad() {
        let shown = event(TaskEvent::new(
            TaskEventKind::Received,
            "Task received by client",
            UnixNanos(7),
        ));
        let expected = json!({
            "Type": "Received", "Time": 7, "DisplayMessage": "Task received by client",
            "Details": {}, "Message": "", "FailsTask": false, "ExitCode": 0, "Signal": 0,
            "RestartReason": "", "SetupError": "", "DriverError": "", "DriverMessage": "",
            "KillReason": "", "KillError": "", "KillTimeout": 0, "StartDelay": 0,
            "DownloadError": "", "ValidationError": "", "DiskLimit": 0, "FailedSibling": "",
            "VaultError": "", "TaskSignal": "", "TaskSignalReason": "", "GenericSource": "",
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn older_keys_hold_what_the_details_say() {
        let of = |kind, name: &str, value: &str| {
            event(TaskEvent::new(kind, "", UnixNanos(7)).with_detail(name, value))
        };
        for (kind, detail, value, key, expected) in [
            (
                TaskEventKind::TaskSetup,
                "message",
                "Building",
                "Message",
                json!("Building"),
            ),
            (
                TaskEventKind::Terminated,
                "exit_message",
                "lost",
                "Message",
                json!("lost"),
            ),
            (
                TaskEventKind::DriverFailure,
                "driver_error",
                "no",
                "DriverError",
                json!("no"),
            ),
            (
                TaskEventKind::Restarting,
                "start_delay",
                "1500000000",
                "StartDelay",
                json!(1_500_000_000),
            ),
            (
                TaskEventKind::Killing,
                "kill_timeout",
                "5s",
                "KillTimeout",
                json!(5_000_000_000_i64),
            ),
            (
                TaskEventKind::Signaling,
                "task_signal",
                "SIGHUP",
                "TaskSignal",
                json!("SIGHUP"),
            ),
        ] {
            let shown = of(kind, detail, value);
            assert_eq!(shown[key], expected, "{detail}");
            assert_eq!(shown["Details"][detail], value);
        }
    }

    #[test]
    fn no_task_and_no_event_is_null() {
        let none = serde_json::to_value(ShownTaskStates(&BTreeMap::new())).expect("JSON");
        assert_eq!(none, Value::Null);
        let states = BTreeMap::from([("main".to_owned(), TaskState::default())]);
        let shown = serde_json::to_value(ShownTaskStates(&states)).expect("JSON");
        let stored = serde_json::to_value(&states).expect("JSON");
        assert_eq!(shown, stored, "otherwise as it is stored");
    }
}
