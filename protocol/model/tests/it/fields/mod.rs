//! What becomes of every field of a job: `fields.txt` says it, these tests hold it to its word. A
//! new field of the model fails here until it is listed.

mod tracer;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol_model::Job;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fixtures::canonical;
use tracer::{Trace, Tracer};

enum Fate<'t> {
    Honoured { file: &'t str, word: &'t str },
    Warned { block: String, sample: Value },
    Stored,
}

fn table() -> BTreeMap<&'static str, Fate<'static>> {
    let lines = include_str!("fields.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut table = BTreeMap::new();
    for line in lines {
        let (path, rest) = line.split_once(' ').expect("a path");
        let (fate, rest) = rest.trim_start().split_once(' ').expect("a fate");
        let (first, second) = rest.split_once(' ').expect("two more words");
        let fate = match fate {
            "honoured" => Fate::Honoured {
                file: first,
                word: second,
            },
            "warned" => Fate::Warned {
                block: first.replace('|', " "),
                sample: serde_json::from_str(second).unwrap_or_else(|e| panic!("{path}: {e}")),
            },
            "stored" => Fate::Stored,
            other => panic!("{path}: {other}"),
        };
        assert!(table.insert(path, fate).is_none(), "{path} is there twice");
    }
    table
}

#[test]
fn every_field_of_a_job_is_honoured_warned_of_or_nothing_to_act_upon() {
    let table = table();
    let is_leaf = |fate: &Fate<'_>| !matches!(fate, Fate::Honoured { .. });
    let trace = Trace {
        leaves: table
            .iter()
            .filter(|(_, fate)| is_leaf(fate))
            .map(|(path, _)| (*path).to_owned())
            .collect(),
        found: RefCell::default(),
    };
    let tracer = Tracer {
        trace: &trace,
        path: String::new(),
    };
    Job::deserialize(tracer).expect("one of everything is a job");
    let found = trace.found.into_inner();
    let listed: BTreeSet<String> = table.keys().map(|path| (*path).to_owned()).collect();
    let unlisted: Vec<&String> = found.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&found).collect();
    assert!(
        unlisted.is_empty(),
        "not listed in fields.txt: {unlisted:#?}"
    );
    assert!(gone.is_empty(), "listed, but no field: {gone:#?}");
}

/// A canonical job that has `sample` at `path`, and is otherwise one that nothing is said of.
fn job_with(path: &str, sample: &Value) -> Job {
    // Not canonical yet: what a group says reaches its tasks only then.
    let mut job = json!({"ID": "example", "TaskGroups": [{"Name": "web", "Tasks": [
        {"Name": "server", "Driver": "exec", "Config": {"command": "/bin/true"}}]}]});
    let mut at = &mut job;
    for part in path.split('.') {
        let (name, is_list) = match part.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (part, false),
        };
        if at.is_null() {
            *at = json!({});
        }
        at = &mut at[name];
        if is_list {
            if at.is_null() {
                *at = json!([{}]);
            }
            at = &mut at[0];
        }
    }
    *at = sample.clone();
    canonical(job)
}

#[test]
fn a_field_without_effect_is_warned_of_by_its_name() {
    for (path, fate) in table() {
        let Fate::Warned { block, sample } = fate else {
            continue;
        };
        let warnings = job_with(path, &sample).unhonoured();
        let places: Vec<&str> = warnings
            .iter()
            .map(|warning| warning.path.rsplit(" > ").next().unwrap_or_default())
            .collect();
        let named = places.iter().any(|place| {
            let rest = place.strip_prefix(block.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        assert!(named, "{path}: {block} is not among {places:?}");
    }
}

#[test]
fn a_field_with_effect_is_spoken_of_where_it_has_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for (path, fate) in table() {
        let Fate::Honoured { file, word } = fate else {
            continue;
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "only the tests read files; the crate does not"
        )]
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !text.split(|c| !is_word(c)).any(|found| found == word) {
            wrong.push(format!("{path}: {file} does not speak of `{word}`"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
