//! Answers of real servers, field by field, where the samples are at hand.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::World;

/// What differs from one registration to the next, or is another program's choice.
const VOLATILE: [&str; 8] = [
    "CreateIndex",
    "ModifyIndex",
    "JobModifyIndex",
    "SubmitTime",
    "Status",
    "Version",
    "Stable",
    "ID",
];

fn samples() -> Option<Vec<PathBuf>> {
    let directory =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/jobspecs/registered");
    let Ok(entries) = std::fs::read_dir(&directory) else {
        eprintln!("skipped: the samples are not at hand");
        return None;
    };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "hcl"))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "the samples are gone");
    Some(found)
}

/// Everything that `part` says is in `whole`.
fn missing(part: &Value, whole: &Value, path: &str, out: &mut Vec<String>) {
    match (part, whole) {
        (Value::Object(part), Value::Object(_)) => {
            for (key, value) in part
                .iter()
                .filter(|(key, _)| !VOLATILE.contains(&key.as_str()))
            {
                missing(value, &whole[key], &format!("{path}.{key}"), out);
            }
        }
        (Value::Array(part), Value::Array(items)) if part.len() == items.len() => {
            for (place, (part, item)) in part.iter().zip(items).enumerate() {
                missing(part, item, &format!("{path}[{place}]"), out);
            }
        }
        _ if part == whole => {}
        // A number is the same number with and without a fraction of zero.
        (Value::Number(_), Value::Number(_)) if part.as_f64() == whole.as_f64() => {}
        _ => out.push(format!("{path}: {part} became {whole}")),
    }
}

#[tokio::test]
async fn registered_jobs_are_answered_as_other_servers_answer_them() {
    let Some(samples) = samples() else { return };
    let world = World::start().await;
    let mut differences = Vec::new();
    for path in samples {
        let hcl = std::fs::read_to_string(&path).expect("a sample");
        let golden = std::fs::read_to_string(path.with_extension("json.golden")).expect("golden");
        let golden: Value = serde_json::from_str(&golden).expect("JSON");
        let job = world
            .put("/v1/jobs/parse", json!({ "JobHCL": hcl }))
            .await
            .expect("parsed");
        world
            .put("/v1/jobs", json!({ "Job": job }))
            .await
            .expect("registered");
        let id = golden["Job"]["ID"].as_str().expect("an id");
        let answered = world.get(&format!("/v1/job/{id}")).await.expect("the job");
        missing(&golden["Job"], &answered, id, &mut differences);
    }
    assert_eq!(differences, Vec::<String>::new());
}
