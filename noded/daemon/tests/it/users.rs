//! Tasks of ordinary users: their own directories, their own output, beneath a closed host.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use protocol_model::ClientStatus;
use serde_json::{Value, json};

use crate::jobs::{alloc, is, job, output, sh};
use crate::scene::{Scene, can_run};

/// A node that makes its data directory itself, in a folder that is open as `/var/lib` is.
fn on_a_fresh_host() -> Scene {
    let scene = Scene::on_disk(|data| std::fs::remove_dir(data).unwrap());
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scene.directory.path(), mode).unwrap();
    scene
}

/// Runs a script to its end and returns what it wrote.
async fn written(scene: &Scene, number: u128, driver: &str, script: &str, more: Value) -> String {
    let mut wanted = (*job("user", driver, &sh(script), more)).clone();
    wanted.job_type = protocol_model::JobType::Batch;
    wanted.meta = [("who".to_owned(), "daemon".to_owned())].into();
    let alloc = alloc(&wanted, number);
    let id = alloc.id;
    scene.server.want(alloc, &std::sync::Arc::new(wanted));
    scene
        .server
        .until("the end", |known| {
            is(known, id, ClientStatus::Complete) || is(known, id, ClientStatus::Failed)
        })
        .await;
    output(scene, id, |text| text.ends_with("end\n")).await
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_an_ordinary_user_has_its_directories_whatever_names_the_user() {
    if !can_run() {
        return;
    }
    let scene = on_a_fresh_host();
    let script = "id -un; cd $NOMAD_TASK_DIR && touch file && stat -c %U file; \
                  touch $NOMAD_SECRETS_DIR/file && stat -c %U $NOMAD_SECRETS_DIR/file; echo end";
    let users = ["daemon", "${NOMAD_META_who}", "1"];
    for (number, (driver, user)) in (200..).zip(
        ["exec", "raw_exec"]
            .iter()
            .flat_map(|driver| users.map(|user| (*driver, user))),
    ) {
        let text = written(&scene, number, driver, script, json!({"User": user})).await;
        assert_eq!(text, "daemon\ndaemon\ndaemon\nend\n", "{driver} {user}");
    }
    // Passed through, and neither listed nor read.
    let data = scene.directory.path().join("data");
    assert_eq!(mode_of(&data), 0o711);
    assert_eq!(mode_of(&data.join("node")), 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_open_its_output_by_name_whoever_it_is() {
    if !can_run() {
        return;
    }
    let scene = on_a_fresh_host();
    let script = "echo one > /dev/stdout; echo two > /proc/self/fd/1; \
                  sh -c 'echo three >> /dev/stdout'; echo end";
    for (number, driver) in (210..).zip(["exec", "raw_exec"]) {
        let text = written(&scene, number, driver, script, json!({"User": "nobody"})).await;
        assert_eq!(text, "one\ntwo\nthree\nend\n", "{driver}");
    }
}
