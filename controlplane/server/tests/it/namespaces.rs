//! `/v1/namespaces` and `/v1/namespace/:name`, and what a namespace does to its jobs.

use protocol_client::{Answer, Client, ClientError, Query};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::three::{client, cluster};
use crate::world::{World, refusal, service};

const DENIED: &str = "used task driver \"raw_exec\" is not allowed in namespace \"dev\"";

async fn put(world: &World, namespace: Value) {
    let answer = world.put("/v1/namespace", namespace).await;
    let index = answer.expect("it is written")["Index"].as_u64();
    assert!(index > Some(0), "{index:?}");
}

fn without_raw_exec() -> Value {
    json!({ "Name": "dev", "Capabilities": { "DisabledTaskDrivers": ["raw_exec"] } })
}

/// A job in `dev`, whose task has the driver `raw_exec`.
fn in_dev(id: &str) -> Value {
    let mut job = service(id);
    job["Namespace"] = json!("dev");
    job
}

fn batch_in_dev(id: &str) -> Value {
    let mut job = in_dev(id);
    job["Type"] = json!("batch");
    job
}

async fn register(world: &World, job: Value) -> Result<Value, ClientError> {
    world.put("/v1/jobs", json!({ "Job": job })).await
}

#[tokio::test]
async fn a_namespace_is_read_as_it_was_written() {
    let world = World::start().await;
    let written = json!({
        "Name": "dev",
        "Description": "for developers",
        "Quota": "",
        "Capabilities": {
            "EnabledTaskDrivers": ["exec", "docker"],
            "DisabledTaskDrivers": ["raw_exec"],
            "EnabledNetworkModes": null,
            "DisabledNetworkModes": ["host"],
        },
        "NodePoolConfiguration": { "Default": "default", "Allowed": ["gpu-*"], "Denied": null },
        "VariablesBytesMax": 1024,
        "Meta": { "owner": "ops" },
    });
    // Clients post, too.
    let body = written.to_string();
    let (status, _, answer) = world.raw("POST /v1/namespace HTTP/1.1", &body).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let index = answer["Index"].as_u64().expect("an index");
    assert_eq!((status, index > 0), (200, true));
    let mut expected = written.clone();
    expected["CreateIndex"] = json!(index);
    expected["ModifyIndex"] = json!(index);
    let read = world.get("/v1/namespace/dev").await.expect("the namespace");
    assert_eq!(read, expected);
    // What an answer has may be sent back, and what a body leaves out is empty then.
    world.put("/v1/namespace/dev", read).await.expect("written");
    put(&world, json!({ "Name": "dev", "Meta": null })).await;
    let read = world.get("/v1/namespace/dev").await.expect("the namespace");
    assert_eq!(read["CreateIndex"], index);
    assert!(read["ModifyIndex"].as_u64() > Some(index));
    for field in ["Capabilities", "NodePoolConfiguration", "Meta"] {
        assert_eq!(read[field], Value::Null, "{field}");
    }
    assert_eq!(
        (&read["Description"], &read["VariablesBytesMax"]),
        (&json!(""), &json!(0))
    );
}

#[tokio::test]
async fn namespaces_are_listed_sorted_and_by_prefix() {
    let world = World::start().await;
    for name in ["team-b", "alpha", "team-a", "Z"] {
        put(&world, json!({ "Name": name })).await;
    }
    let names = async |path: &str| {
        let list = world.get(path).await.expect("a list");
        let items = list.as_array().expect("a list").iter();
        let names = items.map(|item| item["Name"].as_str().unwrap_or("").to_owned());
        names.collect::<Vec<_>>()
    };
    let all = ["Z", "alpha", "default", "team-a", "team-b"];
    assert_eq!(names("/v1/namespaces").await, all);
    assert_eq!(names("/v1/namespaces?prefix=team").await, all[3..]);
}

#[tokio::test]
async fn bad_namespaces_are_refused_and_missing_ones_not_found() {
    let world = World::start().await;
    let (status, text) = refusal(world.put("/v1/namespace", json!({ "Name": "*" })).await);
    let expected = "invalid name \"*\". Must match regex ^[a-zA-Z0-9-]{1,128}$";
    assert_eq!((status, text.as_str()), (400, expected));
    let other = world.put("/v1/namespace/x", json!({ "Name": "y" })).await;
    assert_eq!(refusal(other).0, 400);
    let wrong = json!({ "Name": "x", "Capabilities": { "EnabledTaskDrivers": "exec" } });
    let (status, text) = refusal(world.put("/v1/namespace", wrong).await);
    assert_eq!(
        (status, text.contains("expected a sequence")),
        (400, true),
        "{text}"
    );
    let (status, text) = refusal(world.get("/v1/namespace/x").await);
    assert_eq!((status, text.as_str()), (404, "Namespace not found"));
}

#[tokio::test]
async fn plan_validate_and_registration_refuse_in_the_same_words() {
    let world = World::start().await;
    put(&world, without_raw_exec()).await;
    let body = json!({ "Job": in_dev("web") });
    let planned = world
        .put("/v1/job/web/plan?namespace=dev", body.clone())
        .await;
    assert_eq!(refusal(planned), (400, DENIED.to_owned()));
    let registered = world.put("/v1/jobs", body.clone()).await;
    assert_eq!(refusal(registered), (400, DENIED.to_owned()));
    let validated = world
        .put("/v1/validate/job", body)
        .await
        .expect("an answer");
    assert_eq!(validated["ValidationErrors"], json!([DENIED]));
    let mut two = in_dev("web");
    two["TaskGroups"][0]["Networks"] = json!([{ "Mode": "host" }]);
    put(
        &world,
        json!({
            "Name": "dev",
            "Capabilities": {
                "EnabledTaskDrivers": ["docker"], "EnabledNetworkModes": ["bridge"],
            },
        }),
    )
    .await;
    let mode = "used group network mode \"host\" is not allowed in namespace \"dev\"";
    let all = format!("{DENIED}\n{mode}");
    assert_eq!(refusal(register(&world, two).await), (400, all));
    put(&world, json!({ "Name": "dev" })).await;
    register(&world, in_dev("web")).await.expect("registered");
}

#[tokio::test]
async fn versions_and_children_are_judged_when_they_come_back() {
    let world = World::start().await;
    put(&world, json!({ "Name": "dev" })).await;
    let mut work = batch_in_dev("work");
    work["ParameterizedJob"] = json!({});
    let mut backup = batch_in_dev("backup");
    backup["Periodic"] = json!({ "Spec": "0 0 1 1 *", "SpecType": "cron" });
    let mut count = batch_in_dev("count");
    count["TaskGroups"][0]["Tasks"][0]["Driver"] = json!("exec");
    for job in [in_dev("web"), work, backup, count] {
        register(&world, job).await.expect("registered");
    }
    let mut next = in_dev("web");
    next["TaskGroups"][0]["Tasks"][0]["Driver"] = json!("exec");
    register(&world, next).await.expect("registered");
    put(&world, without_raw_exec()).await;
    let denied = (400, DENIED.to_owned());
    let revert = json!({ "JobID": "web", "JobVersion": 0 });
    let answer = world.put("/v1/job/web/revert?namespace=dev", revert).await;
    assert_eq!(refusal(answer), denied);
    let answer = world
        .put("/v1/job/work/dispatch?namespace=dev", json!({}))
        .await;
    assert_eq!(refusal(answer), denied);
    let path = "/v1/job/backup/periodic/force?namespace=dev";
    assert_eq!(refusal(world.put(path, json!({})).await), denied);
    // One that is allowed is scaled.
    let scale = json!({ "Target": { "Group": "web" }, "Count": 2 });
    let path = "/v1/job/count/scale?namespace=dev";
    world.put(path, scale.clone()).await.expect("scaled");
    let disabled = json!({
        "Name": "dev", "Capabilities": { "DisabledTaskDrivers": ["exec"] },
    });
    put(&world, disabled).await;
    let (status, text) = refusal(world.put(path, scale).await);
    assert_eq!((status, text.contains("\"exec\"")), (400, true), "{text}");
    // Stopping is not registering.
    world
        .delete("/v1/job/web?namespace=dev")
        .await
        .expect("stopped");
}

#[tokio::test]
async fn a_job_without_a_pool_gets_that_of_its_namespace() {
    let world = World::start().await;
    for pool in ["gpu-a", "prod"] {
        let body = json!({ "Name": pool });
        world.put("/v1/node/pools", body).await.expect("a pool");
    }
    let pools = json!({ "Default": "gpu-a", "Allowed": ["gpu-*"] });
    put(
        &world,
        json!({ "Name": "dev", "NodePoolConfiguration": pools }),
    )
    .await;
    register(&world, in_dev("web")).await.expect("registered");
    let job = world
        .get("/v1/job/web?namespace=dev")
        .await
        .expect("the job");
    assert_eq!(job["NodePool"], "gpu-a");
    let mut other = in_dev("other");
    other["NodePool"] = json!("prod");
    let text = "used node pool \"prod\" is not allowed in namespace \"dev\"";
    assert_eq!(
        refusal(register(&world, other).await),
        (400, text.to_owned())
    );
    register(&world, service("web")).await.expect("registered");
    let job = world.get("/v1/job/web").await.expect("the job");
    assert_eq!(job["NodePool"], "default");
}

#[tokio::test]
async fn a_deletion_says_what_is_still_in_the_namespace() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    put(&world, json!({ "Name": "dev" })).await;
    register(&world, in_dev("web")).await.expect("registered");
    let key = protocol_model::JobKey::new("dev", "web");
    world
        .until(|snapshot| snapshot.allocs_by_job(&key).count() == 1)
        .await;
    let path = "/v1/namespace/dev";
    let text = "namespace \"dev\" has non-terminal jobs in regions: [global] (1)\n\
                namespace \"dev\" has non-terminal allocations in regions: [global] (1)";
    assert_eq!(refusal(world.delete(path).await), (400, text.to_owned()));
    world
        .delete("/v1/job/web?namespace=dev")
        .await
        .expect("stopped");
    world
        .until(|snapshot| {
            let mut live = snapshot.allocs_by_job(&key).filter(|it| !it.terminal());
            live.next().is_none()
                && snapshot
                    .job(&key)
                    .is_some_and(|job| job.status == protocol_model::JobStatus::Dead)
        })
        .await;
    world.delete(path).await.expect("deleted");
    assert_eq!(refusal(world.get(path).await).0, 404);
    // It is not there any more, which was asked for.
    let again = world.delete(path).await.expect("deleted");
    assert!(again["Index"].as_u64() > Some(0));
    let (status, text) = refusal(world.delete("/v1/namespace/default").await);
    assert_eq!(
        (status, text.as_str()),
        (400, "can not delete default namespace")
    );
}

/// The bodies of python-nomad (`create_namespace`, `update_namespace`) and of Nomad's Go client,
/// whose empty lists and absent blocks are `null`.
#[tokio::test]
async fn bodies_of_other_peoples_clients_are_taken() {
    let world = World::start().await;
    let python = json!({
        "Name": "py", "Description": "", "Meta": {}, "Quota": "", "Capabilities": null,
    });
    let go = json!({
        "Name": "go",
        "Description": "for gophers",
        "Quota": "",
        "Capabilities": {
            "EnabledTaskDrivers": null,
            "DisabledTaskDrivers": ["raw_exec"],
            "EnabledNetworkModes": null,
            "DisabledNetworkModes": null,
        },
        "NodePoolConfiguration": null,
        "VaultConfiguration": null,
        "ConsulConfiguration": null,
        "Meta": null,
        "CreateIndex": 0,
        "ModifyIndex": 0,
    });
    for (method, path, body) in [
        ("POST", "/v1/namespace", &python),
        ("POST", "/v1/namespace/py", &python),
        ("PUT", "/v1/namespace", &go),
        ("PUT", "/v1/namespaces", &go),
    ] {
        let head = format!("{method} {path} HTTP/1.1");
        let (status, _, text) = world.raw(&head, &body.to_string()).await;
        if path == "/v1/namespaces" {
            assert_eq!(status, 405, "{text}");
            continue;
        }
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status, 200, "{text}");
        assert!(answer["Index"].as_u64() > Some(0), "{text}");
    }
    let read = world.get("/v1/namespace/go").await.expect("the namespace");
    for field in [
        "Name",
        "Description",
        "Quota",
        "Capabilities",
        "NodePoolConfiguration",
        "Meta",
    ] {
        assert_eq!(read[field], go[field], "{field}");
    }
    // A missing one is an error that clients tell by its status and text.
    let (status, _, text) = world.raw("GET /v1/namespace/nope HTTP/1.1", "").await;
    assert_eq!((status, text.as_str()), (404, "Namespace not found"));
    let (status, _, text) = world.raw("DELETE /v1/namespace/py HTTP/1.1", "").await;
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, answer["Index"].as_u64() > Some(0)), (200, true));
}

/// A namespace that one server wrote is the one that the next server judges by.
#[tokio::test(flavor = "multi_thread")]
async fn each_server_registers_by_the_namespace_that_was_acknowledged() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let put = async |number: usize, path: &str, body: Value| {
        let client = &clients[number % clients.len()];
        client.put::<_, Value>(path, &Query::new(), &body).await
    };
    let pools = ["a", "b", "c", "d"];
    for pool in pools {
        let made = put(0, "/v1/node/pools", json!({ "Name": pool })).await;
        made.expect("a pool");
    }
    for (number, pool) in pools.into_iter().cycle().take(24).enumerate() {
        let mut namespace = without_raw_exec();
        namespace["NodePoolConfiguration"] = json!({ "Default": pool });
        let written = put(number, "/v1/namespace", namespace).await;
        written.expect("it is written");
        let body = json!({ "Job": in_dev("web") });
        let denied = put(number + 1, "/v1/jobs", body.clone()).await;
        assert_eq!(refusal(denied), (400, DENIED.to_owned()));
        let namespace = json!({ "Name": "dev", "NodePoolConfiguration": { "Default": pool } });
        let written = put(number, "/v1/namespace", namespace).await;
        written.expect("it is written");
        put(number + 1, "/v1/jobs", body).await.expect("registered");
        let query = Query::new().with("namespace", "dev");
        let job: Answer<Value> = clients[(number + 2) % clients.len()]
            .get("/v1/job/web", &query)
            .await
            .expect("the job");
        assert_eq!(job.value["NodePool"], pool);
    }
}
