//! The log's bytes: frozen, and refused where they make no sense.
//!
//! `tests/golden/v1/NAME.bin` is what release 1 writes. A test that fails here means that servers
//! of two releases would not understand each other: change the format's version, keep the old
//! files, and read both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use controlplane_state::codec::{
    DecodeError, LOG_FORMAT, decode, decode_applied, encode, encode_applied,
};
use controlplane_state::command::{
    AllocChange, Change, DeploymentChange, DeploymentStatusUpdate, DrainSwitch, GcCollect,
    JobDeregister, JobRegister, NodeBatch, NodeSynced, PlanApply, Preempted, PromoteGroups, Purge,
};
use controlplane_state::{
    AclToken, AclTokenKind, Applied, BatchRejected, BatchResult, Collected, Command, Digest,
    ItemResult, MissedResult, Namespace, NodeRejected, NodeRejection, Outcome, Refusal,
    SchedulerAlgorithm, SchedulerConfig, SessionEpoch, Stamped, UpdateClass, Welcome, WelcomeKind,
};
use protocol_model::{
    AllocId, ClientStatus, DeploymentId, DeploymentStatus, DesiredTransition, Eligibility, EvalId,
    Incarnation, JobKey, JobSubmission, JobType, NodeStatus, TaskEvent, TaskEventKind,
    TaskRunState, TaskState, UnixNanos,
};
use protocol_wire::report::{AllocReport, JudgedFor, ReportedHealth};

use crate::harness::{Harness, facts, job, node_id, registration, says};

fn report() -> AllocReport {
    let mut task = TaskState {
        state: TaskRunState::Dead,
        failed: true,
        restarts: 2,
        last_restart: Some(UnixNanos(40)),
        started_at: Some(UnixNanos(30)),
        finished_at: Some(UnixNanos(50)),
        events: Vec::new(),
    };
    task.push_event(
        TaskEvent::new(TaskEventKind::Terminated, "Exit Code: 1", UnixNanos(50))
            .with_detail("exit_code", 1),
    );
    let mut report = says(AllocId::from_u128(0xa1), 3, ClientStatus::Failed);
    report.client_description = "Failed tasks".to_owned();
    report.task_states = BTreeMap::from([("main".to_owned(), task)]);
    report.health = Some(ReportedHealth {
        healthy: false,
        at: UnixNanos(51),
        judged_for: JudgedFor::Unsaid,
    });
    report.desired_version = 12;
    report
}

fn job_commands() -> Vec<(&'static str, Command)> {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let mut eval = cluster.eval_of(&web);
    eval.id = EvalId::from_u128(0xe1);
    let register = JobRegister {
        job: Arc::new(web.clone()),
        spec: protocol_model::SpecHash([5; 32]),
        eval: Some(eval.clone()),
        enforce_index: Some(4),
        submission: None,
    };
    let submission = JobSubmission {
        source: "job \"web\" {}".to_owned(),
        format: "hcl2".to_owned(),
        variable_flags: BTreeMap::from([("count".to_owned(), "3".to_owned())]),
        variables: "region = \"north\"".to_owned(),
    };
    let with_source = JobRegister {
        submission: Some(Arc::new(submission)),
        ..register.clone()
    };
    let deregister = JobDeregister {
        key: web.key(),
        purge: Purge::Forget,
        eval: Some(eval.clone()),
        no_shutdown_delay: true,
    };
    let wish = DesiredTransition {
        migrate: Some(true),
        ..DesiredTransition::default()
    };
    vec![
        ("job_register", Command::JobRegister(register)),
        ("job_register_source", Command::JobRegister(with_source)),
        ("job_deregister", Command::JobDeregister(deregister)),
        (
            "job_stability",
            Command::JobStability {
                key: web.key(),
                version: 3,
                stable: true,
            },
        ),
        (
            "job_evaluate",
            Command::JobEvaluate {
                eval: eval.clone(),
                force_reschedule: true,
            },
        ),
        (
            "evals_upsert",
            Command::EvalsUpsert {
                evals: vec![eval.clone()],
            },
        ),
        (
            "allocs_stop",
            Command::AllocsStop {
                allocs: vec![(AllocId::from_u128(9), wish)],
                evals: vec![eval],
            },
        ),
    ]
}

fn plan() -> PlanApply {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let eval = cluster.register(&web);
    let placed = cluster.alloc_for(&web.key(), node, 100);
    let mut updated = placed.clone();
    updated.id = AllocId::from_u128(0xa2);
    let stop = Change::Stop {
        description: "alloc is lost".to_owned(),
        client_status: Some(ClientStatus::Lost),
        followup_eval: Some(EvalId::from_u128(0xe2)),
    };
    PlanApply {
        eval_id: Some(eval),
        snapshot_index: 7,
        placed: vec![Arc::new(placed)],
        updated: vec![Arc::new(updated)],
        changed: vec![
            AllocChange {
                id: AllocId::from_u128(0xa3),
                change: stop,
            },
            AllocChange {
                id: AllocId::from_u128(0xa4),
                change: Change::Reconnect,
            },
        ],
        preempted: vec![Preempted {
            id: AllocId::from_u128(0xa5),
            by: AllocId::from_u128(0xa1),
        }],
        deployment: None,
        deployment_changes: vec![DeploymentChange {
            id: DeploymentId::from_u128(0xd1),
            status: DeploymentStatus::Cancelled,
            description: "newer".to_owned(),
        }],
        evals: vec![cluster.finished(eval)],
    }
}

fn node_commands() -> Vec<(&'static str, Command)> {
    let (node, epoch) = (node_id(1), SessionEpoch(8));
    let synced = NodeSynced {
        node,
        epoch,
        watch_index: 6,
        changed: vec![report()],
        unchanged: vec![AllocId::from_u128(0xa6), AllocId::from_u128(0xa7)],
        facts: Some(Arc::new(facts(1))),
    };
    let batch = NodeBatch {
        node,
        epoch,
        class: UpdateClass::Typical,
        seq: 4,
        reports: vec![report()],
    };
    let nodes = vec![(node, epoch), (node_id(2), SessionEpoch(9))];
    let eligibility = Eligibility::Ineligible;
    vec![
        ("node_hello", Command::NodeHello(Box::new(registration(1)))),
        ("node_synced", Command::NodeSynced(Box::new(synced))),
        ("sync_rejected", Command::SyncRejected { node, epoch }),
        (
            "sync_deadline",
            Command::SyncDeadline {
                nodes: nodes.clone(),
            },
        ),
        (
            "alloc_updates",
            Command::AllocUpdates {
                batches: vec![batch],
            },
        ),
        (
            "heartbeat_missed",
            Command::HeartbeatMissed {
                nodes: nodes.clone(),
            },
        ),
        ("window_expired", Command::WindowExpired { nodes }),
        (
            "node_facts",
            Command::NodeFacts {
                node,
                epoch,
                facts: Arc::new(facts(1)),
            },
        ),
        (
            "node_eligibility",
            Command::NodeEligibility { node, eligibility },
        ),
        (
            "node_drain",
            Command::NodeDrain {
                node,
                drain: DrainSwitch::Begin,
                eligibility_after: eligibility,
            },
        ),
        ("node_purge", Command::NodePurge { node }),
    ]
}

fn settings_commands() -> Vec<(&'static str, Command)> {
    let incarnation = Incarnation::from_u128(0xc1);
    let token = AclToken {
        accessor_id: "a".to_owned(),
        secret_hash: Digest([9; 32]),
        name: "Bootstrap Token".to_owned(),
        kind: AclTokenKind::Management,
        create_time: UnixNanos(1),
        create_index: 0,
        modify_index: 0,
    };
    let namespace = Namespace {
        name: "team".to_owned(),
        description: "a team".to_owned(),
        meta: BTreeMap::new(),
        create_index: 0,
        modify_index: 0,
    };
    let config = SchedulerConfig {
        algorithm: SchedulerAlgorithm::Spread,
        ..SchedulerConfig::default()
    };
    vec![
        ("barrier", Command::Barrier),
        ("cluster_init", Command::ClusterInit { incarnation }),
        (
            "acl_bootstrap",
            Command::AclBootstrap {
                token,
                reset_index: 3,
            },
        ),
        ("namespace_upsert", Command::NamespaceUpsert { namespace }),
        (
            "namespace_delete",
            Command::NamespaceDelete {
                name: "team".to_owned(),
            },
        ),
        (
            "scheduler_config_set",
            Command::SchedulerConfigSet {
                config,
                enforce_index: Some(1),
            },
        ),
    ]
}

fn restore_commands() -> Vec<(&'static str, Command)> {
    let incarnation = Incarnation::from_u128(0xc2);
    let begin = Command::RestoreBegin {
        incarnation,
        bytes: 10,
        sha256: Digest([4; 32]),
    };
    let chunk = Command::RestoreChunk {
        incarnation,
        offset: 7,
        bytes: vec![1, 2, 3].into(),
    };
    vec![
        ("restore_begin", begin),
        ("restore_chunk", chunk),
        ("restore_commit", Command::RestoreCommit { incarnation }),
        ("restore_drop", Command::RestoreDrop { incarnation }),
    ]
}

fn decision_commands() -> Vec<(&'static str, Command)> {
    let id = DeploymentId::from_u128(0xd1);
    let change = DeploymentChange {
        id,
        status: DeploymentStatus::Failed,
        description: "deadline".to_owned(),
    };
    let collect = GcCollect {
        evals: vec![EvalId::from_u128(1)],
        allocs: vec![AllocId::from_u128(2)],
        jobs: vec![JobKey::new("default", "web")],
        deployments: vec![id],
        nodes: vec![node_id(1)],
    };
    let update = DeploymentStatusUpdate {
        change: change.clone(),
        revert: None,
        eval: None,
    };
    let groups = PromoteGroups::Named(vec!["group".to_owned()]);
    let health = Command::DeploymentAllocHealth {
        id,
        healthy: vec![AllocId::from_u128(1)],
        unhealthy: vec![AllocId::from_u128(2)],
        eval: None,
        change: Some(change),
    };
    vec![
        ("plan_apply", Command::PlanApply(Box::new(plan()))),
        ("deployment_status", Command::DeploymentStatus(update)),
        (
            "deployment_promote",
            Command::DeploymentPromote {
                id,
                groups,
                eval: None,
            },
        ),
        ("deployment_alloc_health", health),
        ("gc_collect", Command::GcCollect(collect)),
    ]
}

fn commands() -> Vec<(&'static str, Command)> {
    [
        job_commands(),
        node_commands(),
        settings_commands(),
        restore_commands(),
        decision_commands(),
    ]
    .concat()
}

fn stamped(command: Command) -> Stamped {
    Stamped {
        now: UnixNanos(1_700_000_000_000_000_005),
        seed: [6; 16],
        command,
    }
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v1")
        .join(format!("{name}.bin"))
}

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
/// The frozen bytes. `UPDATE_GOLDEN=1` writes those that are missing, and never changes one.
fn frozen(name: &str, written: &[u8]) -> Vec<u8> {
    let path = golden(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, written).expect("the file");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_command_of_release_1_is_still_read() {
    for (name, command) in commands() {
        let wanted = stamped(command);
        let written = encode(&wanted).expect("bytes");
        let read = decode(&frozen(name, &written)).expect(name);
        assert_eq!(read, wanted, "{name}");
    }
}

#[test]
fn every_command_is_read_as_it_was_written() {
    for (name, command) in commands() {
        let wanted = stamped(command);
        let read = decode(&encode(&wanted).expect("bytes")).expect(name);
        assert_eq!(read, wanted, "{name}");
    }
}

#[test]
fn hot_commands_are_written_as_they_were_frozen() {
    // Documents are compressed, and another version of the compressor may write other bytes of the
    // same meaning. What is spelled out must not move.
    let hot = [
        "barrier",
        "sync_rejected",
        "sync_deadline",
        "alloc_updates",
        "heartbeat_missed",
        "restore_chunk",
    ];
    for (name, command) in commands()
        .into_iter()
        .filter(|(name, _)| hot.contains(name))
    {
        let written = encode(&stamped(command)).expect("bytes");
        assert_eq!(written, frozen(name, &written), "{name}");
    }
}

#[test]
fn a_start_report_costs_little() {
    let task = TaskState {
        state: TaskRunState::Running,
        started_at: Some(UnixNanos(1_700_000_000_000_000_000)),
        ..TaskState::default()
    };
    let mut report = says(AllocId::from_u128(u128::MAX), 2, ClientStatus::Running);
    report.task_states = BTreeMap::from([("main".to_owned(), task)]);
    report.desired_version = 100_000;
    let batch = |count: usize| NodeBatch {
        node: node_id(1),
        epoch: SessionEpoch(8),
        class: UpdateClass::Urgent,
        seq: 4,
        reports: vec![report.clone(); count],
    };
    let bytes = |count| {
        let batches = vec![batch(count)];
        encode(&stamped(Command::AllocUpdates { batches }))
            .expect("bytes")
            .len()
    };
    assert!(
        bytes(101) - bytes(1) <= 100 * 64,
        "{} bytes each",
        (bytes(101) - bytes(1)) / 100
    );
}

/// A node's complete report of so many allocations that run, all of it news.
fn complete_report(count: u64) -> Command {
    let report = |number: u64| {
        // Ids are random: they are what does not compress.
        let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let since = i64::try_from(number).expect("small") * 7_000_003;
        let started = UnixNanos(1_700_000_000_000_000_000 + since);
        let mut report = says(AllocId::from_u128(id), 2, ClientStatus::Running);
        report.client_description = "Tasks are running".to_owned();
        let state = TaskState {
            state: TaskRunState::Running,
            started_at: Some(started),
            ..TaskState::default()
        };
        report.task_states = BTreeMap::from([("main".to_owned(), state)]);
        report.desired_version = 100_000 + number;
        report
    };
    Command::NodeSynced(Box::new(NodeSynced {
        node: node_id(1),
        epoch: SessionEpoch(8),
        watch_index: 100_000,
        changed: (0..count).map(report).collect(),
        unchanged: Vec::new(),
        facts: None,
    }))
}

#[test]
fn a_complete_report_of_fifty_thousand_allocations_fits_into_an_entry() {
    let wanted = stamped(complete_report(50_000));
    let bytes = encode(&wanted).expect("bytes");
    assert!(bytes.len() <= 4 * 1024 * 1024, "{} bytes", bytes.len());
    assert_eq!(decode(&bytes).expect("reads"), wanted);
}

#[test]
fn a_packed_command_of_release_1_is_still_read() {
    let wanted = stamped(complete_report(2000));
    let written = encode(&wanted).expect("bytes");
    let read = decode(&frozen("packed", &written)).expect("reads");
    assert_eq!(read, wanted);
}

#[test]
fn outcomes_reach_the_server_that_forwarded() {
    let node = node_id(1);
    let welcome = Welcome {
        epoch: SessionEpoch(4),
        kind: WelcomeKind::New,
        applied_urgent_seq: 1,
        applied_typical_seq: 2,
    };
    let result = BatchResult {
        node,
        epoch: SessionEpoch(4),
        class: UpdateClass::Typical,
        seq: 3,
        results: vec![
            ItemResult::Applied,
            ItemResult::Superseded,
            ItemResult::UnknownAlloc,
        ],
        rejected: Some(BatchRejected::OwesSync),
    };
    let rejected = NodeRejected {
        node,
        reason: NodeRejection::NotReady,
    };
    let missed = MissedResult {
        node,
        status: Some(NodeStatus::Down),
    };
    for outcome in [
        Outcome::Done,
        Outcome::NoOp,
        Outcome::Refused(Refusal::PlanRejected(vec![rejected])),
        Outcome::Refused(Refusal::Malformed("a job needs an id".into())),
        Outcome::JobRegistered {
            version: 1,
            job_modify_index: 2,
            eval: None,
        },
        Outcome::JobDeregistered {
            job_modify_index: 2,
            eval: Some(EvalId::from_u128(3)),
        },
        Outcome::PlanApplied,
        Outcome::Welcome(welcome),
        Outcome::Synced {
            lost: vec![AllocId::from_u128(1)],
            unknown: vec![],
        },
        Outcome::Updates(vec![result]),
        Outcome::Missed(vec![missed]),
        Outcome::Evaluated(vec![EvalId::from_u128(3)]),
        Outcome::Collected(Collected {
            evals: 1,
            ..Collected::default()
        }),
    ] {
        let applied = Applied {
            index: 9,
            outcome,
            signals: Vec::new(),
        };
        let read = decode_applied(&encode_applied(&applied).expect("bytes")).expect("an outcome");
        assert_eq!(read, applied);
    }
}

#[test]
fn what_makes_no_sense_is_an_error_and_never_a_panic() {
    assert!(matches!(decode(b"\xff\xff"), Err(DecodeError::Message(_))));
    assert!(matches!(decode(b""), Err(DecodeError::Format { found: 0 })));
    for (name, command) in commands() {
        let bytes = encode(&stamped(command)).expect("bytes");
        let whole = decode(&bytes).expect(name);
        for length in 0..bytes.len() {
            // A shorter message may still be one; it must not be taken for the whole.
            let cut = decode(&bytes[..length]).ok();
            assert!(cut.as_ref() != Some(&whole), "{name} cut at {length}");
        }
        for offset in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x55;
            let _ = decode(&damaged);
        }
    }
    assert_eq!(LOG_FORMAT, 1);
}
