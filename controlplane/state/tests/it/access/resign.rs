//! The root key that signs an allocation's identities.

use controlplane_state::Table;
use controlplane_state::command::{AllocsResign, IDENTITY_LEVEL, RESIGN_ALLOCS_MAX};
use protocol_model::{AllocId, ClientStatus, JobType, NodeId};

use super::root_keys::upsert;
use super::*;
use crate::harness::{job, says};

pub(crate) fn resign(key: u32, allocs: &[AllocId]) -> Command {
    let allocs = allocs.to_vec();
    AllocsResign { key, allocs }.into()
}

/// A cluster with root key 1, a node and one allocation from before identities.
fn with_key() -> (Harness, NodeId, AllocId) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    cluster.done(upsert(1, None).into());
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    (cluster, node, alloc)
}

/// Allocations with and without a key, as a checkpoint of version 5 has them.
pub(crate) fn fill_keys(cluster: &mut Harness) {
    let record = cluster.tables().nodes().last().expect("one");
    let node = record.node.id;
    let key = job("web", JobType::Service).key();
    cluster.done(resign(1, &[]));
    cluster.place(&key, node);
}

#[test]
fn placement_is_stamped_once_identities_have_begun() {
    let (mut cluster, node, before) = with_key();
    assert_eq!(cluster.tables().alloc_key(before), 0);
    assert_eq!(cluster.tables().live_allocs_of_key(0), 1);
    assert!(!cluster.tables().identities_begun());
    cluster.done(resign(1, &[]));
    assert!(cluster.tables().identities_begun());
    let key = job("web", JobType::Service).key();
    let after = cluster.place(&key, node);
    assert_eq!(cluster.tables().alloc_key(after), 1);
    cluster.done(upsert(2, Some(1)).into());
    let newest = cluster.place(&key, node);
    assert_eq!(cluster.tables().alloc_key(newest), 2);
    assert_eq!(cluster.tables().alloc_key(after), 1, "it keeps its key");
    let others = cluster.tables().live_allocs_not_of_key(2);
    let mut others: Vec<_> = others.collect();
    others.sort_unstable();
    let mut wanted = vec![(before, 0), (after, 1)];
    wanted.sort_unstable();
    assert_eq!(others, wanted);
}

#[test]
fn resigned_allocation_is_told_to_its_node_once() {
    let (mut cluster, node, alloc) = with_key();
    let applied = cluster.done(resign(1, &[alloc, AllocId::from_u128(9)]));
    let told = Signal::AllocsDesired {
        node,
        allocs: vec![alloc],
    };
    assert!(applied.signals.contains(&told));
    let version = cluster.tables().alloc(alloc).expect("one");
    assert_eq!(version.alloc_modify_index, cluster.index);
    assert_eq!(cluster.tables().alloc_key(alloc), 1);
    let again = cluster.done(resign(1, &[alloc]));
    assert_eq!((again.outcome, again.signals), (Outcome::NoOp, Vec::new()));
    let allocs = cluster.tables().table_index(&[Table::Allocs]);
    assert!(allocs < cluster.index, "nothing changed");
}

#[test]
fn live_count_of_a_key_falls_when_the_client_is_done() {
    let (mut cluster, node, alloc) = with_key();
    cluster.done(resign(1, &[alloc]));
    cluster.stop(alloc);
    assert_eq!(cluster.tables().live_allocs_of_key(1), 1, "it still runs");
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    assert_eq!(cluster.tables().live_allocs_of_key(1), 0);
    cluster.done(upsert(2, Some(1)).into());
    cluster.done(resign(2, &[alloc]));
    assert_eq!(cluster.tables().alloc_key(alloc), 1, "it is over");
}

#[test]
fn resigning_with_another_key_than_the_active_is_refused() {
    let mut cluster = Harness::new();
    let moved = |wanted, found| AccessRefusal::RootKeyMoved { wanted, found };
    assert_eq!(refused(&mut cluster, resign(0, &[])), moved(0, 0));
    assert_eq!(refused(&mut cluster, resign(1, &[])), moved(1, 0));
    cluster.done(upsert(1, None).into());
    assert_eq!(refused(&mut cluster, resign(2, &[])), moved(2, 1));
    let many = vec![AllocId::from_u128(1); RESIGN_ALLOCS_MAX + 1];
    let (found, max) = (many.len(), RESIGN_ALLOCS_MAX);
    let too_many = AccessRefusal::TooManyRows { found, max };
    assert_eq!(refused(&mut cluster, resign(1, &many)), too_many);
    assert_eq!(resign(1, &[]).level(), IDENTITY_LEVEL);
}
