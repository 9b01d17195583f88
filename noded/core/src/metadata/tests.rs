//! Examples of rules, merges and bytes.

use std::collections::BTreeMap;

use super::*;

const FROZEN: &str = include_str!("../../tests/golden/v1/metadata.bin");

fn changes(all: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
    let owned = |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(str::to_owned));
    all.iter().map(owned).collect()
}

fn map(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    all.iter().map(owned).collect()
}

fn sample() -> DynamicMeta {
    let all = changes(&[("rack", Some("r2")), ("empty", Some("")), ("gone", None)]);
    DynamicMeta::default().with(all, &map(&[])).expect("valid")
}

#[test]
fn changes_are_merged_over_the_configuration_and_may_hide_a_key() {
    let configured = map(&[("rack", "r1"), ("gone", "x"), ("zone", "z")]);
    let shown = sample().shown(&configured);
    assert_eq!(
        shown.meta,
        map(&[("rack", "r2"), ("empty", ""), ("zone", "z")])
    );
    assert_eq!(
        shown.dynamic,
        changes(&[("rack", Some("r2")), ("empty", Some("")), ("gone", None)])
    );
    assert_eq!(shown.configured, configured);
}

#[test]
fn later_changes_replace_earlier_ones_of_the_same_key_only() {
    let next = changes(&[("rack", None), ("gone", Some("back"))]);
    let meta = sample().with(next, &map(&[])).expect("valid");
    assert_eq!(
        meta.merged(&map(&[])),
        map(&[("empty", ""), ("gone", "back")])
    );
}

#[test]
fn an_unset_key_is_needed_while_the_configuration_has_it() {
    let hidden = |configured| sample().needed(&configured).shown(&configured).dynamic;
    assert!(hidden(map(&[("gone", "x")])).contains_key("gone"));
    assert!(!hidden(map(&[])).contains_key("gone"));
    assert_eq!(hidden(map(&[])).len(), 2, "values stay");
}

#[test]
fn keys_are_dotted_identifiers() {
    for key in [
        "a",
        "_a",
        "a-b",
        "a.b2._c",
        "größe",
        "connect.sidecar_image",
    ] {
        assert_eq!(check_key(key), Ok(()), "{key}");
    }
    for key in [
        ".", "a.", ".a", "a..b", "1a", "a.1", "-a", "a b", "a/b", "${a}", "a\n",
    ] {
        let invalid = MetaError::InvalidKey {
            key: key.to_owned(),
        };
        assert_eq!(check_key(key), Err(invalid), "{key}");
    }
    assert_eq!(check_key(""), Err(MetaError::EmptyKey));
    assert_eq!(check_key(&"a".repeat(KEY_BYTES_MAX)), Ok(()));
    let long = check_key(&"a".repeat(KEY_BYTES_MAX + 1));
    assert!(matches!(long, Err(MetaError::LongKey { bytes: 129, .. })));
}

#[test]
fn refused_changes_name_the_limit() {
    let none = map(&[]);
    let apply = |meta: &DynamicMeta, all| meta.with(all, &none);
    let empty = DynamicMeta::default();
    assert_eq!(apply(&empty, changes(&[])), Err(MetaError::Empty));
    let large = "x".repeat(BYTES_MAX - 1);
    let full = apply(&empty, changes(&[("k", Some(&large))])).expect("fits");
    let more = apply(&full, changes(&[("l", Some(""))]));
    assert_eq!(
        more,
        Err(MetaError::TooLarge {
            bytes: BYTES_MAX + 1
        })
    );
    let names: Vec<String> = (0..=KEYS_MAX).map(|number| format!("k{number}")).collect();
    let of = |count: usize, value| {
        let all: Vec<_> = names[..count]
            .iter()
            .map(|it| (it.as_str(), value))
            .collect();
        changes(&all)
    };
    let keys = KEYS_MAX + 1;
    let refused = apply(&empty, of(keys, Some("v")));
    assert_eq!(refused, Err(MetaError::TooManyKeys { keys }));
}

#[test]
fn unset_keys_make_room_at_the_limit() {
    let none = map(&[]);
    let names: Vec<String> = (0..KEYS_MAX).map(|number| format!("k{number}")).collect();
    let of = |value| {
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), value)).collect();
        changes(&all)
    };
    let full = DynamicMeta::default().with(of(Some("v")), &none).unwrap();
    let unset = full.with(of(None), &none).unwrap();
    assert_eq!(unset.shown(&none).dynamic.len(), KEYS_MAX, "as Nomad shows");
    let more = unset.with(changes(&[("new", Some("v"))]), &none).unwrap();
    assert_eq!(more.shown(&none).dynamic.len(), 1);
    let hidden = map(&[("k7", "x")]);
    let more = unset.with(changes(&[("new", Some("v"))]), &hidden).unwrap();
    assert_eq!(
        more.merged(&hidden),
        map(&[("new", "v")]),
        "k7 stays hidden"
    );
}

#[test]
fn the_bytes_of_version_1_stay_as_they_are() {
    let bytes = sample().encode();
    assert_eq!(String::from_utf8_lossy(&bytes), FROZEN.trim_end());
    assert_eq!(DynamicMeta::decode(FROZEN.as_bytes()), Ok(sample()));
}

#[test]
fn damaged_bytes_are_refused() {
    for text in [
        "",
        "{",
        "[]",
        "{\"version\":1}",
        "{\"version\":1,\"meta\":{\"a\":1}}",
    ] {
        let refused = DynamicMeta::decode(text.as_bytes());
        assert!(matches!(refused, Err(MetaError::Decode { .. })), "{text}");
    }
    let newer = "{\"version\":2,\"pairs\":[]}";
    let refused = DynamicMeta::decode(newer.as_bytes());
    assert_eq!(refused, Err(MetaError::Version { version: 2 }));
    let invalid = "{\"version\":1,\"meta\":{\"a b\":null}}";
    let refused = DynamicMeta::decode(invalid.as_bytes());
    assert!(matches!(refused, Err(MetaError::InvalidKey { .. })));
}
