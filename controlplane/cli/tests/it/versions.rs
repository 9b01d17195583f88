//! Earlier versions of a job, counts, restarts.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const ALLOC: &str = "11111111-2222-3333-4444-555555555555";

fn canned(request: &'static str, status: u16, body: &Value) -> Canned {
    Canned {
        request,
        status,
        body: body.to_string(),
    }
}

/// The exit code, stdout, stderr, and the writes that were asked for, of a command about `web`.
fn run(
    arguments: &[&str],
    mut answers: Vec<Canned>,
) -> std::io::Result<(i32, String, String, Vec<String>)> {
    let list = json!([{ "ID": "web", "Namespace": "default" }]);
    answers.push(canned("GET /v1/jobs", 200, &list));
    let server = FakeServer::start(answers)?;
    let folder = tempfile::tempdir()?;
    let arguments = [arguments, &["-address", &server.address]].concat();
    let output = drover(folder.path(), &arguments);
    let writes = server
        .asked()
        .into_iter()
        .filter(|it| !it.starts_with("GET"));
    Ok((
        output.status.code().unwrap_or(-1),
        stdout(&output),
        stderr(&output),
        writes.collect(),
    ))
}

fn body(request: &str) -> Value {
    let text = request.split_once('\n').map_or("", |(_, body)| body);
    serde_json::from_str(text).expect("a body")
}

fn versions() -> Canned {
    let tag = json!({ "Name": "golden", "Description": "good" });
    let list = json!([
        { "ID": "web", "Version": 2, "Stop": true },
        { "ID": "web", "Version": 1 },
        { "ID": "web", "Version": 0, "VersionTag": tag },
    ]);
    canned(
        "GET /v1/job/web/versions",
        200,
        &json!({ "Versions": list }),
    )
}

#[test]
fn a_revert_takes_a_number_or_a_tag() -> std::io::Result<()> {
    for (version, number) in [("1", 1), ("golden", 0)] {
        let reverted = json!({ "EvalID": ALLOC });
        let answers = vec![versions(), canned("PUT /v1/job/web/revert", 200, &reverted)];
        let (code, out, err, writes) = run(&["job", "revert", "-detach", "web", version], answers)?;
        assert_eq!(
            (code, out.trim()),
            (0, &*format!("Evaluation ID: {ALLOC}")),
            "{err}"
        );
        assert_eq!(body(&writes[0])["JobVersion"], number);
    }
    let (code, _, err, writes) = run(&["job", "revert", "web", "silver"], vec![versions()])?;
    assert_eq!((code, writes.len()), (1, 0));
    assert!(
        err.contains("tag \"silver\" not found on job \"web\""),
        "{err}"
    );
    Ok(())
}

#[test]
fn a_start_goes_back_to_the_newest_version_that_ran() -> std::io::Result<()> {
    let stopped = json!({ "ID": "web", "Version": 2, "Stop": true });
    let answers = vec![
        versions(),
        canned("GET /v1/job/web", 200, &stopped),
        canned("PUT /v1/job/web/revert", 200, &json!({})),
    ];
    let (code, _, err, writes) = run(&["job", "start", "web"], answers)?;
    assert_eq!(code, 0, "{err}");
    let body = body(&writes[0]);
    assert_eq!(
        (&body["JobVersion"], &body["EnforcePriorVersion"]),
        (&json!(1), &json!(2))
    );
    let answers = vec![canned("GET /v1/job/web", 200, &json!({ "ID": "web" }))];
    let (code, _, err, writes) = run(&["job", "start", "web"], answers)?;
    assert_eq!((code, writes.len()), (1, 0));
    assert!(err.contains("has not been stopped"), "{err}");
    Ok(())
}

#[test]
fn a_tag_is_applied_to_the_newest_version_and_unset() -> std::io::Result<()> {
    let tag = json!({ "Name": "t" });
    let answers = vec![
        versions(),
        canned("PUT /v1/job/web/versions/t/tag", 200, &tag),
    ];
    let (code, out, err, writes) = run(&["job", "tag", "apply", "-name", "t", "web"], answers)?;
    let tagged = "Job version 2 tagged with name \"t\"\n";
    assert_eq!((code, out.as_str()), (0, tagged), "{err}");
    assert_eq!(body(&writes[0])["Version"], 2);
    let answers = vec![canned("DELETE /v1/job/web/versions/t/tag", 200, &tag)];
    let (code, out, err, _) = run(&["job", "tag", "unset", "-name=t", "web"], answers)?;
    assert_eq!(
        (code, out.as_str()),
        (0, "Tag \"t\" removed from job \"web\"\n"),
        "{err}"
    );
    Ok(())
}

#[test]
fn a_scale_needs_no_group_where_there_is_one() -> std::io::Result<()> {
    let job = |groups: Value| {
        canned(
            "GET /v1/job/web",
            200,
            &json!({ "ID": "web", "TaskGroups": groups }),
        )
    };
    let scaled = || canned("PUT /v1/job/web/scale", 200, &json!({}));
    let one = json!([{ "Name": "a" }]);
    let (code, _, err, writes) = run(&["job", "scale", "web", "5"], vec![job(one), scaled()])?;
    assert_eq!(code, 0, "{err}");
    let sent = body(&writes[0]);
    assert_eq!(
        (&sent["Count"], &sent["Target"]["Group"]),
        (&json!(5), &json!("a"))
    );
    let (_, _, _, writes) = run(&["job", "scale", "web", "b", "3"], vec![scaled()])?;
    assert_eq!(body(&writes[0])["Target"]["Group"], "b");
    let two = json!([{ "Name": "a" }, { "Name": "b" }]);
    let (code, _, err, writes) = run(&["job", "scale", "web", "5"], vec![job(two)])?;
    assert_eq!((code, writes.len()), (1, 0));
    assert!(err.contains("several groups"), "{err}");
    Ok(())
}

#[test]
fn scaling_events_are_listed_the_newest_first() -> std::io::Result<()> {
    let events = json!([
        { "Count": 3, "PreviousCount": 2, "CreateIndex": 9, "Time": 0 },
        { "PreviousCount": 2, "CreateIndex": 7, "Error": true, "Message": "no metrics", "Time": 0 },
    ]);
    let scale = json!({ "JobID": "web", "TaskGroups": { "a": { "Events": events } } });
    let answers = vec![canned("GET /v1/job/web/scale", 200, &scale)];
    let (code, out, err, _) = run(&["job", "scaling-events", "web"], answers)?;
    assert_eq!(code, 0, "{err}");
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(rows[1], ["a", "3", "2"]);
    assert_eq!(rows[2], ["a", "<none>", "2"]);
    Ok(())
}

#[test]
fn a_restart_ends_at_the_first_error_where_that_is_asked_for() -> std::io::Result<()> {
    let alloc = |number: u8, status: &str| {
        let tasks = json!({ "main": { "State": "running" } });
        let mut alloc =
            serde_json::to_value(protocol_model::AllocationListStub::default()).expect("JSON");
        alloc["ID"] = json!(format!("{number}1111111-2222-3333-4444-555555555555"));
        alloc["Name"] = json!(format!("web.a[{number}]"));
        alloc["TaskGroup"] = json!("a");
        alloc["ClientStatus"] = json!(status);
        alloc["DesiredStatus"] = json!("run");
        alloc["TaskStates"] = tasks;
        alloc
    };
    let allocs = json!([
        alloc(1, "running"),
        alloc(2, "complete"),
        alloc(3, "running")
    ]);
    let answers = |status| {
        let group = json!([{ "Name": "a", "Tasks": [{ "Name": "main" }] }]);
        vec![
            canned(
                "GET /v1/job/web",
                200,
                &json!({ "ID": "web", "TaskGroups": group }),
            ),
            canned("GET /v1/job/web/allocations", 200, &allocs),
            canned(
                "PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/restart",
                status,
                &json!({}),
            ),
            canned(
                "PUT /v1/client/allocation/31111111-2222-3333-4444-555555555555/restart",
                200,
                &json!({}),
            ),
        ]
    };
    let arguments = ["job", "restart", "-on-error=fail", "-task", "main", "web"];
    let (code, out, err, writes) = run(&arguments, answers(200))?;
    assert_eq!((code, writes.len()), (0, 2), "{err}");
    assert!(out.contains("Restarting 2 allocations"), "{out}");
    assert!(out.ends_with("Job restarted successfully!\n"), "{out}");
    let (code, _, _, writes) = run(&arguments, answers(500))?;
    assert_eq!((code, writes.len()), (1, 1));
    let (code, _, err, writes) = run(&["job", "restart", "-group=x", "web"], answers(200))?;
    assert_eq!((code, writes.len()), (1, 0));
    assert!(err.contains("group \"x\" not found"), "{err}");
    Ok(())
}
