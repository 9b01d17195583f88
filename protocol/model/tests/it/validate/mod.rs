//! What is refused, with its place; and what is not.

mod groups;
mod placement;
mod policies;
mod tasks;

use protocol_model::validate::VALIDATION_ERRORS_MAX;
use protocol_model::{Job, ValidationErrors};
use serde_json::{Value, json};

use crate::fixtures::{canonical, sample, service};

fn errors(job: &Job) -> Vec<(String, String)> {
    match job.validate() {
        Ok(()) => Vec::new(),
        Err(ValidationErrors { errors, .. }) => errors
            .into_iter()
            .map(|error| (error.path, error.message))
            .collect(),
    }
}

/// Each case is refused for exactly one reason, at this place, in words that contain this text.
fn assert_refused(cases: Vec<(Job, &str, &str)>) {
    for (job, path, text) in cases {
        let errors = errors(&job);
        let [(found_path, message)] = &errors[..] else {
            panic!("wanted one error at {path:?} ({text:?}), got {errors:#?}");
        };
        assert_eq!(found_path, path, "{message}");
        assert!(message.contains(text), "{message:?} does not say {text:?}");
    }
}

fn of_job(fields: Value) -> Job {
    service(fields, json!({}), json!({}))
}

fn of_group(fields: Value) -> Job {
    service(json!({}), fields, json!({}))
}

fn of_task(fields: Value) -> Job {
    service(json!({}), json!({}), fields)
}

#[test]
fn a_plain_job_of_each_type_is_valid() {
    for kind in ["service", "batch", "system", "sysbatch"] {
        assert_eq!(of_job(json!({"Type": kind})).validate(), Ok(()), "{kind}");
    }
}

#[test]
fn ui_description_of_1000_bytes_is_valid() {
    let job = of_job(json!({"UI": {"Description": "x".repeat(1000)}}));
    assert_eq!(job.validate(), Ok(()));
}

#[test]
fn what_real_servers_accepted_is_valid() {
    for name in [
        "full-scaling",
        "single-check",
        "minimum-valid-scaling",
        "empty-policy",
    ] {
        let Some(golden) = sample(&format!("registered/{name}.json.golden")) else {
            return;
        };
        assert_eq!(
            canonical(golden["Job"].clone()).validate(),
            Ok(()),
            "{name}"
        );
    }
}

#[test]
fn all_mistakes_are_listed_at_once_with_their_places() {
    let job = canonical(json!({"ID": "a b", "Priority": 101, "TaskGroups": [
        {"Name": "x", "Tasks": [
            {"Name": "t", "Driver": "", "Resources": {"MemoryMB": 1}},
            {"Name": "t", "Driver": "exec", "Templates": [
                {"EmbeddedTmpl": "x", "DestPath": "../../x", "ChangeMode": "foo"}]}]},
        {"Name": "x", "Tasks": []}]}));
    let paths: Vec<_> = errors(&job).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [
            "id",
            "priority",
            "group \"x\" > task \"t\" > driver",
            "group \"x\" > task \"t\" > resources > memory",
            "group \"x\"",
            "group \"x\" > task \"t\" > template 1 > destination",
            "group \"x\" > task \"t\" > template 1 > change_mode",
            "",
            "group \"x\"",
        ]
    );
    let text = job
        .validate()
        .expect_err("it is full of mistakes")
        .to_string();
    assert!(text.starts_with("9 errors in the job:\n  * id: "), "{text}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn jobs_are_refused_for() {
    let task = json!({"Name": "t", "Driver": "exec"});
    let groups: Vec<_> = (0..1001)
        .map(|n| json!({"Name": n.to_string(), "Tasks": [task]}))
        .collect();
    let group = |name: &str| json!({"Name": name, "Tasks": [task]});
    assert_refused(vec![
        (of_job(json!({"ID": ""})), "id", "missing"),
        (
            of_job(json!({"ID": "x".repeat(129), "Name": "x"})),
            "id",
            "longer than 128",
        ),
        (
            of_job(json!({"Name": "a\u{0}b"})),
            "name",
            "control character",
        ),
        (
            of_job(json!({"Namespace": "a b"})),
            "namespace",
            "no name for a namespace",
        ),
        (
            of_job(json!({"UI": {"Description": "x".repeat(1001)}})),
            "ui > description",
            "has 1001 bytes, at most 1000",
        ),
        (
            of_job(json!({"UI": {"Description": "\u{e4}".repeat(501)}})),
            "ui > description",
            "has 1002 bytes",
        ),
        (
            of_job(json!({"Priority": -1})),
            "priority",
            "1 to 100, is -1",
        ),
        (
            of_job(json!({"Datacenters": ["a", ""]})),
            "datacenters",
            "empty",
        ),
        (of_job(json!({"TaskGroups": []})), "", "no group"),
        (
            of_job(json!({"TaskGroups": [group("a"), group("a")]})),
            "",
            "two groups",
        ),
        (
            of_job(json!({"TaskGroups": [group("")]})),
            "",
            "group number 1 has no name",
        ),
        (of_job(json!({"TaskGroups": groups})), "", "1001 groups"),
        (
            of_job(json!({"Periodic": {"Spec": "@daily"}})),
            "periodic",
            "batch and sysbatch",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {"Spec": "*/5 * * *"}})),
            "periodic > cron",
            "4 fields",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {"Spec": "* * * * * * * *"}})),
            "periodic > cron",
            "8 fields",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {"Specs": ["@daily", "61 * * * *"]}})),
            "periodic > crons",
            "minute \"61\"",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic":
                {"Spec": "@daily", "TimeZone": "Mars/Olympus"}})),
            "periodic > time_zone",
            "no known time zone",
        ),
        (
            of_job(json!({"Type": "batch", "Periodic": {}})),
            "periodic > cron",
            "missing",
        ),
        (
            of_job(json!({"ParameterizedJob": {}})),
            "parameterized",
            "batch and sysbatch",
        ),
        (
            of_job(json!({"Type": "batch", "ParameterizedJob": {"Payload": "maybe"}})),
            "parameterized > payload",
            "maybe",
        ),
        (
            of_job(json!({"Type": "batch", "ParameterizedJob":
                {"MetaRequired": ["a"], "MetaOptional": ["a"]}})),
            "parameterized",
            "both",
        ),
        (
            of_job(json!({"Type": "system", "Affinities": [{"LTarget": "a", "RTarget": "b"}]})),
            "affinity",
            "every node",
        ),
    ]);
}

#[test]
fn the_list_of_mistakes_is_bounded() {
    let tasks: Vec<_> = (0..200)
        .map(|n| json!({"Name": n.to_string(), "Driver": ""}))
        .collect();
    let group = |name: &str| json!({"Name": name, "Tasks": tasks});
    let job = canonical(json!({"ID": "x", "TaskGroups": [group("a"), group("b")]}));
    let found = job.validate().expect_err("no task has a driver");
    assert_eq!(
        (found.errors.len(), found.omitted),
        (VALIDATION_ERRORS_MAX, 144)
    );
    assert!(found.to_string().ends_with("and 144 more"));
}

#[test]
fn a_job_that_was_never_canonical_is_validated_without_panic() {
    let found = Job::default().validate().expect_err("it is empty");
    assert!(found.errors.iter().any(|error| error.path == "id"));
}
