//! The JSON shapes: names, durations, null.

use protocol_model::Job;
use serde_json::{Value, json};

use crate::fixtures::{job, sample, service};

/// Whether all of `part` is in `whole`; null and the empty list are the same, as is an absent key.
fn missing(part: &Value, whole: &Value, path: &str, out: &mut Vec<String>) {
    match (part, whole) {
        (Value::Null, Value::Null) => {}
        (Value::Object(part), Value::Object(_)) => {
            for (key, value) in part {
                missing(value, &whole[key], &format!("{path}.{key}"), out);
            }
        }
        (Value::Array(part), Value::Array(items)) if part.len() == items.len() => {
            for (offset, (part, item)) in part.iter().zip(items).enumerate() {
                missing(part, item, &format!("{path}[{offset}]"), out);
            }
        }
        _ if part == whole => {}
        _ => out.push(format!("{path}: {part} became {whole}")),
    }
}

#[test]
fn nothing_that_a_parser_yields_is_lost() {
    let Some(expected) = sample("parser/expected.json") else {
        return;
    };
    let mut lost = Vec::new();
    for entry in expected.as_array().expect("a list") {
        if entry["expect"].is_null() {
            continue;
        }
        let written = serde_json::to_value(job(entry["expect"].clone())).expect("a job is JSON");
        missing(
            &entry["expect"],
            &written,
            entry["file"].as_str().unwrap_or("?"),
            &mut lost,
        );
    }
    assert_eq!(lost, Vec::<String>::new());
}

/// Nomad's own client sends both names at once, one of them null.
#[test]
fn what_is_exposed_is_read_by_either_of_its_names() {
    let path = json!([{"Path": "/health", "ListenerPort": "http"}]);
    let pairs = [
        json!({"Expose": {"Paths": path, "Path": null}, "ExposeConfig": null}),
        json!({"Expose": null, "ExposeConfig": {"Paths": null, "Path": path}}),
    ];
    for proxy in pairs {
        let connect = json!({"SidecarService": {"Proxy": proxy}});
        let services = json!({"Services": [{"Connect": connect}]});
        let job = service(json!({}), services, json!({}));
        let written = serde_json::to_value(&job).expect("a job is JSON");
        let proxy = &written["TaskGroups"][0]["Services"][0]["Connect"]["SidecarService"]["Proxy"];
        assert_eq!(proxy["Expose"]["Paths"][0]["Path"], "/health");
        assert_eq!(proxy["ExposeConfig"], Value::Null, "one name is answered");
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let read = job(json!({"ID": "example", "NotOfThisRelease": {"a": [1, 2]}}));
    assert_eq!(
        read,
        Job {
            id: "example".to_owned(),
            ..Job::default()
        }
    );
}

#[test]
fn durations_come_as_texts_or_nanoseconds_and_go_as_nanoseconds() {
    let job = service(json!({}), json!({}), json!({"KillTimeout": "1m30s"}));
    let written = serde_json::to_value(&job).expect("a job is JSON");
    let timeout = &written["TaskGroups"][0]["Tasks"][0]["KillTimeout"];
    assert_eq!(timeout, &json!(90_000_000_000_u64));
}

#[test]
fn a_wrong_shape_is_refused_with_the_offending_value() {
    let cases = [
        (json!({"Type": "cron"}), "cron"),
        (json!({"TaskGroups": [{"Count": -1}]}), "-1"),
        (json!({"TaskGroups": [{"ShutdownDelay": "-3s"}]}), "-3s"),
        (json!({"TaskGroups": [{"ShutdownDelay": "soon"}]}), "soon"),
        (json!({"TaskGroups": "web"}), "web"),
    ];
    for (wrong, offending) in cases {
        let refused = serde_json::from_value::<Job>(wrong)
            .expect_err("wrong")
            .to_string();
        assert!(refused.contains(offending), "{refused}");
    }
}
