//! Values of variables move to another root key.

use controlplane_state::command::{
    KeyRemoval, REKEY_VALUES_MAX, ResealedVariable, RootKeyChange, VariablesRekey,
};
use controlplane_state::{RootKeyState, SealedCounts};

use super::*;

/// The seal of [`sealed_bytes`] replaced by one of key 2.
fn resealed(path: &str, length: usize) -> ResealedVariable {
    let before = sealed_bytes(length);
    ResealedVariable {
        key: key(path),
        replaces: (before.key, before.nonce),
        sealed: Sealed {
            key: 2,
            nonce: [4; 12],
            ..before
        },
    }
}

fn rekey(variables: Vec<ResealedVariable>) -> Command {
    VariablesRekey { variables }.into()
}

fn state(cluster: &Harness, number: u32) -> Option<RootKeyState> {
    let key = cluster.tables().root_key(number);
    key.map(|key| key.state)
}

#[test]
fn values_move_without_an_index_and_newer_ones_are_left() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 30));
    changed(&mut cluster, write("b", 30));
    changed(&mut cluster, write("c", 30));
    rotate(&mut cluster, 2, Some(1), Rotation::Full);
    let newer = Sealed {
        nonce: [9; 12],
        ..sealed_bytes(40)
    };
    changed(
        &mut cluster,
        change("b", VariableChange::Write(newer.clone())),
    );
    cluster.done(change("c", VariableChange::Delete).into());
    let before = cluster.tables().table_index(&[Table::Variables]);
    let all = ["a", "b", "c"].map(|path| resealed(path, 30)).to_vec();
    let moved = cluster.done(rekey(all));
    assert_eq!(moved.signals, []);
    assert_eq!(cluster.tables().table_index(&[Table::Variables]), before);
    let row = |path| cluster.tables().variable(&key(path)).cloned();
    let a = row("a").expect("a variable");
    assert_eq!(a.sealed, resealed("a", 30).sealed);
    assert_eq!(a.modify_index, a.create_index);
    assert_eq!(row("b").expect("a variable").sealed, newer);
    assert_eq!(row("c"), None);
    let sealed = cluster.tables().sealed_with(1);
    assert_eq!(sealed.variables, 1, "the newer value has the old key");
}

#[test]
fn a_rekey_ends_when_no_variable_has_the_key() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 30));
    rotate(&mut cluster, 2, Some(1), Rotation::Full);
    let end: Command = RootKeyChange::EndRekey { number: 1 }.into();
    let early = cluster.apply(end.clone()).outcome;
    let left = SealedCounts {
        variables: 1,
        ..SealedCounts::default()
    };
    let id = Uuid::from_u128(1);
    let seals = AccessRefusal::RootKeySeals { id, left };
    assert_eq!(early, Outcome::Refused(Refusal::Access(seals.clone())));
    for rule in [KeyRemoval::Unused, KeyRemoval::Forced] {
        let remove = RootKeyChange::Remove { number: 1, rule };
        let refused = cluster.apply(remove.into()).outcome;
        assert!(matches!(refused, Outcome::Refused(_)), "{rule:?}");
    }
    cluster.done(rekey(vec![resealed("a", 30)]));
    cluster.done(end);
    assert_eq!(state(&cluster, 1), Some(RootKeyState::Inactive));
    let rule = KeyRemoval::Unused;
    let remove = RootKeyChange::Remove { number: 1, rule };
    cluster.done(remove.into());
    assert_eq!(state(&cluster, 1), None);
}

#[test]
fn a_full_rotation_takes_the_variables_of_earlier_keys_along() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 30));
    rotate(&mut cluster, 2, Some(1), Rotation::Plain);
    assert_eq!(state(&cluster, 1), Some(RootKeyState::Inactive));
    rotate(&mut cluster, 3, Some(2), Rotation::Full);
    let states = [1, 2, 3].map(|number| state(&cluster, number));
    let expected = [
        RootKeyState::Rekeying,
        RootKeyState::Rekeying,
        RootKeyState::Active,
    ];
    assert_eq!(states, expected.map(Some));
}

#[test]
fn too_many_values_and_unknown_keys_are_refused() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 30));
    let (found, max) = (REKEY_VALUES_MAX + 1, REKEY_VALUES_MAX);
    let many = cluster.apply(rekey(vec![resealed("a", 30); found])).outcome;
    let too_many = AccessRefusal::TooManyRows { found, max };
    assert_eq!(many, Outcome::Refused(Refusal::Access(too_many)));
    let gone = cluster.apply(rekey(vec![resealed("a", 30)])).outcome;
    let refusal = AccessRefusal::SealingKeyGone(2);
    assert_eq!(gone, Outcome::Refused(Refusal::Access(refusal)));
}

/// A server that did not apply the rotation yet seals with the key of before.
#[test]
fn seals_of_inactive_keys_are_refused_and_of_rekeying_ones_taken() {
    let mut cluster = cluster();
    changed(&mut cluster, write("a", 30));
    rotate(&mut cluster, 2, Some(1), Rotation::Full);
    changed(&mut cluster, write("b", 30));
    cluster.done(rekey(vec![resealed("a", 30), resealed("b", 30)]));
    cluster.done(RootKeyChange::EndRekey { number: 1 }.into());
    let late = cluster.apply(write("a", 40).into()).outcome;
    let refusal = AccessRefusal::SealingKeyGone(1);
    assert_eq!(late, Outcome::Refused(Refusal::Access(refusal)));
    assert!(cluster.tables().sealed_with(1).is_empty());
    // A lock that keeps the items of an inactive key is acquired all the same.
    rotate(&mut cluster, 3, Some(2), Rotation::Plain);
    changed(&mut cluster, acquire("a", 7));
    assert_eq!(cluster.tables().sealed_with(2).variables, 2);
}
