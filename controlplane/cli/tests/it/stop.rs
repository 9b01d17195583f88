//! `job stop` of several jobs.

use serde_json::json;

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn list(ids: &[&str]) -> String {
    let job = |id: &&str| json!({ "ID": id, "Namespace": "default" });
    json!(ids.iter().map(job).collect::<Vec<_>>()).to_string()
}

fn canned(request: &'static str, status: u16, body: String) -> Canned {
    Canned {
        request,
        status,
        body,
    }
}

fn stop(
    jobs: &[&str],
    answers: Vec<Canned>,
) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let server = FakeServer::start(answers)?;
    let folder = tempfile::tempdir()?;
    let arguments = [
        &["job", "stop", "-detach", "-address", &server.address],
        jobs,
    ]
    .concat();
    let output = drover(folder.path(), &arguments);
    let deleted = server.asked();
    let deleted = deleted.iter().filter(|line| line.starts_with("DELETE"));
    let path = |line: &String| line.split('?').next().unwrap_or_default().to_owned();
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
        deleted.map(path).collect(),
    ))
}

#[test]
fn a_name_that_is_wrong_stops_none_of_them() -> std::io::Result<()> {
    let answers = vec![
        canned("GET /v1/jobs", 200, list(&["one"])),
        canned("GET /v1/jobs", 200, list(&[])),
        canned("GET /v1/jobs", 200, list(&["three-a", "three-b"])),
        canned(
            "DELETE /v1/job/one",
            200,
            json!({ "EvalID": "e1" }).to_string(),
        ),
    ];
    let (code, out, err, deleted) = stop(&["one", "two", "three"], answers)?;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("begins with: two"), "{err}");
    assert!(err.contains("several jobs begin with three"), "{err}");
    assert_eq!(deleted, Vec::<String>::new());
    Ok(())
}

#[test]
fn one_that_is_refused_keeps_none_of_the_others() -> std::io::Result<()> {
    let answers = vec![
        canned("GET /v1/jobs", 200, list(&["one"])),
        canned("GET /v1/jobs", 200, list(&["two"])),
        canned("GET /v1/jobs", 200, list(&["three"])),
        canned(
            "DELETE /v1/job/one",
            200,
            json!({ "EvalID": "e1" }).to_string(),
        ),
        canned("DELETE /v1/job/two", 500, "the disk is full".to_owned()),
        canned(
            "DELETE /v1/job/three",
            200,
            json!({ "EvalID": "e3" }).to_string(),
        ),
    ];
    let (code, out, err, deleted) = stop(&["one", "two", "three"], answers)?;
    assert_eq!((code, out.as_str()), (1, "e1\ne3\n"));
    assert!(err.contains("the disk is full"), "{err}");
    assert_eq!(deleted.len(), 3, "{deleted:?}");
    Ok(())
}

#[test]
fn a_job_that_is_named_twice_is_stopped_once() -> std::io::Result<()> {
    let answers = vec![
        canned("GET /v1/jobs", 200, list(&["one"])),
        canned(
            "DELETE /v1/job/one",
            200,
            json!({ "EvalID": "e1" }).to_string(),
        ),
    ];
    let (code, out, _, deleted) = stop(&["one", "one"], answers)?;
    assert_eq!((code, out.as_str()), (0, "e1\n"));
    assert_eq!(deleted, ["DELETE /v1/job/one"]);
    Ok(())
}
