//! The exit codes of `job plan`, and what `job run` and `job stop` end with.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{JOB, drover, stderr, stdout};

fn planned(status: u16, body: &Value) -> std::io::Result<(i32, String, String)> {
    let server = FakeServer::start(vec![Canned {
        request: "PUT /v1/job/web/plan",
        status,
        body: body.to_string(),
    }])?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), JOB)?;
    let arguments = [
        "-address",
        &server.address,
        "plan",
        "-var",
        "count=3",
        "web.hcl",
    ];
    let output = drover(folder.path(), &arguments);
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("\"Count\":3"), "{asked:?}");
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
    ))
}

fn updates(updates: &Value) -> Value {
    json!({
        "JobModifyIndex": 7, "FailedTGAllocs": null, "Warnings": "a warning",
        "Diff": { "Type": "None", "ID": "web" },
        "Annotations": { "DesiredTGUpdates": { "web": updates } },
    })
}

#[test]
fn a_plan_without_changes_ends_with_0() -> std::io::Result<()> {
    let (code, out, err) = planned(200, &updates(&json!({ "Ignore": 3, "InPlaceUpdate": 1 })))?;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Job Modify Index: 7"), "{out}");
    assert_eq!(err, "warning: a warning\n");
    Ok(())
}

#[test]
fn a_plan_with_changes_ends_with_1() -> std::io::Result<()> {
    for what in ["Place", "Stop", "DestructiveUpdate", "Migrate"] {
        let (code, out, err) = planned(200, &updates(&json!({ what: 1 })))?;
        assert_eq!(code, 1, "{what} {err}");
        assert!(
            out.contains("drover job run -check-index 7 web.hcl"),
            "{out}"
        );
    }
    Ok(())
}

#[test]
fn a_plan_that_fails_ends_with_255() -> std::io::Result<()> {
    let (code, out, err) = planned(500, &json!("No cluster leader"))?;
    assert_eq!((code, out.as_str()), (255, ""));
    assert!(err.contains("No cluster leader"), "{err}");
    let folder = tempfile::tempdir()?;
    let output = drover(folder.path(), &["job", "plan", "missing.hcl"]);
    assert_eq!(output.status.code(), Some(255));
    Ok(())
}

#[test]
fn plan_of_a_template_ends_with_1_only_where_the_template_changes() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let job = JOB.replace(
        "job \"web\" {",
        "job \"web\" {\n  type = \"batch\"\n  parameterized {}\n",
    );
    std::fs::write(folder.path().join("web.hcl"), job)?;
    for (diff, expected) in [("None", 0), ("Edited", 1)] {
        for flag in ["-diff=true", "-diff=false"] {
            let mut body = updates(&json!({ "Place": 3 }));
            body["Diff"]["Type"] = json!(diff);
            let server = FakeServer::start(vec![Canned {
                request: "PUT /v1/job/web/plan",
                status: 200,
                body: body.to_string(),
            }])?;
            let arguments = ["-address", &server.address, "plan", flag, "web.hcl"];
            let output = drover(folder.path(), &arguments);
            assert_eq!(
                output.status.code(),
                Some(expected),
                "{flag} {}",
                stderr(&output)
            );
        }
    }
    Ok(())
}

const EVAL: &str = "e8b7cf53-0000-4000-8000-000000000001";

fn run(failed: &Value) -> std::io::Result<(i32, String)> {
    run_with(failed, Vec::new())
}

/// The same where the server says other things first.
fn run_with(failed: &Value, mut answers: Vec<Canned>) -> std::io::Result<(i32, String)> {
    let eval = json!({
        "ID": EVAL, "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "job-register", "JobID": "web", "Status": "complete",
        "FailedTGAllocs": failed,
    });
    let canned = |request, body: Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    answers.extend([
        canned("PUT /v1/jobs", json!({ "EvalID": EVAL, "Warnings": "" })),
        canned(
            "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001",
            eval,
        ),
        canned(
            "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001/allocations",
            json!([]),
        ),
    ]);
    let server = FakeServer::start(answers)?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.hcl"), JOB)?;
    let arguments = [
        "run",
        "-address",
        &server.address,
        "-check-index",
        "7",
        "web.hcl",
    ];
    let output = drover(folder.path(), &arguments);
    let asked = server.asked();
    assert!(
        asked[0].contains("\"EnforceIndex\":true,\"JobModifyIndex\":7"),
        "{asked:?}"
    );
    Ok((output.status.code().unwrap_or(-1), stderr(&output)))
}

#[test]
fn a_job_that_is_placed_ends_with_0() -> std::io::Result<()> {
    let (code, err) = run(&Value::Null)?;
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("==> Monitoring evaluation \"e8b7cf53\""),
        "{err}"
    );
    Ok(())
}

#[test]
fn an_election_in_between_is_waited_for_and_told() -> std::io::Result<()> {
    let away = Canned {
        request: "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001",
        status: 500,
        body: "No cluster leader".to_owned(),
    };
    let (code, err) = run_with(&Value::Null, vec![away])?;
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("No cluster leader; asking again"), "{err}");
    Ok(())
}

#[test]
fn a_job_that_is_not_placed_ends_with_2() -> std::io::Result<()> {
    let failed = json!({ "web": { "NodesEvaluated": 1, "DimensionExhausted": { "memory": 1 } } });
    let (code, err) = run(&failed)?;
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("Dimension \"memory\" exhausted on 1 node"),
        "{err}"
    );
    Ok(())
}

#[test]
fn a_plan_that_is_asked_for_in_the_wrong_way_is_no_difference() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    for arguments in [
        &["job", "plan"][..],
        &["plan", "-nonsense", "x"],
        &["-address", "http://127.0.0.1:1", "job", "plan"],
    ] {
        let output = drover(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(255), "{}", stderr(&output));
    }
    let output = drover(folder.path(), &["job", "run"]);
    assert_eq!(output.status.code(), Some(1));
    let output = drover(folder.path(), &["job", "plan", "-h"]);
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}
