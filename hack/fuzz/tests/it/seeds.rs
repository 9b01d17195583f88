//! Where inputs begin: the frozen bytes of each format, and what a small cluster leaves behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use controlplane_state::{Command, Outcome, Stamped, State, Tables, codec};
use hack_testkit::{World, jobs, nodes};
use noded_core::journal::JournalRecord;
use noded_core::key::{RunEpoch, RunKey};
use noded_daemon::journal::frames;
use protocol_model::{AllocId, Allocation, JobType, SpecHash};
use protocol_transport::frame;
use zstd::stream::read::Decoder;

/// The uncompressed head of a checkpoint.
const CHECKPOINT_HEADER_BYTES: usize = 36;

/// A path relative to the root of the repository.
pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The files of a folder whose names begin so, by name.
pub(crate) fn files(folder: &str, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let folder = in_repository(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("a readable file"))
        })
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {}", folder.display());
    files
}

fn bytes_of(files: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    files.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Each frozen message: its kind byte and its body.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    bytes_of(files("protocol/wire/tests/golden/v1", ""))
}

/// Each frozen message in a frame, and three frames in a row.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let framed = |message: &Vec<u8>| {
        let mut frame = BytesMut::new();
        frame::encode(message[0], &message[1..], 4096, &mut frame).expect("it fits");
        frame.to_vec()
    };
    let mut seeds: Vec<Vec<u8>> = messages().iter().map(framed).collect();
    seeds.push(seeds[..3].concat());
    seeds
}

/// Each frozen entry of the log.
pub(crate) fn entries() -> Vec<Vec<u8>> {
    let mut files = files("controlplane/state/tests/golden/v1", "");
    // The first version of a whole state lies beside them; it is no entry.
    files.retain(|(name, _)| !name.starts_with("checkpoint"));
    bytes_of(files)
}

/// Frozen entries in an order and a form in which they make sense to each other: a life of one node
/// and one job. Also what the state refused of it, in words.
fn history() -> (Vec<Vec<u8>>, Vec<String>) {
    const ORDER: &[&str] = &[
        "cluster_init",
        "acl_bootstrap",
        "namespace_upsert",
        "scheduler_config_set",
        "node_hello",
        "node_synced",
        "job_register",
        "plan_apply",
        "alloc_updates",
        "job_stability",
        "job_evaluate",
        "heartbeat_missed",
        "allocs_stop",
        "job_deregister",
        "gc_collect",
    ];
    let files = files("controlplane/state/tests/golden/v1", "");
    let mut state = State::new();
    let (mut entries, mut refusals) = (Vec::new(), Vec::new());
    for (index, name) in (1..).zip(ORDER) {
        let file = files
            .iter()
            .find(|(file, _)| *file == format!("{name}.bin"));
        let (_, frozen) = file.expect("the entry is frozen");
        let mut stamped: Stamped = codec::decode(frozen).expect("a frozen entry");
        fit(&mut stamped.command, state.tables());
        entries.push(codec::encode(&stamped).expect("an entry"));
        if let Outcome::Refused(refusal) = state.apply(index, stamped).outcome {
            refusals.push(format!("{name}: {refusal}"));
        }
    }
    (entries, refusals)
}

/// Makes a frozen command refer to what is there.
fn fit(command: &mut Command, tables: &Tables) {
    let alloc = tables.allocs().next().map(|alloc| alloc.id);
    let epoch_of = |node| tables.node(node).map(|record| record.session.epoch);
    match command {
        Command::NodeSynced(synced) => {
            synced.epoch = epoch_of(synced.node).unwrap_or(synced.epoch);
            synced.changed.clear();
            synced.unchanged.clear();
        }
        Command::JobRegister(register) => register.enforce_index = None,
        Command::JobStability { key, version, .. } => {
            *version = tables.job(key).map_or(0, |job| job.version);
        }
        Command::PlanApply(plan) => {
            plan.snapshot_index = tables.index();
            plan.updated.clear();
            plan.changed.clear();
            plan.preempted.clear();
            plan.deployment_changes.clear();
            for placed in &mut plan.placed {
                let placed = Arc::make_mut(placed);
                placed.spec = tables.job_spec(&placed.job_key()).unwrap_or(placed.spec);
            }
        }
        Command::AllocUpdates { batches } => {
            for batch in batches {
                batch.epoch = epoch_of(batch.node).unwrap_or(batch.epoch);
                batch.seq = 1;
                for report in &mut batch.reports {
                    report.id = alloc.unwrap_or(report.id);
                }
            }
        }
        Command::AllocsStop { allocs, .. } => {
            for (id, _) in allocs {
                *id = alloc.unwrap_or(*id);
            }
        }
        _ => {}
    }
}

/// The entries of that history.
fn ordered_entries() -> Vec<Vec<u8>> {
    history().0
}

/// What the state refuses of it.
pub(crate) fn refusals() -> Vec<String> {
    history().1
}

/// Whole histories: the ordered entries, and each entry on its own behind the first one.
pub(crate) fn histories() -> Vec<Vec<u8>> {
    let with_length = |entry: &Vec<u8>| {
        let length = u16::try_from(entry.len()).expect("frozen entries are small");
        [&length.to_be_bytes()[..], entry].concat()
    };
    let ordered: Vec<Vec<u8>> = ordered_entries().iter().map(with_length).collect();
    let first = ordered[0].clone();
    let mut seeds = vec![ordered.concat()];
    seeds.extend(
        entries()
            .iter()
            .map(|entry| [first.clone(), with_length(entry)].concat()),
    );
    seeds
}

/// What the proposers of the ordered entries are told, and of those that are refused.
pub(crate) fn outcomes() -> Vec<Vec<u8>> {
    let mut state = State::new();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let entries = [entries(), ordered_entries(), entries()].concat();
    for (index, entry) in (1..).zip(entries) {
        let stamped: Stamped = codec::decode(&entry).expect("a frozen entry");
        let applied = state.apply(index, stamped);
        let bytes = codec::encode_applied(&applied).expect("an outcome");
        seeds.push(bytes);
    }
    seeds
}

/// Checkpoints of an empty state, of a small cluster, and of what the ordered entries leave.
pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let mut world = World::new();
    let first = world.add_node(nodes::node(1));
    world.add_node(nodes::node(2));
    world.register(jobs::job(JobType::Service, "web", 2));
    world.register(jobs::job(JobType::Batch, "sums", 1));
    world.silence(first);
    let mut replayed = State::new();
    for (index, entry) in (1..).zip(ordered_entries()) {
        replayed.apply(index, codec::decode(&entry).expect("a frozen entry"));
    }
    [
        State::new().snapshot(),
        world.snapshot(),
        replayed.snapshot(),
    ]
    .iter()
    .map(|snapshot| {
        let mut bytes = Vec::new();
        snapshot
            .write_checkpoint(&mut bytes)
            .expect("it is written");
        bytes
    })
    .collect()
}

/// The records of those checkpoints, without the checksum at the end.
pub(crate) fn checkpoint_records() -> Vec<Vec<u8>> {
    checkpoints()
        .iter()
        .map(|bytes| {
            let mut records = Vec::new();
            let mut decoder =
                Decoder::new(&bytes[CHECKPOINT_HEADER_BYTES..]).expect("it is compressed");
            std::io::Read::read_to_end(&mut decoder, &mut records).expect("whole");
            records.truncate(records.len() - 4);
            records
        })
        .collect()
}

/// Job files: those of the repository, and those that use every corner of the language.
pub(crate) fn job_files() -> Vec<Vec<u8>> {
    let mut seeds = bytes_of(files("hack/jobs", ""));
    seeds.extend(bytes_of(files("hack/fuzz/seeds", "job-file-")));
    seeds.extend(job_documents());
    seeds
}

/// Jobs in JSON: small ones, and one with every block.
pub(crate) fn job_documents() -> Vec<Vec<u8>> {
    let json = |job| serde_json::to_vec(&job).expect("a job has a form in JSON");
    let mut seeds = bytes_of(files("hack/fuzz/seeds", "job-document-"));
    seeds.push(json(jobs::draft(JobType::Batch, "draft", 1)));
    seeds.push(json(jobs::job(JobType::Service, "web", 3)));
    seeds.push(json(jobs::job(JobType::System, "everywhere", 0)));
    seeds
}

/// Frozen packets, both ways.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let folders = [
        "noded/keeper/tests/golden/v1",
        "noded/keeper/tests/golden/v2",
    ];
    folders
        .into_iter()
        .flat_map(|folder| {
            let requests = bytes_of(files(folder, "request-"));
            [requests, bytes_of(files(folder, "message-"))].concat()
        })
        .collect()
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

/// The frozen state of a keeper, with its checksum and without.
pub(crate) fn states() -> Vec<Vec<u8>> {
    with_and_without_checksum(bytes_of(files("noded/keeper/tests/golden/v1", "state.bin")))
}

fn with_and_without_checksum(whole: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let bodies = whole.iter().map(|bytes| bytes[..bytes.len() - 4].to_vec());
    let bodies: Vec<Vec<u8>> = bodies.collect();
    [whole, bodies].concat()
}

/// The frozen description of a stream, with its checksum and without.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    with_and_without_checksum(bytes_of(files("noded/keeper/tests/golden/v1", "spec.bin")))
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
        JournalRecord::Desired { alloc, spec },
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
