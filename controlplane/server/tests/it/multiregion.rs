//! Jobs that name several regions, in one that no other is joined to.

use protocol_model::{Deployment, DeploymentStatus, JobKey};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

fn in_regions(names: &[&str]) -> Value {
    let mut job = service("web");
    job["Meta"] = json!({"of": "job"});
    job["TaskGroups"][0]["Count"] = json!(0);
    let regions = names.iter().map(
        |name| json!({"Name": name, "Count": 2, "Datacenters": ["dc1"], "Meta": {"of": name}}),
    );
    let regions: Vec<Value> = regions.collect();
    job["Multiregion"] = json!({"Strategy": {"MaxParallel": 1}, "Regions": regions});
    job
}

#[tokio::test]
async fn a_job_for_several_regions_runs_in_ours_as_its_block_says() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let body = json!({"Job": in_regions(&["global", "west"])});
    let plan = world
        .put("/v1/job/web/plan", body.clone())
        .await
        .expect("planned");
    let updates = &plan["Annotations"]["DesiredTGUpdates"];
    let place = updates
        .as_object()
        .and_then(|it| it.values().next())
        .expect("a group");
    assert_eq!(place["Place"], 2);
    let answer = world.put("/v1/jobs", body).await.expect("registered");
    let warnings = answer["Warnings"].as_str().expect("text");
    let text = "multiregion: registered in region \"global\" only, not in \"west\"";
    assert!(warnings.contains(text), "{warnings}");
    let key = JobKey::new("default", "web");
    let snapshot = world
        .until(|snapshot| snapshot.allocs_by_job(&key).count() == 2)
        .await;
    let found = snapshot.latest_deployment(&key).expect("a deployment");
    assert!(found.is_multiregion);
    assert_eq!(found.status, DeploymentStatus::Running);
    assert_eq!(found.status_description, Deployment::RUNNING);
    let job = snapshot.job(&key).expect("registered");
    assert_eq!((&*job.region, &*job.meta["of"]), ("global", "global"));
    let id = found.id.to_string();
    let path = format!("/v1/deployment/unblock/{id}");
    let unblock = world.put(&path, json!({"DeploymentID": id}));
    let (status, text) = refusal(unblock.await);
    assert_eq!((status, &*text), (400, "can't unblock running deployment"));
}

/// A file for several regions may leave open which of them it is sent to.
#[tokio::test]
async fn a_job_without_a_region_of_its_own_is_registered_in_ours() {
    let world = World::start_with(|config| {
        config.region = protocol_transport::Region::parse("eu").expect("a region");
    })
    .await;
    for (region, expected) in [("", Ok(())), ("global", Ok(())), ("us", Err(404))] {
        let mut job = in_regions(&["eu", "us"]);
        job["Region"] = json!(region);
        let answer = world.put("/v1/jobs", json!({ "Job": job })).await;
        let status = answer
            .map(|_| ())
            .map_err(|error| refusal::<()>(Err(error)).0);
        assert_eq!(status, expected, "{region:?}");
    }
    let job = world.get("/v1/job/web").await.expect("registered");
    assert_eq!(
        (&job["Region"], &job["Meta"]["of"]),
        (&json!("eu"), &json!("eu"))
    );
}

#[tokio::test]
async fn a_job_for_other_regions_only_is_refused_with_their_names() {
    let world = World::start().await;
    let body = json!({"Job": in_regions(&["east", "west"])});
    let (status, text) = refusal(world.put("/v1/jobs", body.clone()).await);
    let expected = "multiregion has no block for region \"global\", which this is: \
                    it names \"east\", \"west\"";
    assert_eq!((status, &*text), (400, expected));
    let answer = world.put("/v1/validate/job", body).await.expect("read");
    assert_eq!(answer["ValidationErrors"], json!([expected]));
}
