//! Checkpoints: what is written is what is read, and damage is noticed.

use controlplane_state::checkpoint::{RestoreError, inspect};
use controlplane_state::{State, invariants};
use protocol_model::{ClientStatus, JobType};

use crate::harness::{Harness, job, says};

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
    let mut bytes = Vec::new();
    cluster
        .state
        .snapshot()
        .write_checkpoint(&mut bytes)
        .expect("a checkpoint");
    bytes
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
}

#[test]
fn no_damaged_byte_does_harm_unnoticed() {
    let cluster = some_state();
    let bytes = written(&cluster);
    // Bytes 12..36 are the header's incarnation and index, which no checksum covers: the caller
    // compares them with what the log says.
    for offset in (0..12).chain(36..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 0x10;
        // A bit of the compression's own header may mean nothing: then nothing is lost either.
        let Ok(state) = State::restore(damaged.as_slice()) else {
            continue;
        };
        let lost = invariants::difference(cluster.tables(), state.tables());
        assert_eq!(lost, None, "byte {offset} of {}", bytes.len());
    }
    for length in [0, 7, 35, 36, bytes.len() / 2, bytes.len() - 1] {
        assert!(State::restore(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn another_file_is_called_what_it_is() {
    let other = [0u8; 64];
    assert!(matches!(
        inspect(other.as_slice()),
        Err(RestoreError::Magic)
    ));
    let mut newer = written(&some_state());
    newer[11] = 2;
    assert!(matches!(
        inspect(newer.as_slice()),
        Err(RestoreError::Version { found: 2 })
    ));
}
