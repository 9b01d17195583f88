//! What belongs to a job, and where it is found: namespaces, lists, allocations.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

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
async fn who_waits_for_allocations_is_woken_by_his_own_only() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let placed = async |id: &str, count: usize| {
        let job = json!({ "Job": service(id) });
        world.put("/v1/jobs", job).await.expect("registered");
        world
            .until(|snapshot| snapshot.allocs().count() == count)
            .await;
        let path = format!("/v1/job/{id}/allocations");
        let allocs = world.get_whole(&path).await.expect("a list");
        let alloc = allocs.value[0]["ID"].as_str().expect("an id").to_owned();
        (path, alloc, allocs.index)
    };
    let (of_job, alloc, index) = placed("web", 1).await;
    let of_alloc = format!("/v1/allocation/{alloc}");
    let (_, other, later) = placed("other", 2).await;
    assert!(later > index, "the table has changed");
    for path in [&of_job, &of_alloc] {
        let begun = Instant::now();
        let path = format!("{path}?index={index}&wait=300ms");
        let answer = world.get_whole(&path).await.expect("an answer");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{path}");
        assert_eq!(answer.index, later, "what is known now is of now");
    }

    let path = format!("{of_job}?index={later}&wait=60s");
    let blocked = world.get_whole(&path);
    let stop = async |alloc: &str| {
        let path = format!("/v1/allocation/{alloc}/stop");
        world.put(&path, json!({})).await.expect("stops");
    };
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(blocked, async {
        stop(&other).await;
        stop(&alloc).await;
    });
    let answer = answer.expect("a list");
    let stopped = answer.value.as_array().expect("a list");
    let stopped = stopped.iter().find(|it| it["ID"] == alloc.as_str());
    assert!(stopped.expect("it is there")["ModifyIndex"].as_u64() > Some(later));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn who_waits_for_a_job_that_is_never_placed_waits() {
    let world = World::start().await;
    let job = json!({ "Job": service("web") });
    world.put("/v1/jobs", job).await.expect("registered");
    let path = "/v1/job/web/allocations";
    let list = world.get_whole(path).await.expect("a list");
    // The job is newer than any change of an allocation: what was answered has to count as known.
    let begun = Instant::now();
    let path = format!("{path}?index={}&wait=300ms", list.index);
    let again = world.get_whole(&path).await.expect("a list");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(again.index, list.index);
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

#[tokio::test]
async fn what_an_allocation_was_given_is_told_as_nomads_command_line_reads_it_too() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    world.placed("web").await;
    let path = format!("/v1/node/{}/allocations", node.id);
    let of_node = world.get(&path).await.expect("a list");
    let id = of_node[0]["ID"].as_str().expect("an id");
    let alloc = world
        .get(&format!("/v1/allocation/{id}"))
        .await
        .expect("the allocation");
    let given = &alloc["AllocatedResources"];
    let mhz = &given["Tasks"]["server"]["Cpu"]["CpuShares"];
    assert!(mhz.as_i64().is_some_and(|mhz| mhz > 0), "{alloc}");
    assert_eq!(&alloc["TaskResources"]["server"]["CPU"], mhz);
    assert_eq!(&alloc["Resources"]["CPU"], mhz);
    assert_eq!(alloc["Resources"]["DiskMB"], given["Shared"]["DiskMB"]);
    assert_eq!(of_node[0]["Resources"], alloc["Resources"]);
    assert_eq!(
        alloc["SharedResources"]["DiskMB"],
        given["Shared"]["DiskMB"]
    );
    assert_eq!(given["TaskLifecycles"], json!({ "server": null }));
    assert_eq!(&of_node[0]["AllocatedResources"], given);
    let list = world.get("/v1/allocations?resources=true").await;
    assert_eq!(&list.expect("a list")[0]["AllocatedResources"], given);
}

#[tokio::test]
async fn evaluations_leave_empty_keys_out_and_show_related_ones() {
    let world = World::start().await;
    // There is no node: the evaluation is complete, and another one waits for room.
    let body = json!({ "Job": service("web") });
    let registered = world.put("/v1/jobs", body).await.expect("registered");
    world
        .until(|snapshot| snapshot.evals().any(|eval| eval.blocked_eval.is_some()))
        .await;
    let id = registered["EvalID"].as_str().expect("an id");
    let path = format!("/v1/evaluation/{id}");
    let one = world.get(&path).await.expect("the evaluation");
    let related = world.get(&format!("{path}?related=true")).await;
    let related = related.expect("the evaluation");
    assert_eq!(one.get("RelatedEvals"), None);
    let waiting = &related["RelatedEvals"][0];
    assert_eq!(waiting["ID"], one["BlockedEval"]);
    assert_eq!(waiting["PreviousEval"], id);
    assert_eq!(waiting["Status"], "blocked");

    for path in ["/v1/evaluations", "/v1/job/web/evaluations"] {
        let list = world.get(path).await.expect("a list");
        let list = list.as_array().expect("a list").clone();
        assert!(list.contains(&one), "{path}");
        for (name, value) in list.iter().flat_map(|eval| eval.as_object()).flatten() {
            let empty = [json!(null), json!(""), json!(0), json!(false), json!({})];
            assert!(!empty.contains(value), "{path}: {name} is {value}");
        }
    }
}

#[tokio::test]
async fn an_evaluation_of_another_job_than_the_path_names_is_refused() {
    let world = World::start().await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let ask = async |id: &str| {
        let body = json!({ "JobID": id });
        world.put("/v1/job/web/evaluate", body).await
    };
    let refused = refusal(ask("other").await);
    assert_eq!(refused, (400, "JobID does not match".to_owned()));
    ask("web").await.expect("the same job");
}
