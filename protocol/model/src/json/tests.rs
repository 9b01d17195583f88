//! Documents in any case, held against the same documents in the exact one.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{from_slice, from_str};

/// One of every kind of thing that a structure can hold.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Tree {
    #[serde(rename = "ID")]
    id: String,
    count: u32,
    meta: BTreeMap<String, String>,
    config: BTreeMap<String, Value>,
    parent: Option<Box<Self>>,
    children: Vec<Self>,
    named: BTreeMap<String, Self>,
    choice: Option<Choice>,
    pair: Option<Pair>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Choice {
    Plain,
    Held { inner: Option<Box<Tree>> },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Pair(Box<Tree>, u32);

fn read(text: &str) -> Tree {
    from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn keys_of_structures_match_in_any_case_at_every_depth() {
    let text = r#"{"id": "a", "PARENT": {"iD": "b", "children": [{"COUNT": 3}]},
        "named": {"X": {"id": "c"}}, "choice": {"Held": {"INNER": {"id": "d"}}},
        "PAIR": [{"id": "e"}, 1]}"#;
    let tree = read(text);
    let parent = tree.parent.expect("a parent");
    assert_eq!((tree.id.as_str(), parent.id.as_str()), ("a", "b"));
    assert_eq!(parent.children[0].count, 3);
    assert_eq!(tree.named["X"].id, "c");
    let Some(Choice::Held { inner: Some(inner) }) = tree.choice else {
        panic!("no choice")
    };
    assert_eq!(inner.id, "d");
    assert_eq!(tree.pair.expect("a pair").0.id, "e");
}

#[test]
fn keys_of_maps_stay_as_they_are() {
    let text = r#"{"meta": {"ID": "1", "id": "2"}, "CONFIG": {"ID": {"Count": 1, "count": 2}}}"#;
    let tree = read(text);
    let keys: Vec<&str> = tree.meta.keys().map(String::as_str).collect();
    assert_eq!(keys, ["ID", "id"]);
    assert_eq!(tree.config["ID"], json!({"Count": 1, "count": 2}));
}

#[test]
fn an_exact_key_wins_over_another_case_in_any_order() {
    for text in [
        r#"{"ID": "exact", "id": "other"}"#,
        r#"{"id": "other", "ID": "exact"}"#,
        r#"{"id": "other", "ID": "exact", "Id": "other"}"#,
        // What loses is not looked at.
        r#"{"id": {"no": "text"}, "ID": "exact"}"#,
        r#"{"\u0049d": "other", "\u0049D": "exact"}"#,
    ] {
        assert_eq!(read(text).id, "exact", "{text}");
    }
    let last = read(r#"{"Id": "first", "id": "last"}"#);
    assert_eq!(last.id, "last", "the last one, as in Go");
    let parents = read(r#"{"parent": {"id": "a"}, "Parent": null}"#);
    assert_eq!(parents.parent, None);
}

#[test]
fn the_same_key_twice_is_refused() {
    let refused = from_str::<Tree>(r#"{"ID": "a", "ID": "b"}"#).expect_err("twice");
    assert!(
        refused.to_string().contains("duplicate field `ID`"),
        "{refused}"
    );
}

#[test]
fn a_key_that_no_field_has_is_ignored_or_refused_as_the_type_says() {
    assert_eq!(read(r#"{"Ident": 1, "iDs": [{}]}"#), Tree::default());
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "PascalCase")]
    struct Strict {
        known: bool,
    }
    let strict: Strict = from_str(r#"{"known": true}"#).expect("it is known");
    assert!(strict.known);
    let refused = from_str::<Strict>(r#"{"known": true, "other": 1}"#).expect_err("unknown");
    assert!(
        refused.to_string().contains("unknown field `other`"),
        "{refused}"
    );
}

#[test]
fn an_error_names_the_place_in_the_whole_document() {
    let exact =
        "{\n \"Parent\": {\"ID\": \"é\",\n  \"Children\": [{\"Count\": 1}, {\"Count\": \"x\"}]}}";
    let wanted = serde_json::from_str::<Tree>(exact).expect_err("no number");
    let wanted = wanted.to_string();
    assert!(wanted.ends_with("at line 3 column 42"), "{wanted}");
    for text in [
        exact.to_owned(),
        exact.replace("Count", "count"),
        exact.replace("Children", "CHILDREN"),
        exact.replace("Parent", "parent"),
        exact.to_lowercase(),
    ] {
        let refused = from_str::<Tree>(&text).expect_err("no number");
        assert_eq!(refused.to_string(), wanted, "{text}");
        assert_eq!((refused.line(), refused.column()), (3, 42));
    }
}

#[test]
fn what_is_no_json_is_refused_wherever_it_is() {
    for text in [
        "",
        "{",
        r#"{"id": }"#,
        r#"{"id": [1,}"#,
        r#"{"id": "a"} x"#,
        r#"{"parent": {"id": "\ud800"}}"#,
        "[1, 2",
    ] {
        let refused = from_str::<Tree>(text).expect_err(text);
        assert!(refused.line() > 0, "{text}: {refused}");
    }
    from_slice::<Tree>(b"{\"id\": \"\xff\"}").expect_err("no UTF-8");
}

/// A document of so many levels, whose own are spelled so.
fn nested(levels: usize, parent: &str) -> String {
    let open = format!("{{\"{parent}\": ");
    format!("{}{{}}{}", open.repeat(levels - 1), "}".repeat(levels - 1))
}

#[test]
fn the_depth_is_limited_whatever_the_case() {
    for parent in ["Parent", "parent"] {
        from_str::<Tree>(&nested(127, parent)).expect("it is no deeper than may be");
        let refused = from_str::<Tree>(&nested(128, parent)).expect_err("too deep");
        assert!(refused.to_string().contains("recursion limit"), "{refused}");
        from_str::<Tree>(&nested(100_000, parent)).expect_err("too deep");
    }
    let config = format!(
        "{{\"config\": {{\"a\": {}1{}}}}}",
        "[".repeat(126),
        "]".repeat(126)
    );
    let refused = from_str::<Tree>(&config).expect_err("too deep");
    assert!(refused.to_string().contains("recursion limit"), "{refused}");
}

#[test]
fn many_spellings_of_a_key_cost_no_memory() {
    let text = format!("{{{}\"id\": \"last\"}}", "\"iD\": \"x\", ".repeat(100_000));
    assert_eq!(read(&text).id, "last");
}

/// Writes keys in cases that a number chooses, with what must not matter between them.
struct Writer {
    random: u64,
    out: String,
}

impl Writer {
    fn next(&mut self, below: u64) -> u64 {
        // SplitMix64, written out: the test needs no more of randomness.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn key(&mut self, exact: &str) {
        let spelled: String = exact
            .chars()
            .map(|letter| match self.next(3) {
                0 => letter.to_ascii_lowercase(),
                1 => letter.to_ascii_uppercase(),
                _ => letter,
            })
            .collect();
        let swapped = |letter: char| match letter.is_ascii_lowercase() {
            true => letter.to_ascii_uppercase(),
            false => letter.to_ascii_lowercase(),
        };
        let decoy: String = exact.chars().map(swapped).collect();
        match self.next(6) {
            // An exact key wins over what comes before and after it.
            0 => self.out += &format!("\"{decoy}\": [0], \"{exact}\": "),
            1 => self.out += &format!("\"unknown\": {{\"ID\": 1}}, \"{spelled}\": "),
            2 => self.out += &format!("\n \"{spelled}\":  "),
            _ => self.out += &format!("\"{spelled}\": "),
        }
    }

    fn value(&mut self, value: &impl Serialize) {
        self.out += &serde_json::to_string(value).expect("JSON");
    }

    fn tree(&mut self, tree: &Tree) {
        let Tree {
            id,
            count,
            meta,
            config,
            parent,
            children,
            named,
            choice,
            pair,
        } = tree;
        self.out.push('{');
        self.key("ID");
        self.value(id);
        self.out.push(',');
        self.key("Count");
        self.value(count);
        self.out.push(',');
        self.key("Meta");
        self.value(meta);
        self.out.push(',');
        self.key("Config");
        self.value(config);
        self.out.push(',');
        self.key("Parent");
        match parent {
            None => self.out += "null",
            Some(parent) => self.tree(parent),
        }
        self.out.push(',');
        self.key("Children");
        self.out.push('[');
        for (position, child) in children.iter().enumerate() {
            self.comma(position);
            self.tree(child);
        }
        self.out += "],";
        self.key("Named");
        self.out.push('{');
        for (position, (name, child)) in named.iter().enumerate() {
            self.comma(position);
            self.value(name);
            self.out.push(':');
            self.tree(child);
        }
        self.out += "},";
        self.key("Choice");
        self.choice(choice.as_ref());
        self.out.push(',');
        self.key("Pair");
        match pair {
            None => self.out += "null",
            Some(Pair(tree, number)) => {
                self.out.push('[');
                self.tree(tree);
                self.out += &format!(", {number}]");
            }
        }
        self.out.push('}');
    }

    fn choice(&mut self, choice: Option<&Choice>) {
        match choice {
            None => self.out += "null",
            Some(Choice::Plain) => self.out += "\"Plain\"",
            Some(Choice::Held { inner }) => {
                self.out += "{\"Held\": {";
                self.key("inner");
                match inner {
                    None => self.out += "null",
                    Some(inner) => self.tree(inner),
                }
                self.out += "}}";
            }
        }
    }

    fn comma(&mut self, position: usize) {
        if position > 0 {
            self.out.push(',');
        }
    }
}

fn any_case(random: u64, tree: &Tree) -> String {
    let mut writer = Writer {
        random,
        out: String::new(),
    };
    writer.tree(tree);
    writer.out
}

fn tree() -> impl Strategy<Value = Tree> {
    let name = "[A-Za-z\\PC]{0,4}";
    let leaf = (
        name,
        any::<u32>(),
        prop::collection::btree_map(name, name, 0..3),
        prop::collection::btree_map("[iI][dD]", any::<u8>().prop_map(Value::from), 0..3),
    );
    let leaf = leaf.prop_map(|(id, count, meta, config)| Tree {
        id,
        count,
        meta,
        config,
        ..Tree::default()
    });
    leaf.clone().prop_recursive(4, 24, 3, move |inner| {
        let inside = (
            leaf.clone(),
            prop::option::of(inner.clone().prop_map(Box::new)),
            prop::collection::vec(inner.clone(), 0..3),
            prop::collection::btree_map(name, inner.clone(), 0..3),
            prop::option::of(prop_oneof![
                Just(Choice::Plain),
                prop::option::of(inner.clone().prop_map(Box::new))
                    .prop_map(|inner| Choice::Held { inner }),
            ]),
            prop::option::of((inner.prop_map(Box::new), any::<u32>())),
        );
        inside.prop_map(|(leaf, parent, children, named, choice, pair)| Tree {
            parent,
            children,
            named,
            choice,
            pair: pair.map(|(tree, number)| Pair(tree, number)),
            ..leaf
        })
    })
}

/// Spells the keys of structures in lower case, which keeps every place.
fn lower(text: &str) -> String {
    let mut text = text.to_owned();
    for key in [
        "ID", "Count", "Parent", "Children", "Named", "Choice", "Pair", "Config", "Meta",
    ] {
        text = text.replace(
            &format!("\"{key}\":"),
            &format!("\"{}\":", key.to_lowercase()),
        );
    }
    text
}

proptest! {
    #[test]
    fn a_document_in_any_case_reads_as_the_exact_one(tree in tree(), random: u64) {
        let text = any_case(random, &tree);
        let read: Tree = from_str(&text).map_err(|error| {
            TestCaseError::fail(format!("{text}: {error}"))
        })?;
        prop_assert_eq!(read, tree);
    }

    #[test]
    fn an_exact_document_reads_as_with_the_library(tree in tree(), cut in 0..100_usize) {
        let text = serde_json::to_string(&tree).expect("JSON");
        prop_assert_eq!(from_str::<Tree>(&text).ok(), Some(tree));
        // Cut anywhere, it is refused in the same words.
        let bytes = &text.as_bytes()[..text.len() * cut / 100];
        let ours = from_slice::<Tree>(bytes).map_err(|error| error.to_string());
        let library = serde_json::from_slice::<Tree>(bytes).map_err(|error| error.to_string());
        prop_assert_eq!(ours, library);
    }

    #[test]
    fn a_wrong_type_is_refused_in_the_same_place_in_any_case(tree in tree(), wrong: u32) {
        let text = serde_json::to_string_pretty(&tree).expect("JSON");
        let counts: Vec<usize> = text.match_indices("\"Count\": ").map(|(at, _)| at + 9).collect();
        let at = counts[wrong as usize % counts.len()];
        let rest = text[at..].trim_start_matches(|digit: char| digit.is_ascii_digit());
        let text = format!("{}\"x\"{rest}", &text[..at]);
        let exact = serde_json::from_str::<Tree>(&text).map_err(|error| error.to_string());
        let other = from_str::<Tree>(&lower(&text)).map_err(|error| error.to_string());
        prop_assert_eq!(other, exact);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\" iIdD01nul\\\\]{0,40}") {
        let _ = from_str::<Tree>(&text);
        let ours = from_str::<Value>(&text).map_err(|error| error.to_string());
        prop_assert_eq!(ours, serde_json::from_str(&text).map_err(|error| error.to_string()));
    }
}
