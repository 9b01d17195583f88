//! The log's bytes: frozen, and refused where they make no sense.
//!
//! `tests/golden/v1/NAME.bin` is what release 1 writes, `v3` has the commands of level 2, `v4`
//! those of level 3, `v5` those of level 4. A test that fails here means that servers of two
//! releases would not understand each other: change the format's version, keep the old files, and
//! read both.

mod eval_deletes;
mod level_2;
mod level_3;
mod level_4;
mod samples;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::codec::{
    DecodeError, LOG_FORMAT, decode, decode_applied, encode, encode_applied,
};
use controlplane_state::command::{
    AllocChange, Change, DeletionRule, DeploymentAllocHealth, DeploymentChange, DeploymentPromote,
    DeploymentStatusUpdate, DrainMark, DrainMarks, GcCollect, JobDeregister, JobRegister,
    NodeBatch, NodeDrainSet, NodeSynced, PlanApply, Preempted, PromoteGroups, Purge, Unaccepted,
};
use controlplane_state::{
    AccessRefusal, AclToken, AclTokenKind, Applied, BatchRejected, BatchResult, Collected, Command,
    Digest, ItemResult, KindChange, MissedResult, Namespace, NodePool, NodeRejected, NodeRejection,
    Outcome, PoolScheduler, Refusal, SchedulerAlgorithm, SchedulerConfig, SessionEpoch, Stamped,
    TokenFault, UpdateClass, Welcome, WelcomeKind,
};
use prost::Message as _;
use protocol_model::{
    AllocId, AllocMetric, Allocation, ClientStatus, DeploymentId, DeploymentStatus,
    DesiredTransition, DrainSpec, Eligibility, EvalId, Incarnation, JobKey, JobSubmission, JobType,
    NodeId, NodeScoreMeta, NodeStatus, TaskEvent, TaskEventKind, TaskRunState, TaskState,
    UnixNanos,
};
use protocol_wire::compression::decompress;
use protocol_wire::log::Envelope;
use protocol_wire::log::envelope::Command as Written;
use protocol_wire::report::{AllocReport, JudgedFor, ReportedHealth};

use crate::harness::{Harness, facts, job, node_id, registration, says};
use samples::commands;

fn stamped(command: Command) -> Stamped {
    Stamped {
        now: UnixNanos(1_700_000_000_000_000_005),
        seed: [6; 16],
        command,
    }
}

/// The frozen file of a command: that of the release which wrote its level first.
fn golden(name: &str, level: u32) -> PathBuf {
    let folder = match level {
        1 => "v1",
        2 => "v3",
        3 => "v4",
        // No release of level 3 wrote one that replaces a key, which is of level 4 now.
        _ if name == "root_key_upsert" => "v4",
        _ => "v5",
    };
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(folder)
        .join(format!("{name}.bin"))
}

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
/// The frozen bytes. `UPDATE_GOLDEN=1` writes those that are missing, and never changes one.
fn frozen(name: &str, level: u32, written: &[u8]) -> Vec<u8> {
    let path = golden(name, level);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, written).expect("the file");
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_command_is_still_read_as_its_first_release_wrote_it() {
    for (name, command) in commands() {
        let level = command.level();
        let wanted = stamped(command);
        let written = encode(&wanted).expect("bytes");
        let read = decode(&frozen(name, level, &written)).expect(name);
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
        "variables_rekey",
        "tokens_rekey_message",
    ];
    for (name, command) in commands()
        .into_iter()
        .filter(|(name, _)| hot.contains(name))
    {
        let level = command.level();
        let written = encode(&stamped(command)).expect("bytes");
        assert_eq!(written, frozen(name, level, &written), "{name}");
    }
}

/// What each of a hundred more start reports adds to an entry; `described` describes each of them.
fn start_report_bytes(described: impl Fn(u64) -> String) -> usize {
    let bytes = |count| {
        let report = |number| AllocReport {
            client_description: described(number),
            ..started(number)
        };
        let batch = NodeBatch {
            node: node_id(1),
            epoch: SessionEpoch(8),
            class: UpdateClass::Urgent,
            seq: 4,
            reports: (0..count).map(report).collect(),
        };
        let batches = vec![batch];
        let entry = encode(&stamped(Command::AllocUpdates { batches }));
        entry.expect("bytes").len()
    };
    (bytes(101) - bytes(1)).div_ceil(100)
}

#[test]
fn a_start_report_costs_little() {
    let each = start_report_bytes(|_| "Tasks are running".to_owned());
    assert!(each <= 64, "{each} bytes each");
    // The measure sees what is in each of them and in no other: 1 KiB that does not compress.
    let noise = |number| {
        let words = (number * 128..)
            .take(128)
            .map(|word| format!("{:016x}", scattered(word)));
        words.collect::<String>()
    };
    let each = start_report_bytes(noise);
    assert!(each > 1024, "{each} bytes each");
}

/// Numbers that have nothing to do with each other (splitmix64).
fn scattered(number: u64) -> u64 {
    let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

#[test]
fn placements_that_are_alike_are_written_once() {
    let bytes = |count| {
        let plan = samples::plan_of_many(count);
        let wanted = stamped(Command::PlanApply(Box::new(plan)));
        let bytes = encode(&wanted).expect("bytes");
        assert_eq!(decode(&bytes).expect("reads"), wanted);
        bytes.len()
    };
    let each = (bytes(801) - bytes(1)) / 800;
    assert!(each <= 96, "{each} bytes each");
}

/// What a node says of the allocation of that number as it runs.
fn started(number: u64) -> AllocReport {
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
}

/// A node's complete report of so many allocations that run, all of it news.
fn complete_report(count: u64) -> Command {
    Command::NodeSynced(Box::new(NodeSynced {
        node: node_id(1),
        epoch: SessionEpoch(8),
        watch_index: 100_000,
        changed: (0..count).map(started).collect(),
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
    let read = decode(&frozen("packed", 1, &written)).expect("reads");
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
    assert_reaches([
        Outcome::Done,
        Outcome::NoOp,
        Outcome::Refused(Refusal::PlanRejected(vec![rejected])),
        Outcome::Refused(Refusal::Malformed("a job needs an id".into())),
        Outcome::Refused(Refusal::JobKind(KindChange::Type {
            from: JobType::Service,
            to: JobType::Batch,
        })),
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
        Outcome::OneTimeTokenExchanged {
            accessor_id: "a".to_owned(),
        },
        Outcome::Refused(Refusal::Access(AccessRefusal::InvalidToken {
            number: 1,
            fault: TokenFault::TooManyLinks { found: 300 },
        })),
        Outcome::Collected(Collected {
            evals: 1,
            ..Collected::default()
        }),
    ]);
}

fn assert_reaches(outcomes: impl IntoIterator<Item = Outcome>) {
    for outcome in outcomes {
        let applied = Applied {
            index: 9,
            outcome,
            signals: Vec::new(),
        };
        let read = decode_applied(&encode_applied(&applied).expect("bytes")).expect("an outcome");
        assert_eq!(read, applied);
    }
}

/// The same command, not compressed: damage reaches what is in it.
fn spelled_out(bytes: &[u8]) -> Vec<u8> {
    let mut envelope = Envelope::decode(bytes).expect("an envelope");
    if let Some(Written::Packed(packed)) = &envelope.command {
        let inner = decompress(&packed.envelope_zstd, packed.length as usize).expect("a frame");
        let inner = Envelope::decode(&*inner).expect("an envelope");
        envelope.command = inner.command;
    }
    envelope.encode_to_vec()
}

#[test]
fn what_makes_no_sense_is_an_error_and_never_a_panic() {
    assert!(matches!(decode(b"\xff\xff"), Err(DecodeError::Message(_))));
    assert!(matches!(decode(b""), Err(DecodeError::Format { found: 0 })));
    for (name, command) in commands() {
        let wanted = stamped(command);
        let bytes = spelled_out(&encode(&wanted).expect("bytes"));
        let whole = decode(&bytes).expect(name);
        assert_eq!(whole, wanted, "{name}");
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
