//! Every block of a job, its keys in another case.

use protocol_model::{Job, json};
use serde_json::{Map, Value};

/// One of every block.
const BLOCKS: &str = include_str!("../../../../hack/fuzz/seeds/job-document-blocks.json");

/// Fields whose keys are the user's own.
const MAPS: [&str; 16] = [
    "Args",
    "Attributes",
    "CanaryMeta",
    "Config",
    "Env",
    "EnvoyGatewayBindAddresses",
    "GetterHeaders",
    "GetterOptions",
    "Header",
    "Meta",
    "Policy",
    "Set",
    "Add",
    "TaggedAddresses",
    "Target",
    "Volumes",
];

fn spelled(value: &Value, spell: fn(&str) -> String) -> Value {
    match value {
        Value::Array(all) => all.iter().map(|value| spelled(value, spell)).collect(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let inside = match (MAPS.contains(&key.as_str()), value) {
                    (true, Value::Object(map)) => map_of(map, spell),
                    _ => spelled(value, spell),
                };
                (spell(key), inside)
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// The values of a map may be structures, its keys never are fields; free values stay.
fn map_of(map: &Map<String, Value>, spell: fn(&str) -> String) -> Value {
    let is_volume = |value: &Value| value.get("AccessMode").is_some();
    let members = map.iter().map(|(key, value)| {
        let inside = match is_volume(value) {
            true => spelled(value, spell),
            false => value.clone(),
        };
        (key.clone(), inside)
    });
    Value::Object(members.collect())
}

#[test]
fn every_block_of_a_job_is_read_in_any_case() {
    let document: Value = serde_json::from_str(BLOCKS).expect("JSON");
    let exact: Job = serde_json::from_str(BLOCKS).expect("a job");
    let same = json::from_str::<Job>(BLOCKS).expect("a job");
    assert_eq!(same, exact);
    for spell in [str::to_ascii_lowercase, str::to_ascii_uppercase] {
        let text = spelled(&document, spell).to_string();
        let other: Job = json::from_str(&text).expect("a job");
        let (other, exact) = (serde_json::to_value(&other), serde_json::to_value(&exact));
        assert_eq!(other.expect("JSON"), exact.expect("JSON"));
    }
}
