//! Between messages and domain types: nothing is lost, and nonsense is an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use prost::Message;
use protocol_model::{
    AllocId, ClientStatus, DeploymentId, NetworkStatus, TASK_EVENTS_MAX, TaskEvent, TaskEventKind,
    TaskRunState, TaskState, UnixNanos,
};
use protocol_wire::convert::{ConvertError, REPORT_TASKS_MAX, without_events};
use protocol_wire::report::{AllocReport, JudgedFor, ReportedHealth};
use protocol_wire::v1;

fn times() -> impl Strategy<Value = Option<UnixNanos>> {
    prop::option::of((1i64..i64::MAX).prop_map(UnixNanos))
}

fn events() -> impl Strategy<Value = TaskEvent> {
    let kinds = prop::sample::select(vec![
        TaskEventKind::Received,
        TaskEventKind::NotRestarting,
        TaskEventKind::Terminated,
        TaskEventKind::Other,
    ]);
    (kinds, any::<i64>(), ".{0,12}", any::<i32>(), any::<bool>()).prop_map(
        |(kind, time, display_message, exit_code, fails_task)| TaskEvent {
            kind,
            time: UnixNanos(time),
            display_message,
            details: BTreeMap::from([("exit_code".to_owned(), exit_code.to_string())]),
            exit_code,
            signal: 0,
            fails_task,
        },
    )
}

fn task_states() -> impl Strategy<Value = TaskState> {
    let states = prop::sample::select(vec![
        TaskRunState::Pending,
        TaskRunState::Running,
        TaskRunState::Dead,
    ]);
    let history = prop::collection::vec(events(), 0..=TASK_EVENTS_MAX);
    (
        states,
        any::<bool>(),
        any::<u64>(),
        times(),
        times(),
        times(),
        history,
    )
        .prop_map(
            |(state, failed, restarts, last_restart, started_at, finished_at, events)| TaskState {
                state,
                failed,
                restarts,
                last_restart,
                started_at,
                finished_at,
                events: events.into_iter().map(Arc::new).collect(),
            },
        )
}

fn networks() -> impl Strategy<Value = Option<NetworkStatus>> {
    let network = ("[a-z0-9]{0,15}", "[0-9.]{0,15}", "[0-9a-f:]{0,39}");
    let network = network.prop_map(|(interface_name, address, address_ipv6)| NetworkStatus {
        interface_name,
        address,
        address_ipv6,
        dns: None,
    });
    prop::option::of(network)
}

fn reports() -> impl Strategy<Value = AllocReport> {
    let statuses = prop::sample::select(vec![
        ClientStatus::Pending,
        ClientStatus::Running,
        ClientStatus::Complete,
        ClientStatus::Failed,
        ClientStatus::Lost,
        ClientStatus::Unknown,
    ]);
    let judged_for = prop_oneof![
        Just(JudgedFor::Unsaid),
        Just(JudgedFor::NoDeployment),
        any::<u128>().prop_map(|id| JudgedFor::Deployment(DeploymentId::from_u128(id))),
    ];
    let health = prop::option::of((any::<bool>(), any::<i64>(), judged_for));
    let tasks = prop::collection::btree_map("[a-z]{1,8}", task_states(), 0..4);
    (
        any::<u128>(),
        any::<u64>(),
        statuses,
        ".{0,12}",
        tasks,
        health,
        (any::<u64>(), networks()),
    )
        .prop_map(
            |(id, revision, client_status, client_description, task_states, health, last)| {
                let (version, network) = last;
                AllocReport {
                    id: AllocId::from_u128(id),
                    revision,
                    client_status,
                    client_description,
                    task_states,
                    health: health.map(|(healthy, at, judged_for)| ReportedHealth {
                        healthy,
                        at: UnixNanos(at),
                        judged_for,
                    }),
                    desired_version: version,
                    network,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_report_survives_the_wire(report in reports()) {
        let bytes = v1::AllocReport::from(&report).encode_to_vec();
        let message = v1::AllocReport::decode(bytes.as_slice()).expect("a message");
        prop_assert_eq!(AllocReport::try_from(message), Ok(report));
    }

    #[test]
    fn any_bytes_are_a_report_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = v1::AllocReport::decode(bytes.as_slice()) {
            let _ = AllocReport::try_from(message);
        }
    }
}

fn message() -> v1::AllocReport {
    v1::AllocReport::from(&AllocReport::new(
        AllocId::from_u128(1),
        1,
        ClientStatus::Running,
    ))
}

#[test]
fn nonsense_names_its_field() {
    let mut short = message();
    short.alloc_id.truncate(15);
    let error = ConvertError::Length {
        field: "alloc_id",
        wanted: 16,
        found: 15,
    };
    assert_eq!(AllocReport::try_from(short), Err(error));
    let mut unknown = message();
    unknown.client_status = 77;
    let error = ConvertError::UnknownValue {
        field: "client_status",
        value: 77,
    };
    assert_eq!(AllocReport::try_from(unknown), Err(error));
    let mut crowded = message();
    crowded.tasks = vec![v1::TaskReport::default(); REPORT_TASKS_MAX + 1];
    let found = REPORT_TASKS_MAX + 1;
    let error = ConvertError::TooMany {
        field: "tasks",
        max: REPORT_TASKS_MAX,
        found,
    };
    assert_eq!(AllocReport::try_from(crowded), Err(error));
    let mut long = message();
    long.network = Some(v1::NetworkStatus {
        address: "1".repeat(65),
        ..v1::NetworkStatus::default()
    });
    let error = AllocReport::try_from(long).expect_err("an address of 65 bytes");
    assert!(error.to_string().starts_with("network: 65"), "{error}");
}

#[test]
fn too_many_events_become_the_newest() {
    let event = |number: i64| v1::TaskEvent {
        time_ns: number,
        ..v1::TaskEvent::default()
    };
    let mut long = message();
    let events = (0..40).map(event).collect();
    long.tasks = vec![v1::TaskReport {
        name: "main".to_owned(),
        events,
        ..v1::TaskReport::default()
    }];
    let report = AllocReport::try_from(long).expect("a report");
    let events = &report.task_states["main"].events;
    assert_eq!(
        (events.len(), events[0].time),
        (TASK_EVENTS_MAX, UnixNanos(30))
    );
    assert!(
        without_events(&report.task_states)["main"]
            .events
            .is_empty()
    );
}

#[test]
fn an_event_of_a_kind_that_is_not_known_is_shown_as_other() {
    let newer = v1::TaskEvent {
        kind: "Teleported".to_owned(),
        ..v1::TaskEvent::default()
    };
    assert_eq!(TaskEvent::from(newer).kind, TaskEventKind::Other);
    let known = TaskEvent::new(TaskEventKind::NotRestarting, "", UnixNanos(1));
    assert_eq!(v1::TaskEvent::from(&known).kind, "Not Restarting");
}
