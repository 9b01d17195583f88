//! Variables: what `apply` decides of writes, deletions, quotas and locks.

mod locks;
mod quota;
mod random;
mod random_keys;
mod rekey;

use std::time::Duration;

use controlplane_state::command::{
    AcquiredItems, RootKeyUpsert, Rotation, VariableApply, VariableChange, VariableLocksExpire,
};
use controlplane_state::{
    AccessRefusal, Command, Outcome, Refusal, Sealed, State, Table, Variable, VariableChanged,
    VariableKey, VariableLock, VariableRefusal,
};
use uuid::Uuid;

use crate::access::root_key;
use crate::harness::Harness;

pub(crate) fn key(path: &str) -> VariableKey {
    VariableKey::new("default", path)
}

/// Sealed items of this length.
pub(crate) fn sealed_bytes(length: usize) -> Sealed {
    Sealed {
        key: 1,
        nonce: [3; 12],
        bytes: vec![7; length],
    }
}

/// A change by a caller without a lock and without an index.
pub(crate) fn change(path: &str, change: VariableChange) -> VariableApply {
    VariableApply {
        key: key(path),
        cas: None,
        lock_id: None,
        change,
    }
}

pub(crate) fn write(path: &str, length: usize) -> VariableApply {
    change(path, VariableChange::Write(sealed_bytes(length)))
}

pub(crate) fn lock(number: u128) -> VariableLock {
    VariableLock {
        id: Uuid::from_u128(number),
        ttl: Duration::from_secs(10),
        delay: Duration::from_secs(5),
        until: None,
    }
}

pub(crate) fn acquire(path: &str, number: u128) -> VariableApply {
    let acquire = VariableChange::Acquire {
        sealed: sealed_bytes(20),
        items: AcquiredItems::Kept,
        lock: lock(number),
    };
    change(path, acquire)
}

/// Makes a root key, which is active.
fn rotate(cluster: &mut Harness, number: u128, replaces: Option<u32>, rotation: Rotation) {
    let upsert = RootKeyUpsert {
        key: root_key(number),
        replaces,
        rotation,
    };
    cluster.done(upsert.into());
}

/// A cluster with a root key.
pub(crate) fn cluster() -> Harness {
    let mut cluster = Harness::new();
    rotate(&mut cluster, 1, None, Rotation::Plain);
    cluster
}

/// Everything that a checkpoint has of variables, once; the cluster has a root key.
pub(crate) fn fill(cluster: &mut Harness) {
    changed(cluster, write("app/db", 30));
    changed(cluster, acquire("app/held", 1));
    changed(cluster, acquire("app/delayed", 2));
    expire(cluster, "app/delayed", 2);
}

fn expire(cluster: &mut Harness, path: &str, number: u128) -> Outcome {
    let locks = vec![(key(path), Uuid::from_u128(number))];
    cluster.apply(VariableLocksExpire { locks }.into()).outcome
}

fn changed(cluster: &mut Harness, command: VariableApply) -> VariableChanged {
    match cluster.apply(command.into()).outcome {
        Outcome::VariableChanged(changed) => *changed,
        other => panic!("not changed: {other:?}"),
    }
}

fn refused(cluster: &mut Harness, command: VariableApply) -> VariableRefusal {
    match cluster.apply(command.into()).outcome {
        Outcome::Refused(Refusal::Variable(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

fn row(cluster: &Harness, path: &str) -> Option<Variable> {
    let row = cluster.tables().variable(&key(path));
    row.map(|row| Variable::clone(row))
}

#[test]
fn a_write_creates_and_then_changes_at_new_indexes() {
    let mut cluster = cluster();
    let first = changed(&mut cluster, write("app", 30));
    assert_eq!(
        (first.create_index, first.modify_index),
        (cluster.index, cluster.index)
    );
    assert_eq!(first.create_time, cluster.now);
    // Unchanged items still write.
    let second = changed(&mut cluster, write("app", 30));
    assert_eq!(second.create_index, first.create_index);
    assert_eq!(second.create_time, first.create_time);
    assert_eq!(second.modify_index, cluster.index);
    assert_eq!(second.modify_time, cluster.now);
    let row = row(&cluster, "app").expect("it is there");
    assert_eq!(row.sealed, sealed_bytes(30));
    let index = cluster.tables().table_index(&[Table::Variables]);
    assert_eq!(index, cluster.index);
}

#[test]
fn check_and_set_finds_the_index_or_is_refused_with_it() {
    let mut cluster = cluster();
    let at = |cas, command| VariableApply {
        cas: Some(cas),
        ..command
    };
    let first = changed(&mut cluster, at(0, write("app", 1)));
    let found = first.modify_index;
    let conflict = |wanted, found| VariableRefusal::Conflict { wanted, found };
    let again = refused(&mut cluster, at(0, write("app", 1)));
    assert_eq!(again, conflict(0, found));
    let older = refused(&mut cluster, at(found - 1, write("app", 1)));
    assert_eq!(older, conflict(found - 1, found));
    let absent = refused(&mut cluster, at(found, write("other", 1)));
    assert_eq!(absent, conflict(found, 0));
    let delete = || change("app", VariableChange::Delete);
    let kept = refused(&mut cluster, at(found + 1, delete()));
    assert_eq!(kept, conflict(found + 1, found));
    let removed = cluster.apply(at(found, delete()).into()).outcome;
    assert_eq!(removed, Outcome::Done);
    assert_eq!(row(&cluster, "app"), None);
    // Deleting what is not there succeeds.
    let nothing = cluster.apply(delete().into()).outcome;
    assert_eq!(nothing, Outcome::NoOp);
}

#[test]
fn a_variable_needs_its_namespace_its_path_and_its_root_key() {
    let mut cluster = cluster();
    let mut elsewhere = write("app", 1);
    elsewhere.key.namespace = "dev".to_owned();
    let outcome = cluster.apply(elsewhere.into()).outcome;
    let unknown = Refusal::UnknownNamespace("dev".to_owned());
    assert_eq!(outcome, Outcome::Refused(unknown));
    let path = refused(&mut cluster, write("nomad/x", 1));
    assert!(matches!(path, VariableRefusal::InvalidPath(_)), "{path}");
    let sealed = Sealed {
        key: 9,
        ..sealed_bytes(1)
    };
    let write = change("app", VariableChange::Write(sealed));
    let outcome = cluster.apply(write.into()).outcome;
    let gone = Refusal::Access(AccessRefusal::SealingKeyGone(9));
    assert_eq!(outcome, Outcome::Refused(gone));
}

#[test]
fn a_namespace_with_a_variable_is_not_deleted() {
    let mut cluster = cluster();
    let namespace = controlplane_state::Namespace {
        name: "dev".to_owned(),
        ..controlplane_state::Namespace::default()
    };
    cluster.done(Command::NamespaceUpsert { namespace });
    let mut in_dev = write("app", 1);
    in_dev.key.namespace = "dev".to_owned();
    changed(&mut cluster, in_dev.clone());
    let delete = || Command::NamespaceDelete {
        name: "dev".to_owned(),
        rule: controlplane_state::command::DeletionRule::NothingLive,
    };
    match cluster.apply(delete()).outcome {
        Outcome::Refused(Refusal::NamespaceHolds(holds)) => {
            let text = "namespace \"dev\" has variables associated with it in regions: [r] (1)";
            assert_eq!(holds.in_region("r"), text);
        }
        other => panic!("{other:?}"),
    }
    in_dev.change = VariableChange::Delete;
    cluster.done(in_dev.into());
    cluster.done(delete());
}

#[test]
fn variables_are_found_by_prefix_namespace_and_root_key() {
    let mut cluster = cluster();
    for path in ["b/1", "a", "b/2", "b", "c"] {
        changed(&mut cluster, write(path, 1));
    }
    let tables = cluster.tables();
    let paths = tables.variables_with_prefix("default", "b");
    let paths: Vec<&str> = paths.map(|it| it.key.path.as_str()).collect();
    assert_eq!(paths, ["b", "b/1", "b/2"]);
    assert_eq!(tables.variables_with_prefix("dev", "").count(), 0);
    assert_eq!(tables.count_variables_of_root_key(1), 5);
    assert_eq!(tables.variables_of_root_key(1).count(), 5);
    assert_eq!(tables.count_variables_of_root_key(2), 0);
}

#[test]
fn a_row_is_written_as_it_was_frozen() {
    let mut cluster = cluster();
    fill(&mut cluster);
    let row = row(&cluster, "app/delayed").expect("it is there");
    let json = serde_json::to_string(&row).expect("JSON");
    let frozen = "{\"namespace\":\"default\",\"path\":\"app/delayed\",\"sealed\":{\"key\":1,\
                  \"nonce\":\"030303030303030303030303\",\
                  \"bytes\":\"0707070707070707070707070707070707070707\"},\
                  \"create_time\":1700000005000000000,\"modify_time\":1700000005000000000,\
                  \"create_index\":5,\"modify_index\":5,\
                  \"lock\":{\"id\":\"00000000-0000-0000-0000-000000000002\",\
                  \"ttl\":{\"secs\":10,\"nanos\":0},\"delay\":{\"secs\":5,\"nanos\":0},\
                  \"until\":1700000011000000000}}";
    assert_eq!(json, frozen);
}

#[test]
fn a_restored_state_has_the_variables_and_their_locks() {
    let mut cluster = cluster();
    fill(&mut cluster);
    let state = State::restore(cluster.checkpoint().as_slice()).expect("a state");
    let difference = controlplane_state::invariants::difference(cluster.tables(), state.tables());
    assert_eq!(difference, None);
    assert_eq!(state.tables().locked_variables().count(), 2);
}
