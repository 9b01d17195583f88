//! Checkpoints: what is written is what is read, and damage is noticed.

use std::collections::BTreeMap;

use controlplane_state::checkpoint::{RestoreError, Unpacked, inspect};
use controlplane_state::command::{AllocsResign, NodeDrainSet};
use controlplane_state::{Command, LeaseEnd, Outcome, State, Tables, invariants};
use protocol_model::{ClientStatus, DrainSpec, Eligibility, Incarnation, JobKey, JobType};

use crate::harness::{Harness, begin_of_restore, job, says};
use crate::{access, leases, namespaces, periodic, pools, variables};

fn some_state() -> Harness {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    cluster.join(2);
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let first = cluster.place(&web.key(), node);
    cluster.place(&web.key(), node);
    cluster.report(node, vec![says(first, 1, ClientStatus::Failed)]);
    cluster
}

fn written(cluster: &Harness) -> Vec<u8> {
    cluster.checkpoint()
}

#[test]
fn a_restored_state_is_the_state_that_was_written() {
    let cluster = some_state();
    let restored = State::restore(written(&cluster).as_slice()).expect("a state");
    assert_eq!(
        invariants::difference(cluster.tables(), restored.tables()),
        None
    );
    assert_eq!(invariants::check(restored.tables()), []);
}

#[test]
fn when_allocations_of_a_job_changed_is_known_and_after_a_restore_it_is_not_too_early() {
    let mut cluster = some_state();
    let (web, other) = (job("web", JobType::Service), job("other", JobType::Service));
    let node = cluster.join(3);
    let index = |cluster: &Harness, key: &JobKey| cluster.tables().job_allocs_index(key);
    let before = index(&cluster, &web.key());
    cluster.register(&other);
    let all = index(&cluster, &other.key());
    assert_eq!(all, before, "there are none: that of all allocations");
    let placed = cluster.place(&other.key(), node);
    let index_of_other = cluster.index;
    assert_eq!(index(&cluster, &other.key()), index_of_other);
    assert_eq!(index(&cluster, &web.key()), before, "nothing of it changed");
    cluster.report(node, vec![says(placed, 1, ClientStatus::Running)]);
    assert_eq!(index(&cluster, &other.key()), cluster.index);

    let restored = State::restore(written(&cluster).as_slice()).expect("a state");
    let known = restored.tables().job_allocs_index(&web.key());
    assert!(known >= cluster.index, "a change of web may be older");
}

#[test]
fn inspecting_counts_what_is_there() {
    let cluster = some_state();
    let summary = inspect(written(&cluster).as_slice()).expect("a summary");
    assert_eq!(summary.index, cluster.index);
    assert_eq!(summary.incarnation, cluster.tables().cluster().incarnation);
    let records = |name: &str| {
        summary
            .sections
            .iter()
            .find(|section| section.name == name)
            .map(|one| one.records)
    };
    assert_eq!(records("nodes"), Some(2));
    assert_eq!(records("allocations"), Some(2));
    assert_eq!(records("specifications"), Some(1));
    assert_eq!(summary.root_keys, []);
}

#[test]
fn inspecting_names_the_keys_that_a_restore_needs() {
    let mut cluster = some_state();
    access::fill(&mut cluster);
    let summary = inspect(written(&cluster).as_slice()).expect("a summary");
    let keys: Vec<_> = cluster
        .tables()
        .root_keys()
        .map(|key| (**key).clone())
        .collect();
    assert_eq!(summary.root_keys, keys);
    assert_eq!(keys[0].kek_id_text(), "0707070707070707");
}

#[test]
fn no_damaged_byte_does_harm_unnoticed() {
    let cluster = some_state();
    let bytes = written(&cluster);
    for offset in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 0x10;
        // A bit of the compression's own header may mean nothing: then nothing is lost either.
        let Ok(state) = State::restore(damaged.as_slice()) else {
            continue;
        };
        let lost = invariants::difference(cluster.tables(), state.tables());
        assert_eq!(lost, None, "byte {offset} of {}", bytes.len());
    }
    for offset in 0..36 {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 0x10;
        let refused = inspect(damaged.as_slice());
        assert!(refused.is_err(), "byte {offset} of the header");
    }
    for length in 0..bytes.len() {
        assert!(State::restore(&bytes[..length]).is_err(), "cut at {length}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(
        State::restore(longer.as_slice()),
        Err(RestoreError::Read(_) | RestoreError::Trailing)
    ));
}

#[test]
fn another_file_is_called_what_it_is() {
    let other = [0u8; 64];
    assert!(matches!(
        inspect(other.as_slice()),
        Err(RestoreError::Magic)
    ));
    let mut newer = written(&some_state());
    newer[11] = 6;
    assert!(matches!(
        inspect(newer.as_slice()),
        Err(RestoreError::Version { found: 6 })
    ));
}

#[test]
fn a_small_file_that_unpacks_to_too_much_is_refused() {
    let bytes = written(&some_state());
    let restored = State::restore_at_most(bytes.as_slice(), Unpacked::AtMost(1000));
    assert!(matches!(
        restored,
        Err(RestoreError::TooLong { limit: 1000 })
    ));
}

#[test]
fn a_restore_under_way_is_part_of_a_checkpoint() {
    let mut cluster = some_state();
    let incarnation = Incarnation::from_u128(0xc2);
    let begin = cluster.begin_of_restore(incarnation);
    cluster.done(begin);
    let saved = cluster.saved.clone();
    let (first, second) = saved.split_at(saved.len() / 3);
    cluster.done(Command::RestoreChunk {
        incarnation,
        offset: 0,
        bytes: first.to_vec().into(),
    });
    let mut member = State::restore(written(&cluster).as_slice()).expect("a state");
    assert_eq!(
        invariants::difference(cluster.tables(), member.tables()),
        None
    );
    for command in [
        Command::RestoreChunk {
            incarnation,
            offset: first.len() as u64,
            bytes: second.to_vec().into(),
        },
        Command::RestoreCommit { incarnation },
    ] {
        let applied = cluster.done(command);
        let (index, stamped) = cluster.log.last().expect("the entry").clone();
        assert_eq!(member.apply(index, stamped), applied);
    }
    assert_eq!(member.tables().cluster().incarnation, Some(incarnation));
    assert_eq!(
        invariants::difference(cluster.tables(), member.tables()),
        None
    );
}

// --- frozen bytes ---

#[expect(clippy::disallowed_methods, reason = "a test may read its own files")]
fn frozen(name: &str, cluster: impl FnOnce() -> Harness) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        std::fs::write(&path, written(&cluster())).expect("the file");
    }
    std::fs::read(&path).expect("the frozen checkpoint")
}

fn with_a_restore_under_way() -> Harness {
    let mut cluster = some_state();
    let incarnation = Incarnation::from_u128(0xc2);
    cluster.done(begin_of_restore(incarnation, b"three pieces"));
    cluster.done(Command::RestoreChunk {
        incarnation,
        offset: 0,
        bytes: b"three".to_vec().into(),
    });
    cluster
}

/// The records, whatever the compressor made of them.
fn unpacked(checkpoint: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (header, packed) = checkpoint.split_at(36);
    let records = zstd::stream::decode_all(packed).expect("it unpacks");
    (header.to_vec(), records)
}

#[test]
fn a_checkpoint_of_version_1_is_still_read() {
    let bytes = frozen("v1/checkpoint.bin", with_a_restore_under_way);
    let summary = inspect(bytes.as_slice()).expect("a summary");
    assert_eq!((summary.version, summary.index), (1, 9));
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    let failed = state.tables().allocs().filter(|alloc| alloc.terminal());
    assert_eq!((state.tables().allocs().count(), failed.count()), (2, 1));
    assert_eq!(state.tables().nodes().count(), 2);
}

#[test]
fn a_checkpoint_of_version_2_is_still_read() {
    let bytes = frozen("v2/checkpoint.bin", with_a_restore_under_way);
    let summary = inspect(bytes.as_slice()).expect("a summary");
    assert_eq!(summary.version, 2);
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    assert_eq!(state.tables().nodes().count(), 2);
    let pools = state.tables().node_pools().map(|pool| pool.name.as_str());
    assert_eq!(pools.collect::<Vec<_>>(), ["all", "default"]);
}

/// Everything that version 3 added.
fn with_version_3() -> Harness {
    let mut cluster = with_a_restore_under_way();
    periodic::launched_once(&mut cluster);
    let record = cluster.tables().nodes().next().expect("one");
    let node = record.node.id;
    cluster.done(Command::NodeDrainSet(NodeDrainSet {
        node,
        drain: Some(DrainSpec {
            deadline: 1_000_000_000,
            ignore_system_jobs: true,
        }),
        eligibility_after: Eligibility::Ineligible,
        accessor_id: "a".to_owned(),
        meta: Some(BTreeMap::from([("why".to_owned(), "disk".to_owned())])),
    }));
    let pool = pools::batch();
    cluster.done(Command::NodePoolUpsert { pool });
    cluster
}

#[test]
fn a_checkpoint_of_version_3_is_still_read() {
    let bytes = frozen("v3/checkpoint.bin", with_version_3);
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    let draining = state.tables().nodes().find(|record| record.node.drain);
    let record = draining.expect("one drains");
    assert!(record.drain_index > 0);
    assert!(record.node.last_drain.is_some());
}

/// Everything that version 4 added.
fn with_version_4() -> Harness {
    let mut cluster = with_version_3();
    access::fill(&mut cluster);
    cluster
}

#[test]
fn a_checkpoint_of_version_4_is_still_read() {
    let bytes = frozen("v4/checkpoint.bin", with_version_4);
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    let (cluster, tables) = (with_version_4(), state.tables());
    assert!(tables.acl_tokens().eq(cluster.tables().acl_tokens()));
    assert!(tables.root_keys().eq(cluster.tables().root_keys()));
    assert_eq!(tables.auth_methods().count(), 2);
}

/// Everything that version 5 added.
fn with_version_5() -> Harness {
    let mut cluster = with_version_4();
    variables::fill(&mut cluster);
    cluster
}

#[test]
fn a_checkpoint_is_written_as_it_was_frozen() {
    let bytes = frozen("v5/checkpoint.bin", with_version_5);
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    let cluster = with_version_5();
    let difference = invariants::difference(cluster.tables(), state.tables());
    assert_eq!(difference, None);
    let tables = state.tables();
    let counts = [
        tables.acl_tokens().count(),
        tables.acl_policies().count(),
        tables.acl_roles().count(),
        tables.auth_methods().count(),
        tables.binding_rules().count(),
        tables.one_time_tokens_by_expiry().count(),
        tables.root_keys().count(),
        tables.variables_with_prefix("default", "").count(),
    ];
    assert_eq!(counts, [2, 2, 1, 2, 3, 1, 1, 3]);
    assert_eq!(unpacked(&written_again(&state)), unpacked(&bytes));
}

#[test]
fn checkpoint_has_the_oldest_version_that_holds_its_state() {
    let version = |bytes: Vec<u8>| inspect(bytes.as_slice()).expect("a summary").version;
    let worlds: [(fn() -> Harness, u32); 4] = [
        (with_version_3, 3),
        (with_a_restricted_namespace, 4),
        (with_version_4, 4),
        (with_version_5, 5),
    ];
    for (make, expected) in worlds {
        let bytes = written(&make());
        assert_eq!(version(bytes.clone()), expected);
        let again = State::restore(bytes.as_slice()).expect("a state");
        assert_eq!(version(written_again(&again)), expected);
        assert_eq!(again.tables().checkpoint_level(), expected - 1);
    }
    let latest = controlplane_state::checkpoint::VERSION;
    assert_eq!((controlplane_state::COMMAND_LEVEL, latest), (4, 5));
}

#[test]
fn refused_command_counts_for_the_version_of_a_checkpoint() {
    let mut cluster = some_state();
    let command = Command::from(AllocsResign::default());
    let outcome = cluster.apply(command).outcome;
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    let summary = inspect(written(&cluster).as_slice()).expect("a summary");
    assert_eq!(summary.version, 5);
}

/// Allocations whose identities are signed, and one from before.
fn with_signing_keys() -> Harness {
    let mut cluster = with_version_4();
    access::fill_keys(&mut cluster);
    cluster
}

#[test]
fn keys_of_allocations_are_written_as_they_were_frozen() {
    let bytes = frozen("v5/checkpoint_keys.bin", with_signing_keys);
    let state = State::restore(bytes.as_slice()).expect("a state");
    assert_eq!(invariants::check(state.tables()), []);
    let tables = state.tables();
    assert!(tables.identities_begun());
    let keys: Vec<_> = tables
        .allocs()
        .map(|alloc| tables.alloc_key(alloc.id))
        .collect();
    assert_eq!(keys.iter().filter(|key| **key == 1).count(), 1);
    assert_eq!(keys.iter().filter(|key| **key == 0).count(), 2);
    let cluster = with_signing_keys();
    let rows = |tables: &Tables| -> Vec<_> {
        let allocs = tables.allocs();
        allocs
            .map(|alloc| (alloc.clone(), tables.alloc_key(alloc.id)))
            .collect()
    };
    assert_eq!(rows(tables), rows(cluster.tables()));
    assert_eq!(unpacked(&written_again(&state)), unpacked(&bytes));
}

fn with_a_restricted_namespace() -> Harness {
    let mut cluster = some_state();
    let namespace = namespaces::restricted();
    cluster.done(Command::NamespaceUpsert { namespace });
    cluster
}

#[test]
fn a_restricted_namespace_is_still_read_as_it_was_frozen() {
    let bytes = frozen("v4/checkpoint_namespaces.bin", with_a_restricted_namespace);
    let state = State::restore(bytes.as_slice()).expect("a state");
    let cluster = with_a_restricted_namespace();
    let namespaces = state.tables().namespaces();
    assert!(namespaces.eq(cluster.tables().namespaces()));
    // One of the first release has no restrictions.
    let bytes = frozen("v1/checkpoint.bin", with_a_restore_under_way);
    let state = State::restore(bytes.as_slice()).expect("a state");
    let namespace = state.tables().namespace("default").expect("there");
    assert!(namespace.capabilities.is_open());
    assert_eq!(namespace.node_pool_configuration, None);
}

/// A silent node, and one that was purged, each with one of a group that stops itself.
fn with_silent_nodes() -> Harness {
    let (mut cluster, node, alloc) = leases::cluster();
    let silent = cluster.join(2);
    cluster.place(&cluster.alloc(alloc).job_key(), silent);
    cluster.silent(silent);
    cluster.done(Command::NodePurge { node });
    cluster
}

#[test]
fn since_when_nodes_are_silent_is_still_read_of_version_2() {
    let bytes = frozen("v2/silent_nodes.bin", with_silent_nodes);
    let state = State::restore(bytes.as_slice()).expect("a state");
    let cluster = with_silent_nodes();
    let (known, read) = (cluster.tables(), state.tables());
    assert!(known.nodes().eq(read.nodes()));
    assert!(known.allocs().eq(read.allocs()));
    let mut nodes = state.tables().nodes();
    assert!(nodes.all(|record| record.fell_silent_at.is_some()));
    let tables = state.tables();
    let ends = tables.allocs().map(|alloc| tables.lease_end(alloc));
    let ends = ends.filter(|end| matches!(end, LeaseEnd::At(_)));
    assert_eq!(ends.count(), 2);
    let again = State::restore(written_again(&state).as_slice()).expect("a state");
    assert_eq!(invariants::difference(state.tables(), again.tables()), None);
}

fn written_again(state: &State) -> Vec<u8> {
    let mut again = Vec::new();
    let snapshot = state.snapshot();
    snapshot.write_checkpoint(&mut again).expect("written");
    again
}
