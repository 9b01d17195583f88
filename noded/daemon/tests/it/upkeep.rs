//! What noded does without being asked: another configuration, facts that change, a disk that fills
//! up.

use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, Job, JobType};
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;
use serde_json::json;

use crate::fake_server::PATIENCE;
use crate::jobs::{PAUSE, alloc, eventually, is, job, sh};
use crate::scene::{Scene, can_run};

async fn synced() -> Scene {
    let scene = Scene::new();
    scene
        .server
        .until("a sync", |known| known.synced.len() == 1)
        .await;
    // The signal's handler is there once noded says that it starts.
    eventually(|| scene.log().contains("noded starts")).await;
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_reaches_the_server_and_nothing_else_does() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    scene.configure("meta {\n  rack = \"r2\"\n}\nfingerprint_interval = \"1s\"");
    scene.reload();
    let known = scene
        .server
        .until("the new facts", |known| !known.facts.is_empty())
        .await;
    assert_eq!(known.facts[0].meta["rack"], "r2");
    // It looks again every second now, and nothing changes.
    scene.configure("meta {\n  rack = \"r3\"\n}\nfingerprint_interval = \"1s\"");
    let looks = || scene.log().matches("the facts are unchanged").count();
    let before = looks();
    eventually(|| looks() >= before + 2).await;
    assert_eq!(scene.server.known().facts.len(), 1);
    scene.reload();
    let known = scene
        .server
        .until("the next facts", |known| known.facts.len() > 1)
        .await;
    assert_eq!(known.facts.len(), 2);
    assert_eq!(known.facts[1].meta["rack"], "r3");
    assert_eq!(known.hellos.len(), 1, "the session went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_wrong_changes_nothing_and_says_where() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    scene.configure("gc_disk_usage_threshold = 300\nmeta {\n  rack = \"r2\"\n}");
    scene.reload();
    eventually(|| scene.log().contains("nothing was changed")).await;
    let log = scene.log();
    assert!(log.contains("gc_disk_usage_threshold"), "{log}");
    scene.configure("log_json = true");
    scene.reload();
    eventually(|| scene.log().contains("take effect after a restart of noded")).await;
    assert!(scene.log().contains("log_json"));
    assert!(scene.server.known().facts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_may_be_switched_off_while_its_tasks_run() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    let running = job("runs", "mock_driver", &json!({}), json!({}));
    let first = alloc(&running, 70);
    scene.server.want(first.clone(), &running);
    scene
        .server
        .until("running", |known| {
            is(known, first.id, ClientStatus::Running)
        })
        .await;
    let text = std::fs::read_to_string(scene.directory.path().join("noded.hcl")).unwrap();
    let off = text.replacen(
        "driver \"mock_driver\" {\n  enabled = true",
        "driver \"mock_driver\" {\n  enabled = false",
        1,
    );
    assert_ne!(off, text);
    std::fs::write(scene.directory.path().join("noded.hcl"), off).unwrap();
    scene.reload();
    let known = scene
        .server
        .until("the new facts", |known| !known.facts.is_empty())
        .await;
    assert!(!known.facts[0].drivers.contains_key("mock_driver"));
    let second = alloc(&running, 71);
    scene.server.want(second.clone(), &running);
    let known = scene
        .server
        .until("failed", |known| is(known, second.id, ClientStatus::Failed))
        .await;
    assert!(is(&known, first.id, ClientStatus::Running));
}

/// One allocation that lives, and two that have ended and are known to have.
async fn living_and_ended(scene: &Scene) -> (AllocId, [AllocId; 2]) {
    let lives = job("lives", "mock_driver", &json!({}), json!({}));
    let mut ends = Job::clone(&job("ends", "raw_exec", &sh("echo done"), json!({})));
    ends.job_type = JobType::Batch;
    let ends = Arc::new(ends);
    let living = alloc(&lives, 80);
    let ended = [alloc(&ends, 81), alloc(&ends, 82)];
    let ids = (living.id, [ended[0].id, ended[1].id]);
    scene.server.want(living, &lives);
    for alloc in ended {
        scene.server.want(alloc, &ends);
    }
    scene
        .server
        .until("one runs, both others ended", |known| {
            let ended = |id: &AllocId| is(known, *id, ClientStatus::Complete);
            is(known, ids.0, ClientStatus::Running) && ids.1.iter().all(ended)
        })
        .await;
    assert!(ids.1.iter().all(|id| scene.alloc_path(*id).exists()));
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_ended_allocations_and_never_a_running_one() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    let (living, ended) = living_and_ended(&scene).await;
    scene.configure("gc_interval = \"1s\"\ngc_disk_usage_threshold = 1");
    scene.reload();
    eventually(|| ended.iter().all(|id| !scene.alloc_path(*id).exists())).await;
    eventually(|| scene.log().contains("no allocation on it has ended")).await;
    assert!(scene.alloc_path(living).exists());
    assert!(is(&scene.server.known(), living, ClientStatus::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_s_collection_takes_ended_allocations_and_never_a_running_one() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    let (living, ended) = living_and_ended(&scene).await;
    let collect = || Request::CollectGarbage(v1::CollectGarbageRequest {});
    // An end is collected once its acknowledgement is here, which is behind its report.
    let gone = || ended.iter().all(|id| !scene.alloc_path(*id).exists());
    let waited = tokio::time::timeout(PATIENCE, async {
        while !gone() {
            assert_eq!(scene.server.call(None, collect()).await.unwrap(), []);
            tokio::time::sleep(PAUSE).await;
        }
    });
    waited.await.expect("they stay");
    assert!(scene.alloc_path(living).exists());
    assert!(is(&scene.server.known(), living, ClientStatus::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_ended_allocation_is_collected_by_name_and_no_other() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    let (living, ended) = living_and_ended(&scene).await;
    let collect = || Request::CollectGarbage(v1::CollectGarbageRequest {});
    let refused = scene.server.call(living, collect()).await.unwrap_err();
    assert_eq!(refused.status, 400, "{}", refused.message);
    // Until the acknowledgement of its end is here, it is refused for now.
    let waited = tokio::time::timeout(PATIENCE, async {
        while let Err(refused) = scene.server.call(ended[0], collect()).await {
            assert_eq!(refused.status, 503, "{}", refused.message);
            tokio::time::sleep(PAUSE).await;
        }
    });
    waited.await.expect("it stays");
    eventually(|| !scene.alloc_path(ended[0]).exists()).await;
    let waited = tokio::time::timeout(PATIENCE, async {
        while scene.server.call(ended[0], collect()).await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    });
    waited.await.expect("it is forgotten");
    let refused = scene.server.call(ended[0], collect()).await.unwrap_err();
    assert_eq!(refused.status, 404, "{}", refused.message);
    assert!(scene.alloc_path(living).exists());
    assert!(scene.alloc_path(ended[1]).exists());
    assert!(is(&scene.server.known(), living, ClientStatus::Running));
}
