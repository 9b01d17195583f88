//! `job dispatch`, and `job status` of a parameterized job.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

fn canned(request: &'static str, status: u16, body: &Value) -> Canned {
    Canned {
        request,
        status,
        body: body.to_string(),
    }
}

fn template() -> Value {
    json!({
        "ID": "work", "Name": "work", "Namespace": "default", "Type": "batch", "Status": "running",
        "ParameterizedJob": { "Payload": "optional", "MetaRequired": ["a", "b"] },
    })
}

#[test]
fn a_dispatch_sends_payload_meta_prefix_and_token() -> std::io::Result<()> {
    let answer = json!({
        "DispatchedJobID": "work/dispatch-n-1-abcdef01",
        "EvalID": "11111111-2222-3333-4444-555555555555",
    });
    let server = FakeServer::start(vec![
        canned(
            "GET /v1/jobs",
            200,
            &json!([{ "ID": "work", "Namespace": "default" }]),
        ),
        canned("PUT /v1/job/work/dispatch", 200, &answer),
    ])?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("input"), "hi\n")?;
    let output = drover(
        folder.path(),
        &[
            "job",
            "dispatch",
            "-address",
            &server.address,
            "-meta",
            "k=v=w",
            "-meta=x=",
            "-detach",
            "-id-prefix-template",
            "n",
            "-idempotency-token=t",
            "work",
            "input",
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = "Dispatched Job ID = work/dispatch-n-1-abcdef01\nEvaluation ID     = 11111111\n";
    assert_eq!(stdout(&output), shown);
    let asked = server.asked();
    let dispatch = asked
        .iter()
        .find(|it| it.starts_with("PUT"))
        .expect("asked");
    let (head, body) = dispatch.split_once('\n').expect("a body");
    assert!(head.contains("idempotency_token=t"), "{head}");
    let body: Value = serde_json::from_str(body)?;
    assert_eq!(body["Payload"], "aGkK");
    assert_eq!(body["Meta"], json!({ "k": "v=w", "x": "" }));
    assert_eq!(body["IdPrefixTemplate"], "n");
    Ok(())
}

#[test]
fn a_dispatch_that_cannot_be_sent_ends_with_1() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("large"), vec![0; 20_000])?;
    for (arguments, text) in [
        (["-meta=k", "work"], "is not KEY=VALUE"),
        (["work", "large"], "larger than 16384 bytes"),
        (["work", "missing"], "cannot read missing"),
    ] {
        let output = drover(
            folder.path(),
            &[&["job", "dispatch"], &arguments[..]].concat(),
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
    Ok(())
}

#[test]
fn the_status_of_a_parameterized_job_lists_what_was_dispatched() -> std::io::Result<()> {
    let child = json!({ "ID": "work/dispatch-1-a", "ParentID": "work", "Status": "dead" });
    let other = json!({ "ID": "work/dispatch-1-b", "ParentID": "", "Status": "dead" });
    let server = FakeServer::start(vec![
        canned(
            "GET /v1/jobs",
            200,
            &json!([{ "ID": "work", "Namespace": "default" }]),
        ),
        canned("GET /v1/jobs", 200, &json!([child, other])),
        canned("GET /v1/job/work", 200, &template()),
        canned(
            "GET /v1/job/work/summary",
            200,
            &json!({ "Children": { "Dead": 1 } }),
        ),
    ])?;
    let folder = tempfile::tempdir()?;
    let arguments = ["job", "status", "-address", &server.address, "work"];
    let output = drover(folder.path(), &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stdout(&output);
    let expected = "\
Parameterized Job
Payload           = optional
Required Metadata = a, b
Optional Metadata = <none>

Parameterized Job Summary
Pending  Running  Dead
0        0        1

Dispatched Jobs
ID                 Status
work/dispatch-1-a  dead
";
    assert!(shown.ends_with(expected), "{shown}");
    Ok(())
}
