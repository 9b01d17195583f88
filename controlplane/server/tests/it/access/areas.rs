//! Namespaces: judged in the object's, and lists show what the caller may see.

use protocol_client::Query;
use serde_json::{Value, json};

use super::{policy, token, world};
use crate::world::{refusal, service};

/// A job of each of two namespaces; its evaluations stay, because no node runs anything.
async fn two_namespaces() -> (crate::world::World, protocol_client::Client) {
    let (world, manager) = world().await;
    let none = Query::new();
    for namespace in ["dev", "prod"] {
        let body = json!({ "Name": namespace });
        let _: Value = manager
            .put("/v1/namespace", &none, &body)
            .await
            .expect("made")
            .value;
        let mut job = service("web");
        job["Namespace"] = json!(namespace);
        let body = json!({ "Job": job });
        let _: Value = manager
            .put("/v1/jobs", &none, &body)
            .await
            .expect("registered")
            .value;
    }
    (world, manager)
}

#[tokio::test]
async fn lists_show_the_namespaces_that_the_caller_may_read() {
    let (world, _) = two_namespaces().await;
    let cluster = world.server.cluster();
    policy(cluster, "dev", "namespace \"dev\" { policy = \"read\" }").await;
    let reader = token(cluster, &["dev"]).await.of(&world.client);
    let all = Query::new().with("namespace", "*");
    let jobs: Value = reader.get("/v1/jobs", &all).await.expect("a list").value;
    let jobs = jobs.as_array().expect("a list");
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["Namespace"], "dev");
    let evals: Value = reader
        .get("/v1/evaluations", &all)
        .await
        .expect("a list")
        .value;
    let evals = evals.as_array().expect("a list");
    assert!(!evals.is_empty() && evals.iter().all(|it| it["Namespace"] == "dev"));
    let none = Query::new();
    let names: Value = reader
        .get("/v1/namespaces", &none)
        .await
        .expect("a list")
        .value;
    assert_eq!(names.as_array().expect("a list").len(), 1);
    let prod = Query::new().with("namespace", "prod");
    let denied = (403, "Permission denied".to_owned());
    assert_eq!(
        refusal(reader.get::<Value>("/v1/jobs", &prod).await),
        denied
    );
}

#[tokio::test]
async fn an_object_of_another_namespace_is_hidden_whatever_the_query_says() {
    let (world, manager) = two_namespaces().await;
    let cluster = world.server.cluster();
    policy(cluster, "dev", "namespace \"dev\" { policy = \"read\" }").await;
    policy(cluster, "node", "node { policy = \"read\" }").await;
    let reader = token(cluster, &["dev"]).await.of(&world.client);
    let other = token(cluster, &["node"]).await.of(&world.client);
    let prod = Query::new().with("namespace", "prod");
    let evals: Value = manager
        .get("/v1/evaluations", &prod)
        .await
        .expect("a list")
        .value;
    let id = evals[0]["ID"].as_str().expect("an id");
    let path = format!("/v1/evaluation/{id}");
    for namespace in ["dev", "prod", "*"] {
        let query = Query::new().with("namespace", namespace);
        let hidden = refusal(reader.get::<Value>(&path, &query).await);
        let missing = "/v1/evaluation/11111111-2222-3333-4444-555555555555";
        let missing = refusal(reader.get::<Value>(missing, &query).await);
        assert_eq!(hidden, missing, "as an object that does not exist");
        let (status, _) = refusal(other.get::<Value>(&path, &query).await);
        assert_eq!(status, 403, "a caller who reads no namespace");
    }
    let dev = Query::new().with("namespace", "dev");
    let own: Value = reader
        .get("/v1/evaluations", &dev)
        .await
        .expect("a list")
        .value;
    let id = own[0]["ID"].as_str().expect("an id");
    let path = format!("/v1/evaluation/{id}");
    let read: Value = reader.get(&path, &prod).await.expect("read").value;
    assert_eq!(read["Namespace"], "dev");
}

#[tokio::test]
async fn a_body_is_judged_in_the_namespace_that_it_names() {
    let (world, _) = two_namespaces().await;
    let cluster = world.server.cluster();
    policy(cluster, "dev", "namespace \"dev\" { policy = \"write\" }").await;
    let writer = token(cluster, &["dev"]).await.of(&world.client);
    let dev = Query::new().with("namespace", "dev");
    let mut job = service("web");
    job["Namespace"] = json!("prod");
    let body = json!({ "Job": job });
    let denied = (403, "Permission denied".to_owned());
    for path in [
        "/v1/jobs",
        "/v1/job/web",
        "/v1/job/web/plan",
        "/v1/validate/job",
    ] {
        let answer = writer.put::<_, Value>(path, &dev, &body).await;
        assert_eq!(refusal(answer), denied, "{path}");
    }
    job["Namespace"] = json!("dev");
    let body = json!({ "Job": job });
    let prod = Query::new().with("namespace", "prod");
    let answer: Value = writer
        .put("/v1/jobs", &prod, &body)
        .await
        .expect("registered")
        .value;
    assert_ne!(answer["EvalID"], "");
}

#[tokio::test]
async fn the_policy_anonymous_opens_its_namespaces_and_nothing_else() {
    let (world, _) = two_namespaces().await;
    let denied = (403, "Permission denied".to_owned());
    assert_eq!(refusal(world.get("/v1/jobs?namespace=dev").await), denied);
    let rules = "namespace \"dev\" { policy = \"read\" }";
    policy(world.server.cluster(), "anonymous", rules).await;
    world
        .get("/v1/jobs?namespace=dev")
        .await
        .expect("it is open");
    assert_eq!(refusal(world.get("/v1/jobs?namespace=prod").await), denied);
    assert_eq!(refusal(world.get("/v1/nodes").await), denied);
    let answer = world.delete("/v1/job/web?namespace=dev").await;
    assert_eq!(refusal(answer), denied);
}

#[tokio::test]
async fn a_host_volume_is_mounted_only_with_its_right() {
    let (world, _) = two_namespaces().await;
    let cluster = world.server.cluster();
    let jobs = "namespace \"dev\" { policy = \"write\" }\n";
    let rights = |level: &str| format!("{jobs}host_volume \"data*\" {{ policy = \"{level}\" }}");
    policy(cluster, "none", jobs).await;
    policy(cluster, "read", &rights("read")).await;
    policy(cluster, "write", &rights("write")).await;
    let none = Query::new();
    for (name, may_read, may_write) in [
        ("none", false, false),
        ("read", true, false),
        ("write", true, true),
    ] {
        let client = token(cluster, &[name]).await.of(&world.client);
        for (read_only, may) in [(true, may_read), (false, may_write)] {
            let mut job = service("disk");
            job["Namespace"] = json!("dev");
            job["TaskGroups"][0]["Volumes"] = json!({
                "v": { "Name": "v", "Type": "host", "Source": "data1", "ReadOnly": read_only },
            });
            let body = json!({ "Job": job });
            let answer = client.put::<_, Value>("/v1/jobs", &none, &body).await;
            match may {
                true => drop(answer.expect("registered")),
                false => assert_eq!(refusal(answer).0, 403, "{name}, read only: {read_only}"),
            }
        }
    }
}
