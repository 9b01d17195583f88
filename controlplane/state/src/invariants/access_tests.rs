//! Each rule of access control finds what breaks it.

use std::sync::Arc;

use protocol_model::{JobKey, UnixNanos};

use super::{Rule, check};
use crate::access::RootKeyState;
use crate::record::Digest;
use crate::state::State;
use crate::tables::{AccessTables, Tables};

type Break = fn(&mut AccessTables);

/// Two rows of most tables.
fn sound() -> Tables {
    let checkpoint = include_bytes!("../../tests/golden/v4/checkpoint.bin");
    let state = State::restore(checkpoint.as_slice()).expect("a state");
    let tables = state.into_tables();
    assert_eq!(check(&tables), []);
    tables
}

fn assert_found(rule: Rule, of: &str, break_it: impl FnOnce(&mut AccessTables)) {
    let mut tables = sound();
    break_it(&mut tables.access);
    let found = check(&tables);
    assert!(!found.is_empty(), "{of}");
    for violation in found {
        assert_eq!(violation.rule, rule, "{of}: {violation}");
    }
}

#[test]
fn an_index_that_misses_a_row_is_found() {
    let breaks: [(&str, Break); 7] = [
        ("tokens by secret", |it| it.tokens_by_secret.clear()),
        ("tokens by expiry", |it| it.tokens_by_expiry.clear()),
        ("policies by job", |it| it.policies_by_job.clear()),
        ("roles by name", |it| it.roles_by_name.clear()),
        ("rules by method", |it| it.rules_by_method.clear()),
        ("one-time by accessor", |it| it.one_time_by_accessor.clear()),
        ("one-time by expiry", |it| it.one_time_by_expiry.clear()),
    ];
    for (of, break_it) in breaks {
        assert_found(Rule::SecondaryIndex, of, break_it);
    }
}

#[test]
fn an_index_that_names_another_row_is_found() {
    let other = || "other".to_owned();
    assert_found(Rule::SecondaryIndex, "secret", |it| {
        let (place, token) = it.tokens_by_secret.get_min().expect("one").clone();
        it.tokens_by_secret.remove(&place);
        it.tokens_by_secret.insert((Digest([0; 32]), 1), token);
    });
    assert_found(Rule::SecondaryIndex, "an older row", |it| {
        let (accessor, token) = it.tokens.get_min().expect("one").clone();
        it.tokens.insert(accessor, Arc::new((*token).clone()));
    });
    assert_found(Rule::SecondaryIndex, "expiry", |it| {
        it.tokens_by_expiry.insert((UnixNanos(1), other()));
    });
    assert_found(Rule::SecondaryIndex, "job", |it| {
        let (key, names) = it.policies_by_job.get_min().expect("one").clone();
        it.policies_by_job.remove(&key);
        let key = JobKey::new("default", "other");
        it.policies_by_job.insert(key, names);
    });
    assert_found(Rule::SecondaryIndex, "role", |it| {
        let (name, id) = it.roles_by_name.get_min().expect("one").clone();
        it.roles_by_name.remove(&name);
        it.roles_by_name.insert(other(), id);
    });
    assert_found(Rule::SecondaryIndex, "one-time token", |it| {
        let (accessor, digest) = it.one_time_by_accessor.get_min().expect("one").clone();
        it.one_time_by_accessor.remove(&accessor);
        it.one_time_by_accessor.insert(other(), digest);
    });
}

#[test]
fn rows_that_do_not_fit_together_are_found() {
    assert_found(Rule::Access, "a second default", |it| {
        let (name, method) = it.auth_methods.get_max().expect("one").clone();
        let mut method = (*method).clone();
        method.default = true;
        it.auth_methods.insert(name, Arc::new(method));
    });
    assert_found(Rule::Access, "a rule without its method", |it| {
        it.auth_methods.remove("sso");
    });
    assert_found(Rule::Access, "a sealed value without its key", |it| {
        it.root_keys.clear();
    });
    assert_found(Rule::Access, "a number that was not given", |it| {
        it.root_keys_numbered = 0;
    });
    assert_found(Rule::Access, "a second active key", |it| {
        let (_, key) = it.root_keys.get_min().expect("one").clone();
        let mut key = (*key).clone();
        assert_eq!(key.state, RootKeyState::Active);
        key.number += 1;
        it.root_keys_numbered = key.number;
        it.root_keys.insert(key.number, Arc::new(key));
    });
}
