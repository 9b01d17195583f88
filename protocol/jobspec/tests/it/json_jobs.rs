//! Job files in JSON.

use crate::{complaints, job, read};

#[test]
fn both_forms_of_a_json_job_are_read() {
    let bare = r#" {"ID": "j", "Type": "batch", "TaskGroups": [{"Name": "g", "Count": 2}]}"#;
    let wrapped = format!("{{\"Job\": {bare}}}");
    assert_eq!(job(bare), job(&wrapped));
    assert_eq!(job(bare)["TaskGroups"][0]["Count"], 2);
}

#[test]
fn what_is_written_as_json_is_read_back_the_same() {
    let text = "job \"j\" {\n group \"g\" {\n update {\n max_parallel = 2\n}\n task \"t\" {\n driver = \"exec\"\n kill_timeout = \"3s\"\n template {\n data = \"x\"\n}\n}\n}\n}";
    let once = job(text);
    assert_eq!(job(&once.to_string()), once);
}

#[test]
fn a_type_error_is_located() {
    let text = "{\"Job\": {\n  \"ID\": \"j\",\n  \"Priority\": \"high\"\n}}";
    let problems = read(text).unwrap_err();
    assert_eq!(problems.list()[0].line, 3);
    assert!(
        problems.list()[0]
            .message
            .contains("invalid type: string \"high\""),
        "{problems}"
    );
}

#[test]
fn broken_json_is_located() {
    let problems = read("{\n \"ID\": \"j\",\n}").unwrap_err();
    assert_eq!(problems.list()[0].line, 3);
}

#[test]
fn json_that_is_no_job_is_refused() {
    assert!(complaints("{}").contains("this JSON is not a job"));
}

#[test]
fn an_unknown_key_is_worth_a_warning() {
    let text = r#"{"ID": "j", "Affinities": null, "TaskGroups": [{"Name": "g", "Cuont": 2}]}"#;
    let warnings = read(text).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].message, "`TaskGroups[0].Cuont` is not known");
}

#[test]
fn keys_match_in_any_case_and_are_not_warned_of() {
    let text = r#"{"job": {"id": "j", "type": "batch", "meta": {"Owner": "x"},
        "taskGROUPS": [{"name": "g", "count": 2, "cuont": 3}]}}"#;
    let parsed = read(text).unwrap();
    assert_eq!(parsed.job.id, "j");
    assert_eq!(parsed.job.task_groups[0].count, Some(2));
    assert_eq!(parsed.job.meta["Owner"], "x");
    let warnings: Vec<&str> = parsed
        .warnings
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(warnings, ["`taskGROUPS[0].cuont` is not known"]);
}

#[test]
fn a_type_error_below_a_key_in_another_case_is_located() {
    let text = "{\"job\": {\n  \"id\": \"j\",\n  \"priority\": \"high\"\n}}";
    let problems = read(text).unwrap_err();
    assert_eq!(
        (problems.list()[0].line, problems.list()[0].column),
        (3, 20)
    );
}
