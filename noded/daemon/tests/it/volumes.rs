//! Host volumes of a real node: which mounts travel, what is refused.

use std::path::PathBuf;
use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, Job};
use rustix::mount::{MountFlags, MountPropagationFlags};
use serde_json::{Value, json};

use crate::fake_server::Known;
use crate::jobs::{alloc, eventually, is, job, output, report, sh};
use crate::scene::{Scene, can_run};

/// A node with the volume `live`, whose mounts are shared, and `own`, whose mounts are not.
async fn node() -> (Scene, PathBuf) {
    let scene = Scene::new();
    let paths = ["live", "own"].map(|name| scene.directory.path().join(name));
    let flags = [
        MountPropagationFlags::SHARED,
        MountPropagationFlags::PRIVATE,
    ];
    for (path, flags) in paths.iter().zip(flags) {
        std::fs::create_dir(path).unwrap();
        rustix::mount::mount("none", path, "tmpfs", MountFlags::empty(), None).unwrap();
        rustix::mount::mount_change(path, flags).unwrap();
        std::fs::create_dir(path.join("sub")).unwrap();
    }
    let synced = |known: &Known| !known.synced.is_empty();
    scene.server.until("a session", synced).await;
    let [live, own] = &paths;
    scene.configure(&format!(
        "host_volume \"live\" {{\n  path = {live:?}\n}}\nhost_volume \"own\" {{\n  path = {own:?}\n}}"
    ));
    scene.reload();
    eventually(|| scene.log().contains("the configuration was reloaded")).await;
    let [live, _] = paths;
    (scene, live)
}

/// A job whose task mounts the volume `source`, with more keys of the mount.
fn mounting(source: &str, driver: &str, script: &str, mount: Value) -> Arc<Job> {
    let mut keys = json!({"Volume": "disk", "Destination": "/data"});
    let (Value::Object(keys), Value::Object(more)) = (&mut keys, mount) else {
        panic!("no object")
    };
    keys.extend(more);
    let more = json!({"VolumeMounts": [keys], "Meta": {"mode": "host-to-task"}});
    let mut job = Job::clone(&job("mounting", driver, &sh(script), more));
    let volumes = json!({"disk": {"Name": "disk", "Type": "host", "Source": source}});
    job.task_groups[0].volumes = serde_json::from_value(volumes).unwrap();
    Arc::new(job)
}

/// The text of the event that ended an allocation.
async fn failure(scene: &Scene, job: &Arc<Job>, number: u128) -> String {
    let alloc = alloc(job, number);
    let id: AllocId = alloc.id;
    scene.server.want(alloc, job);
    let failed = |known: &Known| is(known, id, ClientStatus::Failed);
    let known = scene.server.until("failed", failed).await;
    let events = &report(&known, id).unwrap().task_states["main"].events;
    let texts = events.iter().map(|event| event.display_message.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_mount_of_the_host_reaches_the_task_that_asked_for_it() {
    if !can_run() {
        return;
    }
    let (scene, live) = node().await;
    let script =
        "echo ready; until [ -e /srv/0/sub/flag ]; do sleep 0.05; done; echo seen; sleep 1000";
    let keys = json!({
        "Destination": "/srv/${NOMAD_ALLOC_INDEX}", "PropagationMode": "${NOMAD_META_mode}",
    });
    let job = mounting("live", "exec", script, keys);
    let alloc = alloc(&job, 60);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text == "ready\n").await;
    let sub = live.join("sub");
    rustix::mount::mount("none", &sub, "tmpfs", MountFlags::empty(), None).unwrap();
    std::fs::write(sub.join("flag"), "").unwrap();
    output(&scene, id, |text| text == "ready\nseen\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_that_cannot_travel_are_refused_with_the_reason() {
    if !can_run() {
        return;
    }
    let (scene, _) = node().await;
    for (number, mode) in [(61, "host-to-task"), (62, "bidirectional")] {
        let job = mounting(
            "own",
            "exec",
            "sleep 1000",
            json!({"PropagationMode": mode}),
        );
        let text = failure(&scene, &job, number).await;
        let expected = format!("volume \"disk\": propagation_mode \"{mode}\": ");
        assert!(text.contains(&expected), "{text}");
        assert!(
            text.contains("which is not shared; run `mount --make-shared "),
            "{text}"
        );
    }
    let job = mounting(
        "live",
        "exec",
        "true",
        json!({"PropagationMode": "${NOMAD_JOB_ID}"}),
    );
    let text = failure(&scene, &job, 63).await;
    assert!(
        text.contains("\"mounting\" is none of private, host-to-task, bidirectional"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_exec_refuses_volumes_as_nomad_does() {
    if !can_run() {
        return;
    }
    let (scene, _) = node().await;
    let job = mounting("live", "raw_exec", "sleep 1000", json!({}));
    let text = failure(&scene, &job, 64).await;
    let expected = "task driver \"raw_exec\" for \"main\" does not support host volumes";
    assert!(text.contains(expected), "{text}");
}
