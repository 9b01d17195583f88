//! Frozen bytes: what this release writes every later one reads. A line here never changes; a new
//! shape is a new line, and a new version where the old one could not be read any more.

use protocol_model::{ClientStatus, Incarnation, TaskRunState, UnixNanos};

use super::*;
use crate::alloc_resources::AllocResources;
use crate::alloc_runner::{PersistedHealth, StartHold};
use crate::effect::TaskHook;
use crate::key::RunEpoch;
use crate::task_runner::restart_policy::RestartTracker;
use crate::task_runner::{AfterStop, AttemptState, KillCause};
use crate::test_support::{alloc_of, at, job_with_tasks, task};

const ID: AllocId = AllocId::from_u128(5);

/// Every kind of record, except those that hold the API's own objects, and its bytes.
#[expect(clippy::too_many_lines, reason = "one line after the other, no branch")]
fn frozen() -> Vec<(JournalRecord, &'static str)> {
    let state = PersistedTask {
        epoch: RunEpoch(3),
        attempt: AttemptState::Open,
        restarts: RestartTracker {
            count: 1,
            interval_start: Some(at(1_500).moment),
            total: 2,
        },
        prepared: BTreeSet::from([TaskHook::TaskDirectory]),
        ..PersistedTask::default()
    };
    let stopping = PersistedTask {
        stopping: Some(AfterStop::Die(KillCause::AllocStopped)),
        ..PersistedTask::default()
    };
    let delayed = PersistedTask {
        delayed_until: Some(at(2_500).moment),
        ..PersistedTask::default()
    };
    let acked = AckedState {
        client_status: ClientStatus::Running,
        ..AckedState::default()
    };
    let health = Some(PersistedHealth {
        healthy: true,
        // As in the records of those that do not know it.
        deployment: None,
        at: UnixNanos(7),
    });
    let incarnation = Some(Incarnation::from_u128(9));
    vec![
        (
            JournalRecord::Watermark {
                at: Watermark {
                    incarnation,
                    index: 12,
                },
            },
            r#"{"kind":"watermark","at":{"incarnation":"00000000-0000-0000-0000-000000000009","index":12}}"#,
        ),
        (
            JournalRecord::SessionEpoch {
                epoch: SessionEpoch(4),
            },
            r#"{"kind":"session_epoch","epoch":4}"#,
        ),
        (
            JournalRecord::Boot {
                boot: BootId([3; 16]),
            },
            r#"{"kind":"boot","boot":[3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3]}"#,
        ),
        (
            JournalRecord::Heard { at: UnixNanos(9) },
            r#"{"kind":"heard","at":9}"#,
        ),
        (
            JournalRecord::Confirmed {
                at: at(61_500).moment,
            },
            r#"{"kind":"confirmed","at":{"secs":61,"nanos":500000000}}"#,
        ),
        (
            JournalRecord::Alloc {
                alloc: ID,
                state: PersistedAlloc {
                    hold: StartHold::UntilTold,
                    ..PersistedAlloc::default()
                },
            },
            r#"{"kind":"alloc","alloc":"00000000-0000-0000-0000-000000000005","state":{"health":null,"lease_expired":false,"hold":"until_told"}}"#,
        ),
        (
            JournalRecord::Foreign {
                allocs: BTreeSet::from([ID]),
            },
            r#"{"kind":"foreign","allocs":["00000000-0000-0000-0000-000000000005"]}"#,
        ),
        (
            JournalRecord::DestroyWanted { alloc: ID },
            r#"{"kind":"destroy_wanted","alloc":"00000000-0000-0000-0000-000000000005"}"#,
        ),
        (
            JournalRecord::Destroyed { alloc: ID },
            r#"{"kind":"destroyed","alloc":"00000000-0000-0000-0000-000000000005"}"#,
        ),
        (
            JournalRecord::Intent {
                run: RunKey::new(ID, "main", RunEpoch(3)),
            },
            r#"{"kind":"intent","run":{"alloc":"00000000-0000-0000-0000-000000000005","task":"main","epoch":3}}"#,
        ),
        (
            JournalRecord::Alloc {
                alloc: ID,
                state: PersistedAlloc {
                    health,
                    lease_expired: false,
                    resources: AllocResources::default(),
                    hold: StartHold::Free,
                },
            },
            r#"{"kind":"alloc","alloc":"00000000-0000-0000-0000-000000000005","state":{"health":{"healthy":true,"at":7},"lease_expired":false}}"#,
        ),
        (
            JournalRecord::Task {
                alloc: ID,
                task: "main".to_owned(),
                state: Box::new(state),
            },
            r#"{"kind":"task","alloc":"00000000-0000-0000-0000-000000000005","task":"main","state":{"epoch":3,"attempt":"open","state":{"State":"pending","Failed":false,"Restarts":0,"LastRestart":null,"StartedAt":null,"FinishedAt":null,"Events":null},"restarts":{"count":1,"interval_start":{"secs":1,"nanos":500000000},"total":2},"prepared":["task_directory"]}}"#,
        ),
        (
            JournalRecord::Task {
                alloc: ID,
                task: "main".to_owned(),
                state: Box::new(delayed),
            },
            r#"{"kind":"task","alloc":"00000000-0000-0000-0000-000000000005","task":"main","state":{"epoch":0,"attempt":"over","state":{"State":"pending","Failed":false,"Restarts":0,"LastRestart":null,"StartedAt":null,"FinishedAt":null,"Events":null},"restarts":{"count":0,"interval_start":null,"total":0},"prepared":[],"delayed_until":{"secs":2,"nanos":500000000}}}"#,
        ),
        (
            JournalRecord::Task {
                alloc: ID,
                task: "main".to_owned(),
                state: Box::new(stopping),
            },
            r#"{"kind":"task","alloc":"00000000-0000-0000-0000-000000000005","task":"main","state":{"epoch":0,"attempt":"over","state":{"State":"pending","Failed":false,"Restarts":0,"LastRestart":null,"StartedAt":null,"FinishedAt":null,"Events":null},"restarts":{"count":0,"interval_start":null,"total":0},"prepared":[],"stopping":{"die":"alloc_stopped"}}}"#,
        ),
        (
            JournalRecord::Acknowledged {
                alloc: ID,
                state: Box::new(acked),
            },
            r#"{"kind":"acknowledged","alloc":"00000000-0000-0000-0000-000000000005","state":{"client_status":"running","client_description":"","task_states":{},"healthy":null}}"#,
        ),
    ]
}

#[test]
fn records_have_these_bytes() {
    for (record, text) in frozen() {
        let bytes = encode(&record).expect("encodes");
        assert_eq!(bytes[0], 1);
        assert_eq!(String::from_utf8_lossy(&bytes[1..]), text);
        assert_eq!(decode(&bytes).expect("decodes"), record);
    }
}

#[test]
fn jobs_and_allocations_survive_the_journal() {
    let job = job_with_tasks("web", vec![task("main")]);
    let (alloc, hash) = (Box::new(alloc_of(&job, ID)), SpecHash([1; 32]));
    for record in [
        JournalRecord::Spec {
            hash,
            job: Arc::new(job),
        },
        JournalRecord::Desired {
            alloc: alloc.clone(),
            spec: hash,
            root_key: None,
        },
        JournalRecord::Desired {
            alloc,
            spec: hash,
            root_key: Some(7),
        },
    ] {
        let bytes = encode(&record).expect("encodes");
        assert_eq!(decode(&bytes).expect("decodes"), record);
    }
}

#[test]
fn what_is_no_record_is_an_error_and_no_panic() {
    assert!(matches!(decode(&[]), Err(JournalError::Empty)));
    assert!(matches!(
        decode(b"\x02{}"),
        Err(JournalError::Version { version: 2 })
    ));
    for bytes in [
        &b"\x01"[..],
        b"\x01{}",
        b"\x01{\"kind\":\"new\"}",
        b"\x01\xff",
        b"\x01{}x",
    ] {
        assert!(
            matches!(decode(bytes), Err(JournalError::Decode(_))),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_run_that_was_intended_is_open_until_its_end_is_recorded() {
    let job = job_with_tasks("web", vec![task("main")]);
    let alloc = Box::new(alloc_of(&job, ID));
    let mut records = vec![
        JournalRecord::Desired {
            alloc,
            spec: SpecHash([1; 32]),
            root_key: None,
        },
        JournalRecord::Intent {
            run: RunKey::new(ID, "main", RunEpoch(1)),
        },
    ];
    let task_of = |records: &[JournalRecord]| {
        let node = replay(records.iter().cloned());
        node.allocs[&ID].tasks["main"].clone()
    };
    let open = task_of(&records);
    assert_eq!(
        (open.epoch, open.attempt),
        (RunEpoch(1), AttemptState::Open)
    );
    let mut over = PersistedTask {
        epoch: RunEpoch(1),
        ..PersistedTask::default()
    };
    over.state.state = TaskRunState::Dead;
    let state = Box::new(over.clone());
    records.push(JournalRecord::Task {
        alloc: ID,
        task: "main".to_owned(),
        state,
    });
    assert_eq!(task_of(&records), over);
}

#[test]
fn records_of_an_allocation_that_is_gone_say_nothing() {
    let records = [
        JournalRecord::Destroyed { alloc: ID },
        JournalRecord::Intent {
            run: RunKey::new(ID, "main", RunEpoch(1)),
        },
    ];
    assert_eq!(replay(records), RestoredNode::default());
}
