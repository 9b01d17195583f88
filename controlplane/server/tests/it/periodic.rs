//! Periodic jobs: launched by the clock and by callers.

use protocol_model::{EvalTrigger, JobKey, JobStatus};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

fn periodic(id: &str, spec: &str) -> Value {
    let mut job = service(id);
    job["Type"] = json!("batch");
    job["Periodic"] = json!({ "Spec": spec, "SpecType": "cron", "ProhibitOverlap": true });
    job
}

async fn register(world: &World, job: Value) -> Value {
    let body = json!({ "Job": job });
    world.put("/v1/jobs", body).await.expect("registered")
}

#[tokio::test]
async fn periodic_job_is_launched_each_second_by_its_schedule() {
    let world = World::start().await;
    let mut job = periodic("backup", "* * * * * * *");
    job["Periodic"]["ProhibitOverlap"] = json!(false);
    let answer = register(&world, job).await;
    assert_eq!(answer["EvalID"], "", "nothing is evaluated for a template");
    assert_eq!(answer["Warnings"], "", "the schedule has its effect");
    let key = JobKey::new("default", "backup");
    let snapshot = world
        .until(|snapshot| snapshot.children(&key).is_some_and(|it| it.total() >= 2))
        .await;
    for (child, job) in snapshot.jobs_with_prefix("default", "backup/periodic-") {
        assert_eq!(job.parent_id, "backup");
        let second = child
            .id
            .rsplit('-')
            .next()
            .and_then(|it| it.parse::<i64>().ok());
        assert!(second.is_some(), "{child}");
        let mut evals = snapshot.evals_by_job(child);
        assert!(
            evals.any(|eval| eval.triggered_by == EvalTrigger::PeriodicJob),
            "{child}"
        );
    }
    assert!(snapshot.evals_by_job(&key).next().is_none());
    let list = world.get("/v1/jobs").await.expect("a list");
    let children = &list[0]["JobSummary"]["Children"];
    let counted = ["Pending", "Running", "Dead"].map(|it| children[it].as_u64().unwrap_or(0));
    assert!(counted.iter().sum::<u64>() >= 2, "{list}");
    world.delete("/v1/job/backup").await.expect("stopped");
    let stopped = world.server.cluster().snapshot();
    let parent = stopped.job(&key).expect("the template");
    assert_eq!(parent.status, JobStatus::Dead);
}

#[tokio::test]
async fn forced_launch_runs_beside_another_although_overlap_is_prohibited() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    register(&world, periodic("backup", "@yearly")).await;
    let path = "/v1/job/backup/periodic/force";
    let first = world.put(path, json!(null)).await.expect("launched");
    assert_eq!(first["EvalID"].as_str().map(str::len), Some(36));
    assert_eq!(first["EvalCreateIndex"], first["Index"]);
    // Both methods are the same. Calls of one second are one child.
    let mut evals = vec![first["EvalID"].clone()];
    while evals.len() < 2 {
        let again = world.put(path, json!(null)).await.expect("launched");
        if again["EvalID"] == evals[0] {
            assert!(
                again["EvalCreateIndex"].as_u64() < again["Index"].as_u64(),
                "{again}"
            );
        } else {
            evals.push(again["EvalID"].clone());
        }
    }
    let key = JobKey::new("default", "backup");
    let children = world
        .server
        .cluster()
        .snapshot()
        .children(&key)
        .map(|it| it.total());
    assert_eq!(children, Some(2));
}

#[tokio::test]
async fn launch_that_cannot_be_forced_is_refused_in_nomads_words() {
    let world = World::start().await;
    register(&world, service("web")).await;
    let mut disabled = periodic("off", "@yearly");
    disabled["Periodic"]["Enabled"] = json!(false);
    register(&world, disabled).await;
    register(&world, periodic("stopped", "@yearly")).await;
    world.delete("/v1/job/stopped").await.expect("stopped");
    let not_tracked = |id: &str| {
        format!(
            "force launch for job \"{id}\" failed: can't force run non-tracked job \"{id}\" \
             (default)"
        )
    };
    let cases = [
        ("none", 404, "job not found".to_owned()),
        ("web", 400, "can't force launch non-periodic job".to_owned()),
        ("off", 400, not_tracked("off")),
        ("stopped", 400, not_tracked("stopped")),
    ];
    for (id, status, text) in cases {
        let path = format!("/v1/job/{id}/periodic/force");
        let refused = refusal(world.put(&path, json!(null)).await);
        assert_eq!(refused, (status, text), "{id}");
    }
}

#[tokio::test]
async fn wrong_schedule_is_refused_with_its_place_and_warned_of_while_disabled() {
    let world = World::start().await;
    let cases = [
        ("61 * * * *", "UTC", "periodic > cron: minute \"61\""),
        (
            "* * * *",
            "UTC",
            "periodic > cron: \"* * * *\" has 4 fields",
        ),
        (
            "* * * * * * * *",
            "UTC",
            "periodic > cron: \"* * * * * * * *\" has 8 fields",
        ),
        (
            "@daily",
            "Mars/Olympus",
            "periodic > time_zone: \"Mars/Olympus\" is no known",
        ),
    ];
    for (spec, zone, text) in cases {
        let mut job = periodic("backup", spec);
        job["Periodic"]["TimeZone"] = json!(zone);
        let refused = refusal(world.put("/v1/jobs", json!({ "Job": job })).await);
        assert_eq!(refused.0, 400, "{refused:?}");
        assert!(refused.1.contains(text), "{refused:?}");
        job["Periodic"]["Enabled"] = json!(false);
        let answer = register(&world, job).await;
        let warnings = answer["Warnings"].as_str().unwrap_or_default();
        assert!(warnings.contains("once enabled is true"), "{answer}");
    }
}
