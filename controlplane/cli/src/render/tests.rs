//! What users see of fixed answers, kept as texts below `snapshots/`.

use jiff::tz::TimeZone;
use protocol_api::jobs::{JobCounts, JobListStub, JobPlan};
use protocol_model::{
    Allocation, AllocationListStub, Deployment, Evaluation, Job, Node, NodeListStub, UnixNanos,
};
use serde_json::{Value, json};

use super::job::JobParts;
use super::{alloc, deployment, eval, job, node, plan};
use crate::find::Length;
use crate::output::Colour;
use crate::session::Clock;

const SECOND: i64 = 1_000_000_000;
const NOW: i64 = 1_700_000_000 * SECOND;
const ALLOC: &str = "0b6c93c7-25f1-4c26-88ad-554ad3ea8e1b";
const EVAL: &str = "e8b7cf53-0000-4000-8000-000000000001";
const NODE: &str = "517fc88c-0000-4000-8000-000000000002";

fn clock() -> Clock {
    Clock {
        now: UnixNanos(NOW),
        zone: TimeZone::UTC,
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the fixture has the API's shape")
}

fn web() -> Job {
    let task = json!({ "Name": "server", "Driver": "exec" });
    let mut job: Job = read(json!({
        "ID": "web", "Name": "web", "Namespace": "default", "Datacenters": ["*"],
        "SubmitTime": NOW - 90 * SECOND, "Status": "running",
        "TaskGroups": [{ "Name": "web", "Count": 2, "Tasks": [task] }],
    }));
    job.canonicalize();
    job
}

fn stub() -> AllocationListStub {
    read(json!({
        "ID": ALLOC, "EvalID": EVAL, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": NODE, "NodeName": "n1", "JobID": "web", "JobType": "service", "JobVersion": 0,
        "TaskGroup": "web", "DesiredStatus": "run", "DesiredDescription": "",
        "ClientStatus": "running", "ClientDescription": "Tasks are running",
        "CreateIndex": 5, "ModifyIndex": 7,
        "CreateTime": NOW - 65 * SECOND, "ModifyTime": NOW - 3 * SECOND,
    }))
}

fn blocked() -> Evaluation {
    read(json!({
        "ID": EVAL, "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "job-register", "JobID": "web", "Status": "blocked",
        "CreateTime": NOW - 65 * SECOND, "ModifyTime": NOW - 65 * SECOND,
        "FailedTGAllocs": { "web": {
            "NodesEvaluated": 3, "NodesFiltered": 1, "NodesExhausted": 2, "CoalescedFailures": 1,
            "ConstraintFiltered": { "${attr.kernel.name} = linux": 1 },
            "DimensionExhausted": { "memory": 2 },
        }},
    }))
}

#[test]
fn a_list_of_jobs() {
    let jobs: Vec<JobListStub> = read(json!([
        { "ID": "web", "Namespace": "default", "Type": "service", "Priority": 50,
          "Status": "running", "SubmitTime": NOW },
        { "ID": "old", "Namespace": "other", "Type": "batch", "Priority": 80,
          "Status": "dead", "Stop": true, "SubmitTime": 0, "Periodic": true },
    ]));
    insta::assert_snapshot!("jobs", job::list(&jobs, &clock()));
}

#[test]
fn one_job() {
    let job = web();
    let summary: JobCounts = read(json!({ "Summary": { "web": { "Running": 1, "Queued": 1 } } }));
    let parts = JobParts {
        job: &job,
        counts: &summary,
        deployment: None,
        allocs: vec![stub()],
        evals: vec![blocked()],
        launched: Vec::new(),
        show_evals: true,
        show_allocs: true,
    };
    let text = job::one(&parts, Length::Short, Colour::Off, &clock());
    insta::assert_snapshot!("job", text);
}

#[test]
fn a_jobs_short_form_is_the_job_and_its_long_form_names_all_of_an_allocation() {
    let job = web();
    let summary = JobCounts::default();
    let mut parts = JobParts {
        job: &job,
        counts: &summary,
        deployment: None,
        allocs: vec![stub()],
        evals: Vec::new(),
        launched: Vec::new(),
        show_evals: false,
        show_allocs: true,
    };
    let text = job::one(&parts, Length::Whole, Colour::Off, &clock());
    let row = text.lines().last().expect("an allocation");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..5], [ALLOC, EVAL, NODE, "n1", "web"]);
    let times = ["2023-11-14T22:12:15Z", "2023-11-14T22:13:17Z"];
    assert_eq!(cells[cells.len() - 2..], times);
    parts.show_allocs = false;
    let text = job::one(&parts, Length::Short, Colour::Off, &clock());
    assert!(
        text.lines()
            .last()
            .is_some_and(|it| it.starts_with("Parameterized")),
        "{text}"
    );
}

#[test]
fn one_evaluation() {
    let text = eval::one(&blocked(), Length::Short, Colour::Off, &clock());
    insta::assert_snapshot!("eval", text);
    let whole = eval::one(&blocked(), Length::Whole, Colour::Off, &clock());
    assert!(
        whole.contains("Create Time        = 2023-11-14T22:12:15Z"),
        "{whole}"
    );
}

#[test]
fn a_list_of_evaluations_names_the_node_that_made_one() {
    let mut of_node = blocked();
    of_node.node_id = Some(read(json!(NODE)));
    let list = eval::list(&[blocked(), of_node], Length::Short);
    let cells = |line: usize| -> Vec<String> {
        let line = list.lines().nth(line).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(cells(1)[5..7], ["<none>", "blocked"], "{list}");
    assert_eq!(cells(2)[5..7], ["517fc88c", "blocked"], "{list}");
}

#[test]
fn times_have_the_users_offset_and_z_where_there_is_none() {
    let at = UnixNanos(NOW);
    assert_eq!(clock().date(at), "2023-11-14T22:13:20Z");
    let east = Clock {
        zone: TimeZone::fixed(jiff::tz::offset(2)),
        ..clock()
    };
    assert_eq!(east.date(at), "2023-11-15T00:13:20+02:00");
}

#[test]
fn an_evaluation_that_waits_for_its_time_says_so() {
    let delayed: Evaluation = read(json!({
        "ID": EVAL, "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "alloc-failure", "JobID": "web", "Status": "pending",
        "WaitUntil": "2023-11-14T22:14:25Z",
        "CreateTime": NOW - 65 * SECOND, "ModifyTime": NOW - 65 * SECOND,
    }));
    let text = eval::one(&delayed, Length::Short, Colour::Off, &clock());
    let line = "Wait Until         = 2023-11-14T22:14:25Z (1m5s from now)";
    assert!(text.lines().any(|it| it == line), "{text}");
    let list = eval::list(&[blocked(), delayed], Length::Short);
    assert!(list.contains("blocked  N/A - In Progress"), "{list}");
    assert!(list.contains("pending  false"), "{list}");
}

/// A job that is launched at three o'clock in Berlin, with one child.
fn periodic_status(bend: impl FnOnce(&mut Job)) -> String {
    let mut job: Job = read(json!({
        "ID": "backup", "Name": "backup", "Type": "batch", "Status": "running", "SubmitTime": NOW,
        "Periodic": { "Spec": "0 3 * * *", "TimeZone": "Europe/Berlin" },
    }));
    job.canonicalize();
    bend(&mut job);
    let child = json!({
        "ID": "backup/periodic-1699923600", "ParentID": "backup", "Name": "", "Namespace": "default",
        "Type": "batch", "Priority": 50, "Status": "dead", "SubmitTime": NOW,
    });
    let counts = read(json!({ "Children": { "Pending": 0, "Running": 0, "Dead": 1 } }));
    let parts = JobParts {
        job: &job,
        counts: &counts,
        deployment: None,
        allocs: Vec::new(),
        evals: Vec::new(),
        launched: vec![read(child)],
        show_evals: false,
        show_allocs: true,
    };
    job::one(&parts, Length::Short, Colour::Off, &clock())
}

#[test]
fn periodic_job_shows_its_next_launch_and_its_children() {
    let text = periodic_status(|_| {});
    let next = "Next Periodic Launch = 2023-11-15T03:00:00+01:00 (3h46m from now)\n";
    assert!(text.contains(next), "{text}");
    let children = "Children Job Summary\nPending  Running  Dead\n0        0        1\n";
    assert!(text.contains(children), "{text}");
    let launched = "Previously Launched Jobs\nID                          Status\n\
                    backup/periodic-1699923600  dead\n";
    assert!(text.contains(launched), "{text}");
    assert!(!text.contains("Allocations"), "{text}");
    let text = periodic_status(|job| job.stop = true);
    assert!(
        text.contains("Next Periodic Launch = none (job stopped)"),
        "{text}"
    );
    let text = periodic_status(|job| {
        job.periodic.as_mut().expect("periodic").enabled = Some(false);
    });
    assert!(
        text.contains("Next Periodic Launch = none (periodic is disabled)"),
        "{text}"
    );
}

#[test]
fn a_failed_allocation_says_when_it_is_tried_again() {
    let job = web();
    let failed = |index: u32, followup: &str| -> AllocationListStub {
        let mut alloc = stub();
        alloc.name = format!("web.web[{index}]");
        alloc.followup_eval_id = Some(read(json!(followup)));
        alloc
    };
    let later = "e8b7cf53-0000-4000-8000-000000000009";
    let follow_up = |id: &str, at: &str| -> Evaluation {
        read(json!({
            "ID": id, "Namespace": "default", "Priority": 50, "Type": "service",
            "TriggeredBy": "alloc-failure", "JobID": "web", "Status": "pending", "WaitUntil": at,
        }))
    };
    let mut parts = JobParts {
        job: &job,
        counts: &JobCounts::default(),
        deployment: None,
        allocs: vec![failed(0, later), failed(1, EVAL)],
        evals: vec![
            follow_up(later, "2023-11-14T22:18:20Z"),
            follow_up(EVAL, "2023-11-14T22:13:50Z"),
        ],
        launched: Vec::new(),
        show_evals: false,
        show_allocs: true,
    };
    let text = job::one(&parts, Length::Short, Colour::Off, &clock());
    let rows = "Task Group  Eval ID   Eval Time\nweb         e8b7cf53  30s from now\n";
    assert!(text.contains(rows), "{text}");
    // What was replaced is not tried again.
    for alloc in &mut parts.allocs {
        alloc.next_allocation = Some(read(json!(ALLOC)));
    }
    let text = job::one(&parts, Length::Short, Colour::Off, &clock());
    assert!(!text.contains("Future"), "{text}");
}

#[test]
fn groups_of_a_deployment() {
    let mut deployment: Deployment = read(json!({
        "ID": EVAL, "JobID": "web", "Namespace": "default", "JobVersion": 1, "Status": "running",
        "StatusDescription": "", "IsMultiregion": false, "EvalPriority": 50,
        "JobModifyIndex": 1, "JobSpecModifyIndex": 1, "JobCreateIndex": 1,
        "CreateIndex": 1, "ModifyIndex": 1, "CreateTime": 1, "ModifyTime": 1,
        "TaskGroups": {
            "plain": { "DesiredTotal": 2, "PlacedAllocs": 2, "HealthyAllocs": 1 },
        },
    }));
    let plain = "\
Task Group  Desired  Placed  Healthy  Unhealthy
plain       2        2       1        0
";
    assert_eq!(deployment::groups(&deployment, &clock()), plain);
    let canary = read(json!({
        "DesiredTotal": 3, "DesiredCanaries": 1, "AutoRevert": true,
        "ProgressDeadline": 600 * SECOND, "RequireProgressBy": "2023-11-14T22:23:20Z",
    }));
    deployment.task_groups.insert("canary".to_owned(), canary);
    insta::assert_snapshot!("deployed", deployment::groups(&deployment, &clock()));
}

#[test]
fn regions_of_a_deployment_are_shown_where_it_has_several() {
    let mut found: Deployment = read(json!({
        "ID": EVAL, "JobID": "web", "Namespace": "default", "JobVersion": 1, "Status": "running",
        "IsMultiregion": true,
    }));
    let mut job = web();
    job.multiregion = Some(read(
        json!({"Regions": [{"Name": "east"}, {"Name": "global"}]}),
    ));
    job.region = "global".to_owned();
    let text = deployment::regions(&found, &job, Length::Short).expect("several");
    let expected = format!(
        "Region  ID        Status\neast    N/A       not reached\nglobal  {}  running\n",
        &EVAL[..8]
    );
    assert_eq!(text, expected);
    found.is_multiregion = false;
    assert_eq!(deployment::regions(&found, &job, Length::Short), None);
}

fn whole_alloc() -> Allocation {
    let mut alloc: Allocation = read(json!({
        "ID": ALLOC, "EvalID": EVAL, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": NODE, "NodeName": "n1", "JobID": "web", "TaskGroup": "web",
        "ClientStatus": "running", "ClientDescription": "Tasks are running",
        "CreateTime": NOW - 65 * SECOND, "ModifyTime": NOW - 3 * SECOND,
        "AllocatedResources": {
            "Tasks": { "server": { "Cpu": { "CpuShares": 100 }, "Memory": { "MemoryMB": 300, "MemoryMaxMB": 800 } } },
            "Shared": { "DiskMB": 300,
                        "Ports": [{ "Label": "http", "Value": 8080, "To": 80, "HostIP": "::1" }] },
        },
        "TaskStates": { "server": {
            "State": "running", "Restarts": 1, "StartedAt": "2023-11-14T22:12:00Z",
            "Events": [
                { "Type": "Received", "Time": NOW - 65 * SECOND, "DisplayMessage": "Task received" },
                { "Type": "Terminated", "Time": NOW - 30 * SECOND, "Details": { "signal": "9" } },
            ],
        }},
        "Metrics": { "NodesEvaluated": 1, "ScoreMetaData": [
            { "NodeID": NODE, "Scores": { "binpack": 0.25, "job-anti-affinity": -0.5 },
              "NormScore": -0.125 },
        ]},
    }));
    alloc.job = Some(std::sync::Arc::new(web()));
    alloc
}

#[test]
fn one_allocation() {
    let clock = clock();
    let view = alloc::View {
        length: Length::Whole,
        colour: Colour::Off,
        clock: &clock,
    };
    insta::assert_snapshot!("alloc", view.whole(&whole_alloc()));
    insta::assert_snapshot!("alloc_short", view.short(&whole_alloc()));
}

#[test]
fn what_tasks_use() {
    let clock = clock();
    let view = alloc::View {
        length: Length::Short,
        colour: Colour::Off,
        clock: &clock,
    };
    let usage = json!({ "CpuStats": { "Percent": 12.34 },
                        "MemoryStats": { "Usage": 3 << 20, "RSS": 1536, "Swap": 0 } });
    let stats = json!({ "Tasks": { "server": { "ResourceUsage": usage } } });
    insta::assert_snapshot!("alloc_stats", view.stats(&stats));
}

#[test]
fn nodes() {
    let clock = clock();
    let one: Node = read(json!({
        "ID": NODE, "Datacenter": "dc1", "Name": "n1", "NodePool": "default", "Status": "ready",
        "Drivers": { "exec": { "Detected": true, "Healthy": true, "HealthDescription": "Healthy" } },
        "NodeResources": { "Cpu": { "CpuShares": 4000 }, "Memory": { "MemoryMB": 2048 },
                           "Disk": { "DiskMB": 10240 } },
    }));
    let mut list: NodeListStub = one.stub();
    insta::assert_snapshot!(
        "nodes",
        node::list(&[list.clone()], Some(&[3]), Length::Short)
    );
    list.attributes = Some(read(json!({ "os.name": "debian", "os.version": "12" })));
    let text = node::list(&[list], None, Length::Short);
    let row = text.lines().last().unwrap_or_default();
    assert!(row.contains("<none>  debian 12  false"), "{text}");
    let view = node::View {
        length: Length::Short,
        colour: Colour::Off,
        clock: &clock,
    };
    insta::assert_snapshot!("node", view.one(&one, &[whole_alloc()], true));
}

#[test]
fn a_plan() {
    let answer: JobPlan = read(json!({
        "JobModifyIndex": 7,
        "Annotations": { "DesiredTGUpdates": {
            "web": { "Place": 2, "InPlaceUpdate": 1, "Ignore": 0 } } },
        "FailedTGAllocs": null,
        "Diff": { "Type": "Edited", "ID": "web", "TaskGroups": [{
            "Type": "Edited", "Name": "web", "Updates": { "create": 2, "in-place update": 1 },
            "Fields": [{ "Type": "Edited", "Name": "Count", "Old": "1", "New": "3",
                         "Annotations": ["forces create"] }],
            "Objects": [{ "Type": "Added", "Name": "Update", "Fields": [
                { "Type": "Added", "Name": "MaxParallel", "Old": "", "New": "2" }] }],
            "Tasks": [{ "Type": "Deleted", "Name": "side", "Annotations": ["forces destroy"] }],
        }]},
    }));
    assert!(plan::changes_something(&answer, &web()));
    let view = plan::View {
        colour: Colour::Off,
        verbose: false,
        file: "web.nomad.hcl".to_owned(),
    };
    insta::assert_snapshot!("plan", view.plan(&answer, &web(), &clock()));
}

#[test]
fn plan_explains_what_rules_nodes_out_and_which_come_nearest() {
    let job: Job = read(json!({
        "ID": "backup", "Type": "batch",
        "Periodic": { "Spec": "0 3 * * *", "TimeZone": "Europe/Berlin" },
    }));
    let answer: JobPlan = read(json!({
        "NextPeriodicLaunch": "2023-11-15T02:00:00Z",
        "Annotations": { "DesiredTGUpdates": { "web": { "Place": 2 } } },
        "Diff": { "Type": "None", "ID": "backup" },
        "Explanation": { "web": {
            "Filtered": [{ "Reason": "missing drivers", "Nodes": 2 },
                         { "Reason": "${attr.kernel.name} = plan9", "Nodes": 1 }],
            "NearMisses": [{ "NodeID": NODE, "NodeName": "n17",
                             "Missing": ["memory 256 MiB short of 512", "cores"] }],
        }, "empty": {} },
    }));
    let view = plan::View {
        colour: Colour::Off,
        verbose: false,
        file: "backup.hcl".to_owned(),
    };
    let text = view.plan(&answer, &job, &clock());
    let explained = "\
- Task Group \"web\":
    2 nodes ruled out: missing drivers
    1 node ruled out: ${attr.kernel.name} = plan9
    near miss: node n17: memory 256 MiB short of 512, cores
- If submitted now, next periodic launch would be at 2023-11-15T03:00:00+01:00 (3h46m from now).
";
    assert!(text.contains(explained), "{text}");
    // A launch that was tried is no change of the template.
    assert!(!plan::changes_something(&answer, &job));
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    assert_eq!(Colour::Off.red("x"), "x");
    assert_eq!(Colour::On.red("x"), "\u{1b}[31mx\u{1b}[0m");
}
