//! Jobs and what belongs to them.

use std::sync::Arc;

use controlplane_state::Command;
use controlplane_state::command::JobRegister;
use protocol_model::{
    DesiredStatus, EvalId, EvalTrigger, Evaluation, Job, JobType, PeriodicConfig, UnixNanos,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

#[tokio::test]
async fn job_without_metadata_has_no_meta_key_in_lists() {
    let world = World::start().await;
    for (id, meta) in [("bare", json!({})), ("web", json!({ "owner": "tests" }))] {
        let mut job = service(id);
        job["Meta"] = meta;
        let body = json!({ "Job": job });
        world.put("/v1/jobs", body).await.expect("registered");
    }
    let list = world.get("/v1/jobs?meta=true").await.expect("a list");
    assert_eq!(list[0]["ID"], "bare");
    assert!(list[0].get("Meta").is_none(), "{list}");
    assert_eq!(list[1]["Meta"], json!({ "owner": "tests" }));
    let path = "/v1/jobs?meta=true&filter=Meta is empty";
    let bare = world.get(path).await.expect("a list");
    assert_eq!(bare.as_array().map(Vec::len), Some(1), "{bare}");
    assert_eq!(bare[0]["ID"], "bare");
}

#[tokio::test]
async fn a_job_is_registered_listed_read_stopped_and_purged() {
    let world = World::start().await;
    let answer = world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    assert_eq!(answer["Warnings"], "");
    assert_eq!(answer["EvalID"].as_str().map(str::len), Some(36));
    assert_eq!(answer["EvalCreateIndex"], answer["JobModifyIndex"]);

    let list = world.get("/v1/jobs?meta=true").await.expect("a list");
    assert_eq!(list[0]["ID"], "web");
    assert_eq!(list[0]["Meta"], json!({ "owner": "tests" }));
    assert!(list[0]["JobSummary"]["Summary"]["web"].is_object());
    let list = world.get("/v1/jobs").await.expect("a list");
    assert!(
        list[0].get("Meta").is_none(),
        "metadata is shown on request only"
    );

    let job = world.get("/v1/job/web").await.expect("the job");
    assert_eq!(job["Version"], 0);
    assert_eq!(job["Priority"], 50, "the canonical form is stored");

    let stopped = world.delete("/v1/job/web").await.expect("stopped");
    assert_eq!(stopped["EvalID"].as_str().map(str::len), Some(36));
    let job = world.get("/v1/job/web").await.expect("it is kept");
    assert_eq!((&job["Stop"], &job["Version"]), (&json!(true), &json!(1)));
    world
        .delete("/v1/job/web?purge=true")
        .await
        .expect("purged");
    assert_eq!(
        refusal(world.get("/v1/job/web").await),
        (404, "job not found".to_owned())
    );
}

#[tokio::test]
async fn stopping_a_job_that_is_not_there_succeeds_and_writes_nothing() {
    let world = World::start().await;
    let before = world.barrier().await;
    for path in [
        "/v1/job/web",
        "/v1/job/web?purge=true",
        "/v1/job/web?namespace=nope",
    ] {
        let stopped = world.delete(path).await.expect("nothing is to be done");
        assert_eq!(stopped["EvalID"], "", "{path}");
        for index in ["EvalCreateIndex", "JobModifyIndex", "Index"] {
            assert_eq!(stopped[index], 0, "{path}: {index}");
        }
    }
    assert_eq!(world.barrier().await, before + 1);
}

#[tokio::test]
async fn a_job_whose_id_has_a_slash_is_reached_whether_it_is_encoded_or_not() {
    let world = World::start().await;
    let id = "team/web one%";
    world
        .put("/v1/jobs", json!({ "Job": service("team/web") }))
        .await
        .expect("registered");
    for path in ["/v1/job/team%2Fweb", "/v1/job/team/web"] {
        assert_eq!(world.get(path).await.expect("the job")["ID"], "team/web");
        let summary = world.get(&format!("{path}/summary")).await;
        assert_eq!(summary.expect("its summary")["JobID"], "team/web");
        let evals = world.get(&format!("{path}/evaluations")).await;
        assert_eq!(evals.expect("a list")[0]["JobID"], "team/web");
    }
    assert_eq!(refusal(world.get("/v1/job/team").await).0, 404);
    // A space makes no id, whatever the path says.
    let refused = world.put("/v1/jobs", json!({ "Job": service(id) })).await;
    assert_eq!(refusal(refused).0, 400);
}

#[tokio::test]
async fn a_job_named_like_a_suffix_is_reached_by_its_encoded_path() {
    let world = World::start().await;
    let body = json!({ "Job": service("a/plan") });
    world.put("/v1/jobs", body).await.expect("registered");
    let job = world.get("/v1/job/a%2Fplan").await.expect("the job");
    assert_eq!(job["ID"], "a/plan");
    // Not encoded, it is the plan of the job `a`, which is no read.
    assert_eq!(refusal(world.get("/v1/job/a/plan").await).0, 405);
    let stopped = world.delete("/v1/job/a%2Fplan?purge=true").await;
    stopped.expect("stopped");
}

#[tokio::test]
async fn check_and_set_refuses_a_job_that_changed() {
    let world = World::start().await;
    let job = service("web");
    let enforced =
        |index: u64| json!({ "Job": job, "EnforceIndex": true, "JobModifyIndex": index });
    let answer = world
        .put("/v1/jobs", enforced(0))
        .await
        .expect("there is none yet");
    let index = answer["JobModifyIndex"].as_u64().expect("an index");
    let (_, words) = refusal(world.put("/v1/jobs", enforced(0)).await);
    assert_eq!(words, "Enforcing job modify index 0: job already exists");
    let (_, words) = refusal(world.put("/v1/jobs", enforced(index + 7)).await);
    assert!(
        words.contains("job exists with conflicting job modify index"),
        "{words}"
    );
    world
        .put("/v1/jobs", enforced(index))
        .await
        .expect("unchanged since");
}

#[tokio::test]
async fn a_job_of_another_kind_is_neither_registered_nor_planned() {
    let world = World::start().await;
    let mut batch = service("web");
    batch["Type"] = json!("batch");
    let mut periodic = batch.clone();
    periodic["Periodic"] = json!({ "Spec": "@daily" });
    let body = |job: &Value| json!({ "Job": job });
    world
        .put("/v1/jobs", body(&batch))
        .await
        .expect("registered");
    for (job, why) in [
        (
            &service("web"),
            "cannot update job from type \"batch\" to \"service\"",
        ),
        (
            &periodic,
            "cannot update non-periodic job to being periodic",
        ),
    ] {
        for path in ["/v1/jobs", "/v1/job/web", "/v1/job/web/plan"] {
            let (status, words) = refusal(world.put(path, body(job)).await);
            assert_eq!(status, 400, "{path}: {words}");
            assert!(words.starts_with(why), "{path}: {words}");
            assert!(words.contains("job stop -purge"), "{path}: {words}");
        }
    }
    world.put("/v1/jobs", body(&batch)).await.expect("its own");
}

#[tokio::test]
async fn stopping_a_template_stops_what_runs_of_it() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job: Job = serde_json::from_value(service("web")).expect("a job");
    job.job_type = JobType::Batch;
    job.periodic = Some(PeriodicConfig::default());
    job.canonicalize();
    // As it is where an earlier release let a job that ran become a template.
    let eval = Evaluation::new(
        EvalId(Uuid::new_v4()),
        &job.key(),
        job.job_type,
        job.priority,
        EvalTrigger::JobRegister,
        UnixNanos::ZERO,
    );
    let command = Command::JobRegister(JobRegister {
        spec: job.spec_hash(),
        job: Arc::new(job),
        eval: Some(eval),
        enforce_index: None,
        submission: None,
    });
    let cluster = world.server.cluster();
    cluster.change(command).await.expect("registered");
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let stopped = world.delete("/v1/job/web").await.expect("stopped");
    assert_eq!(stopped["EvalID"].as_str().map(str::len), Some(36));
    world
        .until(|snapshot| {
            let mut allocs = snapshot.allocs();
            allocs.all(|alloc| alloc.desired_status == DesiredStatus::Stop)
        })
        .await;
}

#[tokio::test]
async fn a_job_is_updated_at_its_own_path_only_under_its_own_id() {
    let world = World::start().await;
    world
        .put("/v1/job/web", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let (status, words) = refusal(
        world
            .put("/v1/job/other", json!({ "Job": service("web") }))
            .await,
    );
    assert_eq!(
        (status, words.as_str()),
        (400, "Job ID does not match name")
    );
    let mut job = service("web");
    job["TaskGroups"][0]["Count"] = json!(2);
    world
        .put("/v1/job/web", json!({ "Job": job }))
        .await
        .expect("a new version");
    let versions = world.get("/v1/job/web/versions").await.expect("versions");
    let numbers: Vec<&Value> = versions["Versions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|version| &version["Version"])
        .collect();
    assert_eq!(numbers, [&json!(1), &json!(0)]);
}

#[tokio::test]
async fn counts_are_kept_where_that_is_asked_for() {
    let world = World::start().await;
    let mut job = service("web");
    job["TaskGroups"][0]["Count"] = json!(4);
    world
        .put("/v1/jobs", json!({ "Job": job }))
        .await
        .expect("registered");
    job["TaskGroups"][0]["Count"] = json!(1);
    job["Meta"] = json!({ "owner": "others" });
    let body = json!({ "Job": job, "PreserveCounts": true });
    world.put("/v1/jobs", body).await.expect("registered");
    let found = world.get("/v1/job/web").await.expect("the job");
    assert_eq!(
        (&found["TaskGroups"][0]["Count"], &found["Version"]),
        (&json!(4), &json!(1))
    );
}
