//! Tasks of ordinary users: their own directories, their own output, beneath a closed host.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use protocol_model::{AllocId, ClientStatus};
use serde_json::{Value, json};

use crate::jobs::{alloc, eventually, is, job, output, sh};
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
    // And one that is known once the task's template is rendered.
    let more = json!({"User": "${WHO}", "Templates": [{
        "EmbeddedTmpl": "WHO=daemon\n", "DestPath": "local/env", "Envvars": true,
    }]});
    for (number, driver) in (220..).zip(["exec", "raw_exec"]) {
        let text = written(&scene, number, driver, script, more.clone()).await;
        assert_eq!(text, "daemon\ndaemon\ndaemon\nend\n", "{driver}");
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

/// Whether `nobody`, outside of any task, may run this.
fn nobody_may(program: &str, path: &Path) -> bool {
    let mut command = Command::new(program);
    let output = command.arg(path).uid(65_534).gid(65_534).output().unwrap();
    output.status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_task_shares_local_and_tmp_with_users_it_becomes() {
    if !can_run() {
        return;
    }
    let scene = on_a_fresh_host();
    let script = "as() { setpriv --reuid=65534 --regid=65534 --clear-groups -- \"$@\"; }; \
                  as touch $NOMAD_TASK_DIR/x && echo local; \
                  as touch $NOMAD_TASK_DIR/../tmp/x && echo tmp; \
                  for d in $NOMAD_SECRETS_DIR $NOMAD_ALLOC_DIR $NOMAD_ALLOC_DIR/data \
                    $NOMAD_TASK_DIR/.. $NOMAD_TASK_DIR/../private; do \
                  as ls $d 2>/dev/null && echo saw $d; done; \
                  echo own >$NOMAD_ALLOC_DIR/data/x && echo shared; echo end";
    let text = written(&scene, 230, "raw_exec", script, json!({})).await;
    assert_eq!(text, "local\ntmp\nshared\nend\n");
    let base = scene.alloc_path(AllocId::from_u128(230));
    assert!(!nobody_may("ls", &base));
    assert!(!nobody_may("ls", &base.join("main")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_user_s_allocation_is_closed_to_other_users() {
    if !can_run() {
        return;
    }
    let scene = on_a_fresh_host();
    let script = "touch $NOMAD_ALLOC_DIR/a $NOMAD_ALLOC_DIR/data/b $NOMAD_ALLOC_DIR/tmp/c && \
                  cat $NOMAD_ALLOC_DIR/logs/main.stdout.0; touch $NOMAD_TASK_DIR/d; echo end";
    for (number, driver) in (240..).zip(["exec", "raw_exec"]) {
        let user = json!({"User": "daemon"});
        let text = written(&scene, number, driver, script, user).await;
        assert_eq!(text, "end\n", "{driver}");
        let base = scene.alloc_path(AllocId::from_u128(number));
        for path in [
            "",
            "alloc",
            "alloc/data",
            "alloc/logs",
            "main",
            "main/local",
        ] {
            let path = base.join(path);
            assert!(!nobody_may("ls", &path), "{driver}: {}", path.display());
        }
        for path in [
            "alloc/new",
            "alloc/data/new",
            "alloc/logs/new",
            "main/tmp/new",
        ] {
            let path = base.join(path);
            assert!(!nobody_may("touch", &path), "{driver}: {}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn noded_refuses_a_data_directory_that_others_may_write() {
    if !can_run() {
        return;
    }
    let scene = Scene::on_disk(|data| {
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(data, mode).unwrap();
    });
    let text = "can be written by others (mode 0777)";
    eventually(|| scene.log().contains(text)).await;
    assert!(!scene.data().join("node").exists());
}
