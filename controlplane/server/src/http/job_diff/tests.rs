//! What is found to differ, and where.

use super::job as difference;
use super::*;

fn job(text: &str) -> Job {
    let mut job: Job = serde_json::from_str(text).expect("a job");
    job.canonicalize();
    job
}

const WEB: &str = r#"{"ID":"web","TaskGroups":[{"Name":"g","Count":1,"Tasks":[
    {"Name":"t","Driver":"exec","Config":{"command":"a","args":["x"]},"Env":{"A":"1"}}]}]}"#;

#[test]
fn equal_jobs_have_no_difference() {
    let mut old = job(WEB);
    old.version = 3;
    old.modify_index = 9;
    let diff = difference(Some(&old), &job(WEB));
    assert_eq!(diff.diff_type, DiffType::None);
    assert!(diff.fields.is_empty() && diff.objects.is_empty());
}

#[test]
fn changes_are_found_where_they_are() {
    let new = WEB
        .replace(r#""Count":1"#, r#""Count":3"#)
        .replace(r#"["x"]"#, r#"["y"]"#)
        .replace(r#"{"A":"1"}"#, r#"{"A":"2","B":"3"}"#);
    let diff = difference(Some(&job(WEB)), &job(&new));
    assert_eq!(diff.diff_type, DiffType::Edited);
    let group = &diff.task_groups[0];
    assert_eq!(
        (group.fields[0].name.as_str(), group.fields[0].new.as_str()),
        ("Count", "3")
    );
    let task = &group.tasks[0];
    let names: Vec<&str> = task
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["Env[A]", "Env[B]"]);
    assert_eq!(task.fields[1].diff_type, DiffType::Added);
    let config = &task.objects[0];
    assert_eq!(
        (config.name.as_str(), config.fields[0].name.as_str()),
        ("Config", "args[0]")
    );
    assert_eq!(
        (config.fields[0].old.as_str(), config.fields[0].new.as_str()),
        ("x", "y")
    );
}

#[test]
fn a_new_job_is_added_whole_and_lists_are_matched() {
    let new = job(WEB);
    let diff = difference(None, &new);
    assert_eq!(diff.diff_type, DiffType::Added);
    assert_eq!(diff.task_groups[0].tasks[0].diff_type, DiffType::Added);
    let mut more = job(WEB);
    more.datacenters.push("dc2".to_owned());
    more.task_groups.push(new.task_groups[0].clone());
    more.task_groups[1].name = "h".to_owned();
    let diff = difference(Some(&new), &more);
    assert_eq!(diff.objects[0].name, "Datacenters");
    let kinds: Vec<DiffType> = diff
        .task_groups
        .iter()
        .map(|group| group.diff_type)
        .collect();
    assert_eq!(kinds, [DiffType::None, DiffType::Added]);
}
