//! What noded does without being asked: another configuration, facts that change, a disk that fills
//! up.

use protocol_model::{ClientStatus, Job};
use serde_json::json;

use crate::node::{alloc, eventually, is, job, sh};
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
    let looks = || scene.log().matches("the facts are as they were").count();
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
    eventually(|| scene.log().contains("the one in use stays")).await;
    let log = scene.log();
    assert!(log.contains("gc_disk_usage_threshold"), "{log}");
    scene.configure("log_json = true");
    scene.reload();
    eventually(|| scene.log().contains("needs a restart of noded")).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_ended_allocations_and_never_a_running_one() {
    if !can_run() {
        return;
    }
    let scene = synced().await;
    let lives = job("lives", "mock_driver", &json!({}), json!({}));
    let mut ends = Job::clone(&job("ends", "raw_exec", &sh("echo done"), json!({})));
    ends.job_type = protocol_model::JobType::Batch;
    let ends = std::sync::Arc::new(ends);
    let living = alloc(&lives, 80);
    scene.server.want(living.clone(), &lives);
    let ended: Vec<_> = (81..83).map(|number| alloc(&ends, number)).collect();
    for alloc in &ended {
        scene.server.want(alloc.clone(), &ends);
    }
    scene
        .server
        .until("both ended", |known| {
            ended
                .iter()
                .all(|alloc| is(known, alloc.id, ClientStatus::Complete))
        })
        .await;
    assert!(
        ended
            .iter()
            .all(|alloc| scene.alloc_path(alloc.id).exists())
    );
    scene.configure("gc_interval = \"1s\"\ngc_disk_usage_threshold = 1");
    scene.reload();
    eventually(|| {
        ended
            .iter()
            .all(|alloc| !scene.alloc_path(alloc.id).exists())
    })
    .await;
    eventually(|| scene.log().contains("no allocation on it has ended")).await;
    assert!(scene.alloc_path(living.id).exists());
    assert!(is(&scene.server.known(), living.id, ClientStatus::Running));
}
