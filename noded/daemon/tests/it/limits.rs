//! Limits that a host without controllers has, too: the size of an ephemeral disk.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, TaskEventKind};
use serde_json::json;

use crate::fake_server::Known;
use crate::jobs::{alloc, eventually, is, job, report, sh};
use crate::scene::{Scene, can_run};

const EVERY_SECOND: &str = "gc_interval = \"1s\"\nephemeral_disk {\n  enforce = \"watch\"\n}";

/// The texts of a task's events of one kind.
fn events(known: &Known, id: AllocId, kind: TaskEventKind) -> Vec<String> {
    let Some(report) = report(known, id) else {
        return Vec::new();
    };
    let events = report.task_states["main"].events.iter();
    let events = events.filter(|event| event.kind == kind);
    events.map(|event| event.display_message.clone()).collect()
}

fn exceeded(known: &Known, id: AllocId) -> usize {
    events(known, id, TaskEventKind::DiskExceeded).len()
}

/// An allocation with 2 MiB of disk.
fn with_disk(job: &Arc<protocol_model::Job>, id: u128) -> Allocation {
    let mut alloc = alloc(job, id);
    Arc::make_mut(&mut alloc.allocated_resources).shared.disk_mb = 2;
    alloc
}

/// Waits until disks were measured after now.
async fn measured(scene: &Scene) {
    let passes = || scene.log().matches("ephemeral disks measured").count();
    let before = passes();
    // The one under way may have begun before now.
    eventually(|| passes() >= before + 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_above_its_size_is_one_event_and_nothing_dies() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    scene.kill();
    scene.configure(EVERY_SECOND);
    scene.start();
    let script = "while :; do sleep 0.1; done";
    let job = job("large", "raw_exec", &sh(script), json!({}));
    let alloc = with_disk(&job, 90);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let runs = |known: &Known| is(known, id, ClientStatus::Running);
    scene.server.until("running", runs).await;
    measured(&scene).await;
    assert_eq!(exceeded(&scene.server.known(), id), 0);

    let file = scene.alloc_path(id).join("main/local/file");
    std::fs::write(&file, vec![7; 4 << 20]).unwrap();
    let known = scene
        .server
        .until("the event", |known| exceeded(known, id) == 1)
        .await;
    let text = events(&known, id, TaskEventKind::DiskExceeded).remove(0);
    let expected = "the allocation uses 5 MiB of disk, and its ephemeral_disk has size = 2; nothing \
                    is stopped";
    assert_eq!(text, expected);
    // Neither the next looks nor a restarted noded say it again.
    measured(&scene).await;
    scene.kill();
    scene.start();
    measured(&scene).await;
    let known = scene.server.until("running again", runs).await;
    assert_eq!(exceeded(&known, id), 1);

    // Another crossing is another event.
    std::fs::remove_file(&file).unwrap();
    measured(&scene).await;
    std::fs::write(&file, vec![7; 4 << 20]).unwrap();
    let twice = |known: &Known| exceeded(known, id) == 2;
    let known = scene.server.until("the second event", twice).await;
    assert!(runs(&known));
    let state = &report(&known, id).unwrap().task_states["main"];
    assert_eq!((state.restarts, state.failed), (0, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_are_left_alone_where_the_node_says_so() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    scene.kill();
    scene.configure("gc_interval = \"1s\"\nephemeral_disk {\n  enforce = \"off\"\n}");
    scene.start();
    let script = "head -c 4194304 /dev/zero >local/file; exec sleep 1000";
    let job = job("large", "raw_exec", &sh(script), json!({}));
    let alloc = with_disk(&job, 91);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let runs = |known: &Known| is(known, id, ClientStatus::Running);
    scene.server.until("running", runs).await;
    // The disk as a whole is measured as ever.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(!scene.log().contains("ephemeral disks measured"));
    assert_eq!(exceeded(&scene.server.known(), id), 0);
}
