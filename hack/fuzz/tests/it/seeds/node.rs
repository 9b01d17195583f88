//! What a node keeps: the keeper's packets, plans, records and streams, and the journal.

use std::sync::Arc;

use hack_testkit::jobs;
use noded_core::journal::JournalRecord;
use noded_core::key::{RunEpoch, RunKey};
use noded_daemon::journal::frames;
use protocol_model::{AllocId, Allocation, JobType, SpecHash};

use super::{bytes_of, files};

/// Frozen packets, both ways.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let folders = [
        "noded/keeper/tests/golden/v1",
        "noded/keeper/tests/golden/v2",
        "noded/keeper/tests/golden/v3",
    ];
    folders
        .into_iter()
        .flat_map(|folder| {
            let requests = bytes_of(files(folder, "request-"));
            [requests, bytes_of(files(folder, "message-"))].concat()
        })
        .collect()
}

/// Frozen requests and reports of jail children.
pub(crate) fn jail_frames() -> Vec<Vec<u8>> {
    bytes_of(files("noded/jail/tests/golden/v1", "re"))
}

/// Plans of both drivers, with what only a newer keeper applies and without.
pub(crate) fn plans() -> Vec<Vec<u8>> {
    let layout = isolation::TaskLayout {
        shared: "/data/alloc/a/alloc".into(),
        task: "/data/alloc/a/web".into(),
    };
    let nobody = isolation::Identity::User {
        uid: 65534,
        gid: 65534,
        groups: vec![65534],
    };
    let raw = isolation::SandboxSpec::raw_exec(layout.clone(), "sh");
    let exec = isolation::SandboxSpec::exec(layout, nobody, "sh");
    let reaped = isolation::SandboxSpec {
        first_process: isolation::FirstProcess::Reaper,
        ..exec.clone()
    };
    let encoded = |spec| {
        let plan = isolation::plan(&spec).expect("a plan");
        noded_keeper::protocol::encode_plan(&plan).expect("bytes")
    };
    [raw, exec, reaped].map(encoded).into()
}

/// Frozen records of runs and leases, with their checksums and without.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let folder = "noded/keeper/tests/golden/v1";
    let whole = [
        bytes_of(files(folder, "record-")),
        bytes_of(files(folder, "lease.bin")),
    ]
    .concat();
    with_and_without_checksum(whole)
}

/// The frozen states of a keeper, with their checksums and without.
pub(crate) fn states() -> Vec<Vec<u8>> {
    let folders = [
        "noded/keeper/tests/golden/v1",
        "noded/keeper/tests/golden/v3",
    ];
    let whole = folders.map(|folder| bytes_of(files(folder, "state.bin")));
    with_and_without_checksum(whole.concat())
}

fn with_and_without_checksum(whole: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let bodies = whole.iter().map(|bytes| bytes[..bytes.len() - 4].to_vec());
    let bodies: Vec<Vec<u8>> = bodies.collect();
    [whole, bodies].concat()
}

/// The frozen description of a stream, with its checksum and without.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let folders = [
        "noded/keeper/tests/golden/v1",
        "noded/keeper/tests/golden/v2",
    ];
    let whole = folders.map(|folder| bytes_of(files(folder, "spec.bin")));
    with_and_without_checksum(whole.concat())
}

/// The file of such a journal: whole, torn, and without a record.
pub(crate) fn journal_files() -> Vec<Vec<u8>> {
    let records = journals();
    let framed: Vec<Vec<u8>> = records[2..]
        .iter()
        .map(|record| frames::frame(record))
        .collect();
    let whole = [frames::MAGIC.to_vec(), framed.concat()].concat();
    let torn = whole[..whole.len() - 3].to_vec();
    vec![whole, torn, frames::MAGIC.to_vec()]
}

/// A journal of an allocation's whole life, and its records one by one.
pub(crate) fn journals() -> Vec<Vec<u8>> {
    let (id, spec) = (AllocId::from_u128(5), SpecHash([1; 32]));
    let job = Arc::new(jobs::job(JobType::Service, "web", 1));
    let nobody = "00000000-0000-0000-0000-000000000000";
    let alloc: Allocation = serde_json::from_value(serde_json::json!({
        "ID": id, "Namespace": "default", "EvalID": nobody, "Name": "web.group[0]",
        "NodeID": nobody, "JobID": "web", "TaskGroup": "group", "AllocModifyIndex": 1,
        "SpecHash": spec,
    }))
    .expect("the fields of an allocation");
    let alloc = Box::new(alloc);
    let task = "task".to_owned();
    let records = [
        JournalRecord::SessionEpoch {
            epoch: noded_core::SessionEpoch(4),
        },
        JournalRecord::Spec { hash: spec, job },
        JournalRecord::Desired {
            alloc,
            spec,
            root_key: Some(1),
        },
        JournalRecord::Intent {
            run: RunKey::new(id, "task", RunEpoch(1)),
        },
        JournalRecord::Alloc {
            alloc: id,
            state: Default::default(),
        },
        JournalRecord::Task {
            alloc: id,
            task,
            state: Box::default(),
        },
        JournalRecord::Acknowledged {
            alloc: id,
            state: Box::default(),
        },
        JournalRecord::Watermark {
            at: noded_core::Watermark::default(),
        },
        JournalRecord::DestroyWanted { alloc: id },
        JournalRecord::Destroyed { alloc: id },
    ];
    let lines: Vec<Vec<u8>> = records
        .iter()
        .map(|record| noded_core::journal::encode(record).expect("a record"))
        .collect();
    let mut seeds = vec![lines.join(&b'\n'), lines[..9].join(&b'\n')];
    seeds.extend(lines);
    seeds
}
