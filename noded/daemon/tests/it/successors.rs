//! A successor on its predecessor's node, with a real process that is slow to stop.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, EphemeralDisk, Job};
use serde_json::json;

use crate::jobs::{alloc, is, job, output, report, sh, stopped};
use crate::scene::{Scene, can_run};

/// Takes 2 s to end after its signal; fails where an earlier one has not ended.
const SLOW: &str = "mkdir ../../busy || exit 1; trap 'sleep 2; rmdir ../../busy; exit 0' INT; \
                    echo ready; while :; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_waits_for_a_process_that_is_slow_to_stop() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let more = json!({ "KillTimeout": 20_000_000_000_u64 });
    let job = job("slow", "raw_exec", &sh(SLOW), more);
    let old = alloc(&job, 1);
    let (first, second) = (old.id, AllocId::from_u128(2));
    scene.server.want(old.clone(), &job);
    output(&scene, first, |text| text == "ready\n").await;
    scene.server.want(stopped(old), &job);
    let successor = Allocation {
        previous_allocation: Some(first),
        ..alloc(&job, 2)
    };
    scene.server.want(successor, &job);
    let known = scene
        .server
        .until("pending", |known| is(known, second, ClientStatus::Pending))
        .await;
    let said = &report(&known, second).unwrap().client_description;
    assert_eq!(said, "Waiting for allocation 00000000 to end");
    // Another daemon knows it, too.
    scene.kill();
    scene.start();
    let running = |known: &_| is(known, second, ClientStatus::Running);
    let known = scene.server.until("running", running).await;
    let of = |id| report(&known, id).unwrap().task_states["main"].clone();
    let (before, after) = (of(first), of(second));
    assert!(!before.failed && !after.failed);
    assert!(
        before.finished_at <= after.started_at,
        "{before:?} {after:?}"
    );
    output(&scene, second, |text| text == "ready\n").await;
}

/// Counts its runs on the shared disk and in its own directory.
const COUNTS: &str = "cd $NOMAD_ALLOC_DIR/data; echo run >> runs; cat runs | wc -l; \
                      cd $NOMAD_TASK_DIR; echo run >> runs; cat runs | wc -l; exec sleep 1000";

#[tokio::test(flavor = "multi_thread")]
async fn a_sticky_disk_moves_to_the_successor_on_the_same_node() {
    if !can_run() {
        return;
    }
    for driver in ["raw_exec", "exec"] {
        let scene = Scene::new();
        let mut job = Job::clone(&job("counts", driver, &sh(COUNTS), json!({})));
        job.task_groups[0].ephemeral_disk = Some(EphemeralDisk {
            sticky: Some(true),
            ..EphemeralDisk::default()
        });
        let job = Arc::new(job);
        let old = alloc(&job, 1);
        let (first, second) = (old.id, AllocId::from_u128(2));
        scene.server.want(old.clone(), &job);
        output(&scene, first, |text| text == "1\n1\n").await;
        scene.server.want(stopped(old), &job);
        let successor = Allocation {
            previous_allocation: Some(first),
            ..alloc(&job, 2)
        };
        scene.server.want(successor, &job);
        output(&scene, second, |text| text == "2\n2\n").await;
        assert!(scene.log().contains("sticky data moved"));
    }
}
