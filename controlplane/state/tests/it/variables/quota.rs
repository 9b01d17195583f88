//! The bytes that the variables of a namespace may take.

use controlplane_state::{Namespace, VARIABLE_SEALED_BYTES_MAX};

use super::*;

fn limited(cluster: &mut Harness, max: u64) {
    let namespace = Namespace {
        name: "default".to_owned(),
        variables_bytes_max: max,
        ..Namespace::default()
    };
    cluster.done(Command::NamespaceUpsert { namespace });
}

#[test]
fn sealed_bytes_are_counted_and_a_full_namespace_takes_no_more() {
    let mut cluster = cluster();
    limited(&mut cluster, 100);
    changed(&mut cluster, write("a", 60));
    changed(&mut cluster, write("b", 40));
    let over = refused(&mut cluster, write("c", 1));
    let text = "variables of namespace \"default\" would take 101 bytes: at most 100 are kept";
    assert_eq!(over.to_string(), text);
    refused(&mut cluster, write("b", 41));
    changed(&mut cluster, write("b", 39));
    changed(&mut cluster, write("c", 1));
    cluster.done(change("a", VariableChange::Delete).into());
    changed(&mut cluster, write("d", 60));
}

#[test]
fn a_lowered_limit_still_takes_smaller_values() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 60));
    limited(&mut cluster, 10);
    changed(&mut cluster, write("a", 60));
    changed(&mut cluster, write("a", 50));
    refused(&mut cluster, write("a", 51));
}

#[test]
fn a_sealed_value_beyond_the_limit_is_refused() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", VARIABLE_SEALED_BYTES_MAX));
    let long = VARIABLE_SEALED_BYTES_MAX + 1;
    let outcome = cluster.apply(write("a", long).into()).outcome;
    let refusal = Refusal::Access(AccessRefusal::SealedTooLong { bytes: long });
    assert_eq!(outcome, Outcome::Refused(refusal));
}
