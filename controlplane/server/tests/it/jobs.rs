//! Jobs and what belongs to them.

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

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
    assert_eq!(
        refusal(world.delete("/v1/job/web").await),
        (404, "job not found".to_owned())
    );
}

#[tokio::test]
async fn what_a_job_was_made_from_is_shown_by_version() {
    let world = World::start().await;
    let path = "/v1/job/web/submission";
    let submission = json!({
        "Source": "job \"web\" {}", "Format": "hcl2",
        "VariableFlags": { "a": "1" }, "Variables": null,
    });
    let body = json!({ "Job": service("web"), "Submission": submission });
    world.put("/v1/jobs", body).await.expect("registered");
    let found = world.get(path).await.expect("it is kept");
    assert_eq!(found["Source"], "job \"web\" {}");
    assert_eq!(found["VariableFlags"], json!({ "a": "1" }));
    assert_eq!(
        (&found["JobID"], &found["Version"]),
        (&json!("web"), &json!(0))
    );
    let missing = (404, "job source not found".to_owned());
    let absent = world.get("/v1/job/web/submission?version=7").await;
    assert_eq!(refusal(absent), missing);
    let none = world.get("/v1/job/nobody/submission").await;
    assert_eq!(refusal(none), missing);

    // One that is too large is not kept, and the job is registered all the same.
    let mut other = service("web");
    other["Priority"] = json!(70);
    let submission = json!({ "Source": "x".repeat(1_000_001), "Format": "hcl2" });
    let body = json!({ "Job": other, "Submission": submission });
    let answer = world.put("/v1/jobs", body).await.expect("registered");
    let warnings = answer["Warnings"].as_str().expect("text");
    assert!(warnings.contains("is not kept"), "{warnings}");
    assert_eq!(refusal(world.get(path).await), missing);
    let found = world.get("/v1/job/web/submission?version=0").await;
    assert_eq!(found.expect("still kept")["Format"], "hcl2");
}

#[tokio::test]
async fn a_job_whose_id_has_a_slash_is_reached_by_its_encoded_path() {
    let world = World::start().await;
    let id = "team/web one%";
    world
        .put("/v1/jobs", json!({ "Job": service("team/web") }))
        .await
        .expect("registered");
    let path = "/v1/job/team%2Fweb";
    assert_eq!(world.get(path).await.expect("the job")["ID"], "team/web");
    let summary = world
        .get(&format!("{path}/summary"))
        .await
        .expect("its summary");
    assert_eq!(summary["JobID"], "team/web");
    assert_eq!(refusal(world.get("/v1/job/team/web").await).0, 404);
    // A space makes no id, whatever the path says.
    let refused = world.put("/v1/jobs", json!({ "Job": service(id) })).await;
    assert_eq!(refusal(refused).0, 400);
}

#[tokio::test]
async fn all_mistakes_of_a_job_are_told_at_once() {
    let world = World::start().await;
    let mut job = service("web");
    job["Priority"] = json!(700);
    job["TaskGroups"][0]["Tasks"][0]["Driver"] = json!("");
    let (status, words) = refusal(world.put("/v1/jobs", json!({ "Job": job.clone() })).await);
    assert_eq!(status, 400);
    assert!(
        words.contains("priority") && words.contains("driver"),
        "{words}"
    );
    let answer = world
        .put("/v1/validate/job", json!({ "Job": job }))
        .await
        .expect("an answer");
    assert_eq!(
        answer["ValidationErrors"].as_array().map(Vec::len),
        Some(2),
        "{answer}"
    );
    assert_eq!(answer["Error"].as_str(), Some(words.as_str()));
}

#[tokio::test]
async fn what_is_not_honoured_is_warned_of_on_validate_plan_and_register() {
    let world = World::start().await;
    let mut job = service("web");
    job["TaskGroups"][0]["Services"] = json!([{ "Name": "web", "PortLabel": "1" }]);
    let body = json!({ "Job": job });
    for path in ["/v1/validate/job", "/v1/job/web/plan", "/v1/jobs"] {
        let answer = world.put(path, body.clone()).await.expect("an answer");
        let warnings = answer["Warnings"].as_str().unwrap_or_default();
        assert!(
            warnings.starts_with("1 warning:\n\n* "),
            "{path}: {warnings:?}"
        );
        assert!(warnings.contains("service"), "{path}: {warnings:?}");
    }
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

#[tokio::test]
async fn a_job_file_is_parsed_with_its_variables() {
    let world = World::start().await;
    let hcl = r#"
        variable "count" { type = number }
        job "web" {
          group "g" {
            count = var.count
            task "t" { driver = "exec" }
          }
        }
    "#;
    let body = json!({ "JobHCL": hcl, "Variables": "count = 3", "Canonicalize": true });
    let job = world.put("/v1/jobs/parse", body).await.expect("parsed");
    assert_eq!(job["TaskGroups"][0]["Count"], 3);
    assert_eq!(job["Priority"], 50);
    let (status, words) = refusal(
        world
            .put("/v1/jobs/parse", json!({ "JobHCL": "job {" }))
            .await,
    );
    assert_eq!(status, 400);
    assert!(words.contains("job.hcl"), "{words}");
    let secrets = json!({ "JobHCL": "job \"x\" { name = file(\"/etc/shadow\") }" });
    assert_eq!(refusal(world.put("/v1/jobs/parse", secrets).await).0, 400);
}

#[tokio::test]
async fn namespaces_hold_their_jobs_apart() {
    let world = World::start().await;
    world
        .put(
            "/v1/namespace",
            json!({ "Name": "team", "Description": "d" }),
        )
        .await
        .expect("made");
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    world
        .put("/v1/jobs?namespace=team", json!({ "Job": service("web") }))
        .await
        .expect("too");
    let count = |list: Value| list.as_array().map(Vec::len);
    assert_eq!(count(world.get("/v1/jobs").await.expect("a list")), Some(1));
    assert_eq!(
        count(world.get("/v1/jobs?namespace=*").await.expect("a list")),
        Some(2)
    );
    let job = world
        .get("/v1/job/web?namespace=team")
        .await
        .expect("the other one");
    assert_eq!(job["Namespace"], "team");
    let (status, words) = refusal(world.delete("/v1/namespace/team").await);
    assert_eq!(status, 400, "{words}");
    let nowhere = world
        .put(
            "/v1/jobs?namespace=nowhere",
            json!({ "Job": service("web") }),
        )
        .await;
    assert_eq!(refusal(nowhere).0, 400);
    world
        .delete("/v1/job/web?namespace=team&purge=true")
        .await
        .expect("purged");
    world.delete("/v1/namespace/team").await.expect("empty now");
}

#[tokio::test]
async fn lists_come_in_pages_and_by_prefix() {
    let world = World::start().await;
    for id in ["a1", "a2", "b1"] {
        world
            .put("/v1/jobs", json!({ "Job": service(id) }))
            .await
            .expect("registered");
    }
    let first = world
        .get_whole("/v1/jobs?per_page=2")
        .await
        .expect("a page");
    assert_eq!(first.value.as_array().map(Vec::len), Some(2));
    let token = first.next_token.expect("there is more");
    let second = world
        .get_whole(&format!("/v1/jobs?per_page=2&next_token={token}"))
        .await;
    let second = second.expect("a page");
    assert_eq!(
        (&second.value[0]["ID"], second.next_token),
        (&json!("b1"), None)
    );
    let found = world.get("/v1/jobs?prefix=a").await.expect("a list");
    assert_eq!(found.as_array().map(Vec::len), Some(2));
    let newest = world
        .get("/v1/evaluations?reverse=true&per_page=1")
        .await
        .expect("a page");
    let oldest = world
        .get("/v1/evaluations?per_page=1")
        .await
        .expect("a page");
    assert!(newest[0]["CreateIndex"].as_u64() > oldest[0]["CreateIndex"].as_u64());
    let body = json!({ "Prefix": "a", "Context": "jobs" });
    let found = world.put("/v1/search", body).await.expect("matches");
    assert_eq!(found["Matches"]["jobs"], json!(["a1", "a2"]));
    assert_eq!(found["Truncations"]["jobs"], json!(false));
}

#[tokio::test]
async fn a_placed_job_shows_its_allocations_everywhere() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let answer = world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let eval = answer["EvalID"].as_str().expect("an evaluation").to_owned();

    let allocs = world.get("/v1/job/web/allocations").await.expect("a list");
    let id = allocs[0]["ID"].as_str().expect("an id").to_owned();
    assert_eq!(allocs[0]["JobType"], "service");
    assert!(allocs[0].get("AllocatedResources").is_none());
    let paths = [
        "/v1/allocations?resources=true".to_owned(),
        format!("/v1/allocations?prefix={}", &id[..4]),
        format!("/v1/evaluation/{eval}/allocations"),
        format!("/v1/node/{}/allocations", node.id),
    ];
    for path in paths {
        assert_eq!(
            world.get(&path).await.expect("a list")[0]["ID"],
            id.as_str(),
            "{path}"
        );
    }
    let alloc = world
        .get(&format!("/v1/allocation/{id}"))
        .await
        .expect("the allocation");
    assert_eq!(alloc["Job"]["ID"], "web", "the job is joined in");
    assert_eq!(alloc["NodeID"], node.id.to_string());
    let eval = world
        .get(&format!("/v1/evaluation/{eval}"))
        .await
        .expect("the evaluation");
    assert_eq!(eval["JobID"], "web");
    let evals = world
        .get("/v1/evaluations?job=web&status=complete")
        .await
        .expect("a list");
    assert_eq!(evals.as_array().map(Vec::len), Some(1));
    let summary = world.get("/v1/job/web/summary").await.expect("counters");
    assert_eq!(summary["Summary"]["web"]["Starting"], 1);

    let stopped = world
        .put(&format!("/v1/allocation/{id}/stop"), json!({}))
        .await
        .expect("stops");
    assert_eq!(stopped["EvalID"].as_str().map(str::len), Some(36));
    world.until(|snapshot| snapshot.allocs().count() == 2).await;
    let alloc = world
        .get(&format!("/v1/allocation/{id}"))
        .await
        .expect("the allocation");
    assert_eq!(alloc["DesiredStatus"], "stop");
    let again = world
        .put("/v1/job/web/evaluate", json!({}))
        .await
        .expect("evaluated");
    assert_eq!(again["EvalID"].as_str().map(str::len), Some(36));
}
