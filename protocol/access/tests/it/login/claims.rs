//! Claims under the names of the mappings.

use std::collections::BTreeMap;

use protocol_access::claims::MappedClaims;
use protocol_model::AuthMethodConfig;
use serde_json::json;

use super::keys::object;

fn names(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|(claim, name)| ((*claim).to_owned(), (*name).to_owned()));
    pairs.collect()
}

#[test]
fn claims_are_found_by_key_and_by_pointer_and_become_text() {
    let claims = object(json!({
        "sub": "robot", "n": 7, "f": 1.5, "b": true, "nothing": null,
        "https://x/y": "by key", "a/b": {"c~d": ["zero", "one"]}, "one": "single",
        "groups": ["dev", 3, false],
    }));
    let config = AuthMethodConfig {
        claim_mappings: names(&[
            ("sub", "user"),
            ("n", "n"),
            ("f", "f"),
            ("b", "b"),
            ("nothing", "nothing"),
            ("missing", "missing"),
            ("https://x/y", "url"),
            ("/a~1b/c~0d/1", "pointed"),
            ("/sub/x", "too deep"),
        ]),
        list_claim_mappings: names(&[("groups", "groups"), ("one", "one"), ("/a~1b/c~0d", "deep")]),
        ..AuthMethodConfig::default()
    };
    let mapped = MappedClaims::of(&claims, &config).expect("plain claims");
    let wanted = names(&[
        ("user", "robot"),
        ("n", "7"),
        ("f", "1.5"),
        ("b", "true"),
        ("url", "by key"),
        ("pointed", "one"),
    ]);
    assert_eq!(mapped.value, wanted);
    assert_eq!(mapped.list["groups"], ["dev", "3", "false"]);
    assert_eq!(mapped.list["one"], ["single"]);
    assert_eq!(mapped.list["deep"], ["zero", "one"]);
    assert_eq!(mapped.list.len(), 3);
}

#[test]
fn claims_that_are_no_plain_values_are_refused_by_name() {
    let claims = object(json!({"o": {"a": 1}, "l": [["x"]], "long": vec![1; 2_001]}));
    for (claim, is_list) in [
        ("o", false),
        ("l", false),
        ("l", true),
        ("o", true),
        ("long", true),
    ] {
        let mut config = AuthMethodConfig::default();
        let mappings = match is_list {
            true => &mut config.list_claim_mappings,
            false => &mut config.claim_mappings,
        };
        mappings.insert(claim.to_owned(), "name".to_owned());
        let error = MappedClaims::of(&claims, &config).expect_err(claim);
        assert!(error.to_string().contains(&format!("{claim:?}")), "{error}");
    }
}
