//! The text of a job: read, found wrong, warned of, and kept beside what was made from it.

use serde_json::{Value, json};

use crate::world::{World, refusal, service};

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
    let body = json!({ "JobHCL": hcl, "Variables": "count = 3" });
    let job = world.put("/v1/jobs/parse", body).await.expect("parsed");
    let group = &job["TaskGroups"][0];
    assert_eq!([&job["ID"], &group["Count"]], [&json!("web"), &json!(3)]);
    for (name, value) in [
        ("Type", &job["Type"]),
        ("Status", &job["Status"]),
        ("Priority", &job["Priority"]),
        ("Namespace", &job["Namespace"]),
        ("Version", &job["Version"]),
        ("RestartPolicy", &group["RestartPolicy"]),
        ("User", &group["Tasks"][0]["User"]),
        ("Leader", &group["Tasks"][0]["Leader"]),
    ] {
        assert!(value.is_null(), "{name}: {value}");
    }
    let (status, words) = refusal(
        world
            .put("/v1/jobs/parse", json!({ "JobHCL": "job {" }))
            .await,
    );
    assert_eq!(status, 400);
    assert!(words.contains("job.hcl"), "{words}");
    for name in ["HCLv1", "hclv1"] {
        let older = json!({ "JobHCL": hcl, "Variables": "count = 3", name: true });
        let (status, words) = refusal(world.put("/v1/jobs/parse", older).await);
        assert!(status == 400 && words.contains("HCL1"), "{words}");
    }
    let secrets = json!({ "JobHCL": "job \"x\" { name = file(\"/etc/shadow\") }" });
    assert_eq!(refusal(world.put("/v1/jobs/parse", secrets).await).0, 400);
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

/// What registering, planning and validating say of a job: the first two refuse it with 400.
async fn refusals(world: &World, job: &Value) -> (String, String, Value) {
    let body = json!({ "Job": job });
    let (status, run) = refusal(world.put("/v1/jobs", body.clone()).await);
    assert_eq!(status, 400, "{run}");
    let path = format!("/v1/job/{}/plan", job["ID"].as_str().expect("an id"));
    let (status, plan) = refusal(world.put(&path, body.clone()).await);
    assert_eq!(status, 400, "{plan}");
    let validated = world.put("/v1/validate/job", body).await;
    (run, plan, validated.expect("an answer"))
}

#[tokio::test]
async fn unknown_namespace_is_refused_alike_by_run_plan_and_validate() {
    let world = World::start().await;
    let periodic = json!({ "Spec": "0 3 * * *", "SpecType": "cron" });
    for (kind, periodic) in [("service", Value::Null), ("batch", periodic)] {
        let mut job = service("web");
        job["Type"] = json!(kind);
        job["Periodic"] = periodic;
        job["Namespace"] = json!("nope");
        let (run, plan, validated) = refusals(&world, &job).await;
        assert_eq!(run, "namespace \"nope\" not found");
        assert_eq!(plan, run, "{kind}");
        assert_eq!(validated["Error"], json!(run), "{kind}");
        assert_eq!(validated["ValidationErrors"], json!([run]), "{kind}");
    }
    // Where the namespace is a parameter it is the job's.
    let body = json!({ "Job": service("web") });
    let path = "/v1/validate/job?namespace=nope";
    let validated = world.put(path, body).await.expect("an answer");
    assert_eq!(validated["Error"], "namespace \"nope\" not found");
}

#[tokio::test]
async fn changed_kind_is_refused_alike_by_run_plan_and_validate() {
    let world = World::start().await;
    let body = json!({ "Job": service("web") });
    world
        .put("/v1/jobs", body.clone())
        .await
        .expect("registered");
    let again = world.put("/v1/validate/job", body).await.expect("valid");
    assert_eq!(again["ValidationErrors"], Value::Null, "{again}");
    assert_eq!(again["Error"], "");

    let mut job = service("web");
    job["Type"] = json!("batch");
    let (run, plan, validated) = refusals(&world, &job).await;
    assert!(run.contains("cannot update job from type"), "{run}");
    assert_eq!((&plan, &validated["Error"]), (&run, &json!(run)));
}

#[tokio::test]
async fn validation_lists_mistakes_of_the_job_and_of_its_place() {
    let world = World::start().await;
    let mut job = service("web");
    job["Priority"] = json!(700);
    job["Namespace"] = json!("nope");
    let answer = world
        .put("/v1/validate/job", json!({ "Job": job }))
        .await
        .expect("an answer");
    let mistakes = answer["ValidationErrors"].as_array().expect("a list");
    assert_eq!(mistakes.len(), 2, "{answer}");
    assert_eq!(mistakes[1], "namespace \"nope\" not found");
    let text = answer["Error"].as_str().unwrap_or_default();
    assert!(text.ends_with("\nnamespace \"nope\" not found"), "{text}");
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
