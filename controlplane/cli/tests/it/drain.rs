//! `node drain`: the requests that its flags make, and the lines of its monitor.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr, stdout};

const NODE: &str = "517fc88c-0000-4000-8000-000000000001";
const ALLOC: &str = "0b8c5e1a-0000-4000-8000-000000000002";
const DRAIN: &str = "PUT /v1/node/517fc88c-0000-4000-8000-000000000001/drain";
const READ: &str = "GET /v1/node/517fc88c-0000-4000-8000-000000000001";
const ALLOCS: &str = "GET /v1/node/517fc88c-0000-4000-8000-000000000001/allocations";

fn canned(request: &'static str, body: &Value) -> Canned {
    Canned {
        request,
        status: 200,
        body: body.to_string(),
    }
}

fn changed() -> Canned {
    let body = json!({ "EvalIDs": null, "EvalCreateIndex": 0, "NodeModifyIndex": 7, "Index": 7 });
    canned(DRAIN, &body)
}

fn run(flags: &[&str], answers: Vec<Canned>) -> (Option<i32>, String, String, Vec<String>) {
    let server = FakeServer::start(answers).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [&["node", "drain"], flags, &["-address", &server.address]].concat();
    let output = drover(folder.path(), &arguments);
    let code = output.status.code();
    (code, stdout(&output), stderr(&output), server.asked())
}

/// The body of the one request that these flags make.
fn request(flags: &[&str]) -> Value {
    let (code, _, err, asked) = run(flags, vec![changed()]);
    assert_eq!(code, Some(0), "{err}");
    let (line, body) = asked[0].split_once('\n').expect("a body");
    assert_eq!(line, DRAIN);
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn flags_say_how_a_node_is_drained() {
    let enable = |more: &[&str]| request(&[&["-enable", "-detach"], more, &[NODE]].concat());
    let spec =
        |deadline: i64, ignore: bool| json!({ "Deadline": deadline, "IgnoreSystemJobs": ignore });
    for (flags, wanted) in [
        (&[][..], spec(3_600_000_000_000, false)),
        (&["-deadline", "10m"], spec(600_000_000_000, false)),
        (&["-force"], spec(-1, false)),
        (&["-no-deadline", "-ignore-system"], spec(0, true)),
    ] {
        let body = enable(flags);
        assert_eq!(body["DrainSpec"], wanted, "{flags:?}");
        assert_eq!(body["MarkEligible"], false);
        assert_eq!(body["Meta"], json!(null));
    }
    let body = enable(&["-m", "new disk", "-meta", "ticket=7"]);
    assert_eq!(
        body["Meta"],
        json!({ "message": "new disk", "ticket": "7" })
    );
}

#[test]
fn a_drain_is_ended_and_the_node_stays_ineligible_if_asked_to() {
    let body = request(&["-disable", NODE]);
    assert_eq!(
        (&body["DrainSpec"], &body["MarkEligible"]),
        (&json!(null), &json!(true))
    );
    let body = request(&["-disable", "-keep-ineligible", NODE]);
    assert_eq!(body["MarkEligible"], false);
    let (_, out, _, _) = run(&["-disable", NODE], vec![changed()]);
    assert_eq!(out, format!("Node {NODE:?} drain strategy unset\n"));
}

#[test]
fn flags_that_make_no_sense_together_are_refused() {
    for flags in [
        &["-enable", "-disable", NODE][..],
        &[NODE],
        &["-enable", "-force", "-no-deadline", NODE],
        &["-enable", "-force", "-deadline", "1h", NODE],
        &["-enable", "-deadline", "0s", NODE],
        &["-enable", "-keep-ineligible", NODE],
        &["-disable", "-force", NODE],
        &["-monitor", "-deadline", "1h", NODE],
        &["-enable"],
    ] {
        let (code, _, err, asked) = run(flags, vec![changed()]);
        assert_ne!(code, Some(0), "{flags:?}");
        assert!(!err.is_empty() && asked.is_empty(), "{flags:?}");
    }
}

fn node(drain: &Value) -> Value {
    json!({ "ID": NODE, "Datacenter": "dc1", "Name": "n1", "Drain": !drain.is_null(),
            "DrainStrategy": drain })
}

fn alloc(client: &str, desired: &str, migrate: &Value) -> Value {
    json!([{ "ID": ALLOC, "Namespace": "default", "EvalID": ALLOC, "Name": "web.web[0]",
             "NodeID": NODE, "JobID": "web", "TaskGroup": "web", "ClientStatus": client,
             "DesiredStatus": desired, "DesiredTransition": { "Migrate": migrate } }])
}

#[test]
fn the_monitor_tells_what_becomes_of_each_allocation() {
    let began = "2026-11-28T03:00:00Z";
    let strategy = |deadline: &str| {
        json!({ "Deadline": 1, "IgnoreSystemJobs": false, "ForceDeadline": deadline,
                "StartedAt": began })
    };
    let (hour, two) = ("2026-11-28T04:00:00Z", "2026-11-28T05:00:00Z");
    let answers = vec![
        changed(),
        canned(READ, &node(&strategy(hour))),
        canned(READ, &node(&strategy(hour))),
        canned(READ, &node(&strategy(two))),
        canned(READ, &node(&strategy(two))),
        canned(READ, &node(&json!(null))),
        canned(ALLOCS, &alloc("running", "run", &json!(null))),
        canned(ALLOCS, &alloc("running", "run", &json!(true))),
        canned(ALLOCS, &alloc("running", "stop", &json!(true))),
        canned(ALLOCS, &alloc("complete", "stop", &json!(true))),
    ];
    let (code, out, err, _) = run(&["-enable", NODE], answers);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = out
        .lines()
        .map(|line| line.split_once(": ").expect("a time").1)
        .collect();
    let wanted = [
        "Ctrl-C to stop monitoring: will not cancel the node drain".to_owned(),
        format!("Node {NODE:?} drain strategy set"),
        format!("Alloc {ALLOC:?} marked for migration"),
        format!("Node {NODE:?} drain updated: true; {two} deadline"),
        format!("Alloc {ALLOC:?} draining"),
        format!("Alloc {ALLOC:?} status running -> complete"),
        format!("Drain complete for node {NODE}"),
        format!("All allocations on node {NODE:?} have stopped"),
    ];
    assert_eq!(lines, wanted, "{out}");
}

#[test]
fn a_beginning_of_an_id_has_to_be_confirmed() {
    let stub = json!([{ "ID": NODE, "Name": "n", "Datacenter": "dc1", "Address": "",
        "NodeClass": "", "NodePool": "default", "Version": "0.1.0", "Drain": false,
        "SchedulingEligibility": "eligible", "Status": "ready", "StatusDescription": "",
        "Drivers": {}, "CreateIndex": 4, "ModifyIndex": 5, "Attributes": null }]);
    let answers = || vec![canned("GET /v1/nodes", &stub), changed()];
    let (code, _, err, asked) = run(&["-enable", "-detach", "517f"], answers());
    assert_ne!(code, Some(0));
    assert!(err.contains("give its whole id, or -yes"), "{err}");
    assert_eq!(asked.len(), 1, "nothing was drained");
    let (code, out, err, _) = run(&["-enable", "-detach", "-yes", "517f"], answers());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out, format!("Node {NODE:?} drain strategy set\n"));
}

#[test]
fn a_node_shows_its_drain_and_its_last_one() {
    let mut shown = node(&json!({ "Deadline": 0, "IgnoreSystemJobs": true,
        "ForceDeadline": null, "StartedAt": "2026-11-28T03:00:00Z" }));
    shown["LastDrain"] = json!({ "StartedAt": "2026-11-28T03:00:00Z",
        "UpdatedAt": "2026-11-28T03:00:05Z", "Status": "draining", "AccessorID": "",
        "Meta": { "message": "disk" } });
    let server = FakeServer::start(vec![canned(READ, &shown), canned(ALLOCS, &json!([]))]);
    let server = server.expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["node", "status", NODE, "-address", &server.address];
    let out = stdout(&drover(folder.path(), &words));
    assert!(
        out.contains("= true; no deadline; ignoring system jobs\n"),
        "{out}"
    );
    let last = "Last Drain\nStatus     = draining\n";
    assert!(
        out.contains(last) && out.contains("Meta       = message=disk\n"),
        "{out}"
    );
}
