//! Job files that others wrote, with what their own parser or server made of them.

#![expect(
    clippy::disallowed_methods,
    reason = "the corpus is files beside the repository"
)]

use crate::inputs;
use protocol_jobspec::{Parsed, parse};
use serde_json::{Map, Value as Json};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder beside the repository; absent on machines that have only the repository.
fn corpus(folder: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/jobspecs");
    let path = root.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    #[expect(clippy::print_stdout, reason = "a test says what it did not check")]
    {
        println!("skipped: needs {}", path.display());
    }
    None
}

fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extensions.iter().any(|known| extension == *known))
    });
    paths.sort();
    paths
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).expect("a readable file")
}

fn parsed(path: &Path) -> Parsed {
    let name = path.file_name().expect("a name").to_string_lossy();
    match parse(&name, &text_of(path), &mut inputs()) {
        Ok(parsed) => parsed,
        Err(problems) => panic!("{problems}"),
    }
}

/// Null, zero and empty are the same as absent.
fn is_zero(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Bool(flag) => !flag,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        Json::Object(entries) => entries.values().all(is_zero),
    }
}

/// Every difference, absent and zero being equal.
fn differences(path: &str, wanted: &Json, found: &Json, out: &mut Vec<String>) {
    match (wanted, found) {
        (Json::Object(wanted), Json::Object(found)) => {
            let null = Json::Null;
            let mut keys: Vec<&String> = wanted.keys().chain(found.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (a, b) = (
                    wanted.get(key).unwrap_or(&null),
                    found.get(key).unwrap_or(&null),
                );
                differences(&format!("{path}.{key}"), a, b, out);
            }
        }
        (Json::Array(wanted), Json::Array(found)) if wanted.len() == found.len() => {
            for (position, (a, b)) in wanted.iter().zip(found).enumerate() {
                differences(&format!("{path}[{position}]"), a, b, out);
            }
        }
        (Json::Number(a), Json::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b || is_zero(a) && is_zero(b) => {}
        (a, b) => out.push(format!("{path}: wanted {a}, found {b}")),
    }
}

#[test]
fn every_parser_fixture_gives_the_expected_job_or_is_refused() {
    let Some(folder) = corpus("parser") else {
        return;
    };
    let cases: Vec<Json> =
        serde_json::from_str(&text_of(&folder.join("expected.json"))).expect("a list of cases");
    assert!(cases.len() >= 9, "the list has {} cases", cases.len());
    for case in cases {
        let file = case["file"].as_str().expect("a file name");
        let path = folder.join(file);
        if case["error"] == Json::Bool(true) {
            let problems = parse(file, &text_of(&path), &mut inputs());
            assert!(
                problems.is_err_and(|problems| !problems.is_empty()),
                "{file} was accepted"
            );
            continue;
        }
        let mut job = parsed(&path).written();
        assert_eq!(job["Type"].is_null(), is_zero(&case["expect"]["Type"]));
        as_older_parsers_wrote_templates(&mut job);
        let mut found = Vec::new();
        differences("", &case["expect"], &job, &mut found);
        assert!(found.is_empty(), "{file}:\n{}", found.join("\n"));
    }
}

/// The list is of a release whose parser wrote -1 for a template without an owner.
fn as_older_parsers_wrote_templates(job: &mut Json) {
    let Some(groups) = job["TaskGroups"].as_array_mut() else {
        return;
    };
    let tasks = groups
        .iter_mut()
        .filter_map(|it| it["Tasks"].as_array_mut());
    let templates = tasks
        .flatten()
        .filter_map(|it| it["Templates"].as_array_mut());
    for template in templates.flatten() {
        for key in ["Uid", "Gid"] {
            if template[key].is_null() {
                template[key] = Json::from(-1);
            }
        }
    }
}

#[test]
fn ports_without_a_name_are_refused() {
    let Some(folder) = corpus("parser") else {
        return;
    };
    let text = text_of(&folder.join("bad-ports.hcl"));
    let problems = parse("bad-ports.hcl", &text, &mut inputs()).expect_err("a nameless port");
    assert_eq!(problems.list().len(), 1, "{problems}");
    assert_eq!(problems.list()[0].line, 70);
}

#[test]
fn every_real_job_file_is_parsed() {
    let Some(folder) = corpus("real") else { return };
    let paths = files(&folder, &["nomad", "hcl"]);
    assert!(paths.len() >= 12, "{} files", paths.len());
    for path in paths {
        assert!(!parsed(&path).job.task_groups.is_empty());
    }
}

#[test]
fn undefined_names_of_a_real_job_stay_as_written() {
    let Some(folder) = corpus("real") else { return };
    let file = "mr-karan--hydra--terraform_modules_restic_conf_restic.nomad";
    let job = parsed(&folder.join(file)).written();
    let task = &job["TaskGroups"][0]["Tasks"][0];
    assert_eq!(
        task["Config"]["command"],
        "${NOMAD_TASK_DIR}/restic_backup.sh"
    );
    assert_eq!(task["Env"]["B2_ACCOUNT_ID"], "${restic_b2_account_id}");
    let script = task["Templates"][0]["EmbeddedTmpl"]
        .as_str()
        .expect("a script");
    assert!(
        script.contains("export RESTIC_PASSWORD=\"${restic_password}\"\n"),
        "{script}"
    );
    assert!(script.contains("$RESTIC_REPOSITORY\"\n"), "{script}");
}

/// What a server adds when it stores a job.
const VOLATILE: [&str; 7] = [
    "CreateIndex",
    "ModifyIndex",
    "JobModifyIndex",
    "SubmitTime",
    "Status",
    "StatusDescription",
    "Stable",
];

fn without_volatile(job: &Json) -> Json {
    match job {
        Json::Object(entries) => {
            let kept = entries
                .iter()
                .filter(|(key, _)| !VOLATILE.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), without_volatile(value)))
                .collect()
        }
        Json::Array(elements) => elements.iter().map(without_volatile).collect(),
        other => other.clone(),
    }
}

/// Like [`differences`], but null, `[]`, `""` and absent are different things.
fn strict_differences(path: &str, wanted: &Json, found: &Json, out: &mut Vec<String>) {
    let empty = Map::new();
    match (wanted, found) {
        (Json::Object(wanted), Json::Object(found)) if *wanted != empty => {
            let mut keys: Vec<&String> = wanted.keys().chain(found.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}.{key}");
                match (wanted.get(key), found.get(key)) {
                    (Some(a), Some(b)) => strict_differences(&path, a, b, out),
                    (a, b) => out.push(format!("{path}: wanted {a:?}, found {b:?}")),
                }
            }
        }
        (Json::Array(wanted), Json::Array(found)) if wanted.len() == found.len() => {
            for (position, (a, b)) in wanted.iter().zip(found).enumerate() {
                strict_differences(&format!("{path}[{position}]"), a, b, out);
            }
        }
        (Json::Number(a), Json::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: wanted {a}, found {b}")),
    }
}

#[test]
fn registered_jobs_look_as_a_real_server_stored_them() {
    let Some(folder) = corpus("registered") else {
        return;
    };
    let paths = files(&folder, &["hcl"]);
    assert_eq!(paths.len(), 4);
    for path in paths {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let mut job = parse(&name, &text_of(&path), &mut inputs())
            .expect("a job that was accepted")
            .job;
        job.canonicalize();
        let found = without_volatile(&serde_json::to_value(job).expect("a job is JSON"));
        let golden: Json = serde_json::from_str(&text_of(&path.with_extension("json.golden")))
            .expect("the stored answer is JSON");
        let mut wanted = without_volatile(&golden["Job"]);
        // The server gives the scaling policy an id; the sample has a placeholder for it.
        for group in wanted["TaskGroups"].as_array_mut().expect("groups") {
            if let Some(scaling) = group["Scaling"].as_object_mut() {
                scaling.insert("ID".to_owned(), Json::from(""));
            }
        }
        let mut list = Vec::new();
        strict_differences("", &wanted, &found, &mut list);
        assert!(list.is_empty(), "{name}:\n{}", list.join("\n"));
    }
}

#[test]
fn a_job_as_written_says_the_same_with_fewer_values() {
    for folder in ["real", "registered"].into_iter().filter_map(corpus) {
        for path in files(&folder, &["hcl", "nomad"]) {
            let name = path.display().to_string();
            let Ok(parsed) = parse(&name, &text_of(&path), &mut inputs()) else {
                continue;
            };
            let written = parsed.written();
            for key in ["Status", "Stop", "Version", "SubmitTime", "CreateIndex"] {
                assert_eq!(written[key], Json::Null, "{name}: {key}");
            }
            let again: protocol_model::Job =
                serde_json::from_value(written).expect("a job with nulls is a job");
            assert_eq!(again, parsed.job, "{name}");
        }
    }
}
