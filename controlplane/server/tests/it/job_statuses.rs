//! `/v1/jobs/statuses`: many jobs with their allocations in one answer.

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

fn ids(list: &Value) -> Vec<&str> {
    let jobs = list.as_array().into_iter().flatten();
    jobs.filter_map(|job| job["ID"].as_str()).collect()
}

#[tokio::test]
async fn statuses_of_jobs_come_with_the_newest_change_first_and_in_pages() {
    let world = World::start().await;
    let mut template = service("work");
    template["Type"] = json!("batch");
    template["ParameterizedJob"] = json!({});
    world
        .put("/v1/jobs", json!({ "Job": template }))
        .await
        .expect("registered");
    world
        .put("/v1/job/work/dispatch", json!({}))
        .await
        .expect("dispatched");
    for id in ["a", "b", "c"] {
        world
            .put("/v1/jobs", json!({ "Job": service(id) }))
            .await
            .expect("registered");
    }
    world
        .until(|snapshot| {
            let blocked = |eval: &protocol_model::Evaluation| {
                eval.status == protocol_model::EvalStatus::Blocked
            };
            snapshot.evals().filter(|eval| blocked(eval)).count() >= 4
        })
        .await;
    let all = world.get("/v1/jobs/statuses").await.expect("a list");
    assert_eq!(ids(&all), ["c", "b", "a", "work"], "{all}");
    let first = world
        .get_whole("/v1/jobs/statuses?per_page=2")
        .await
        .expect("a page");
    assert_eq!(ids(&first.value), ["c", "b"]);
    let token = first.next_token.expect("there is more");
    let path = format!("/v1/jobs/statuses?per_page=2&next_token={token}");
    assert_eq!(ids(&world.get(&path).await.expect("a page")), ["a", "work"]);
    let oldest = world
        .get("/v1/jobs/statuses?reverse=true")
        .await
        .expect("a list");
    assert_eq!(ids(&oldest), ["work", "a", "b", "c"]);
    let chosen = world
        .get("/v1/jobs/statuses?filter=ID == b")
        .await
        .expect("a list");
    assert_eq!(ids(&chosen), ["b"]);
}

#[tokio::test]
async fn statuses_name_allocations_and_deployments() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    world.placed("web").await;
    let body = json!({ "Jobs": [{ "ID": "web", "Namespace": "default" }, { "ID": "nope" }] });
    let list = world.put("/v1/jobs/statuses", body).await.expect("a list");
    assert_eq!(ids(&list), ["web"]);
    let job = &list[0];
    assert_eq!(job["Type"], "service");
    assert_eq!(job["GroupCountSum"], 1);
    assert_eq!(job["ChildStatuses"], Value::Null);
    assert_eq!(job["Allocs"][0]["Group"], "web");
    assert_eq!(job["Allocs"][0]["ClientStatus"], "pending");
    assert_eq!(job["Allocs"][0]["DeploymentStatus"]["Healthy"], Value::Null);
    assert_eq!(job["LatestDeployment"]["IsActive"], true);
    assert_eq!(job["LatestDeployment"]["RequiresPromotion"], false);
}

#[tokio::test]
async fn statuses_of_no_jobs_are_refused() {
    let world = World::start().await;
    let refused = world.put("/v1/jobs/statuses", json!({ "Jobs": [] })).await;
    assert_eq!(refusal(refused), (400, "no jobs in request".to_owned()));
}
