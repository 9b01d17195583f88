//! Identities of tasks: files, variables, renewal, a restart of noded, planted links.

use std::os::unix::fs::PermissionsExt;

use protocol_model::ClientStatus;
use serde_json::json;

use crate::jobs::{alloc, eventually, is, job, output, report, sh};
use crate::scene::{Scene, can_run};

/// Waits for its signals, and writes down its own view of the tokens.
const SCRIPT: &str = "trap 'echo renewed' HUP; echo env $NOMAD_TOKEN; \
     echo own $(cat $NOMAD_SECRETS_DIR/nomad_token); echo up; while :; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread")]
async fn tokens_reach_the_task_and_a_renewal_signals_it_after_a_restart_of_noded() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let more = json!({
        "Identity": {"Name": "default", "Env": true, "File": true},
        "Identities": [{
            "Name": "cloud", "Audience": ["cloud.example"], "TTL": 20_000_000_000_u64,
            "File": true, "ChangeMode": "signal", "ChangeSignal": "SIGHUP",
        }],
    });
    let job = job("shown", "raw_exec", &sh(SCRIPT), more);
    let alloc = alloc(&job, 200);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text.contains("up\n")).await;
    let text = scene.server.logs(id, "main", false).await;
    assert!(text.contains("env token-default-"), "{text}");
    assert!(text.contains("own token-default-"), "{text}");
    let secrets = scene.alloc_path(id).join("main/secrets");
    let file = secrets.join("nomad_cloud.jwt");
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(before.starts_with("token-cloud-"), "{before}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A restarted noded asks for nothing that it holds, and renews what is due.
    let own = std::fs::read_to_string(secrets.join("nomad_token")).unwrap();
    assert_eq!(scene.server.known().signed, 2);
    assert!(scene.stop());
    scene.start();
    output(&scene, id, |text| text.contains("renewed")).await;
    assert_ne!(std::fs::read_to_string(&file).unwrap(), before);
    let kept = std::fs::read_to_string(secrets.join("nomad_token")).unwrap();
    assert_eq!(kept, own);
    // Events are reported within 5 s.
    let text = "Identity[cloud]: new Identity token acquired";
    let known = scene
        .server
        .until("the event of the renewal", |known| {
            report(known, id).is_some_and(|report| {
                let mut events = report.task_states["main"].events.iter();
                events.any(|event| event.display_message == text)
            })
        })
        .await;
    assert_eq!(report(&known, id).unwrap().task_states["main"].restarts, 0);

    // Another root key: a new token, and nothing that the default identity would be told of.
    scene.server.change_root_key(7);
    eventually(|| std::fs::read_to_string(secrets.join("nomad_token")).unwrap() != own).await;
    let known = scene.server.known();
    assert!(is(&known, id, ClientStatus::Running));
    let log = std::fs::read_to_string(scene.directory.path().join("noded.log")).unwrap();
    assert!(!log.contains("token-default-"), "a token is in the log");
    assert!(!log.contains("token-cloud-"), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_link_at_the_file_of_an_identity_is_refused_and_named() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let target = scene.directory.path().join("victim");
    std::fs::write(&target, "as it was").unwrap();
    let more = json!({
        "Identity": {"Name": "default", "File": true, "Filepath": "local/token"},
        "RestartPolicy": {
            "Attempts": 3, "Mode": "fail", "Interval": 60_000_000_000_u64, "Delay": 100_000_000_u64,
        },
    });
    let script = format!(
        "rm -f $NOMAD_TASK_DIR/token; ln -s {} $NOMAD_TASK_DIR/token; exit 1",
        target.display()
    );
    let job = job("hostile", "raw_exec", &sh(&script), more);
    let alloc = alloc(&job, 201);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let known = scene
        .server
        .until("it fails", |known| is(known, id, ClientStatus::Failed))
        .await;
    let state = &report(&known, id).unwrap().task_states["main"];
    let text = "is no regular file";
    let mut events = state.events.iter();
    assert!(
        events.any(|event| event.display_message.contains(text)),
        "{state:#?}"
    );
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn template_waits_for_its_variable_and_signals_the_task_when_it_changes() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let text = "{{ with nomadVar \"nomad/jobs/reader\" }}{{ .word }}{{ end }}\
                {{ range nomadVarList \"nomad/jobs\" }} {{ .Path }}{{ end }}\
                {{ if nomadVarExists \"absent\" }} absent{{ end }}\n";
    let more = json!({"Templates": [{
        "EmbeddedTmpl": text, "DestPath": "local/words", "ChangeMode": "signal",
        "ChangeSignal": "SIGHUP", "Splay": 0, "Wait": {"Min": 1_000_000, "Max": 2_000_000},
    }]});
    let script = "trap 'cat $NOMAD_TASK_DIR/words' HUP; cat $NOMAD_TASK_DIR/words; \
         while :; do sleep 0.05; done";
    let job = job("reader", "raw_exec", &sh(script), more);
    let alloc = alloc(&job, 202);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("the event of the wait", |known| {
            report(known, id).is_some_and(|report| {
                let mut events = report.task_states["main"].events.iter();
                events.any(|event| event.display_message.contains("nomad.var.block"))
            })
        })
        .await;
    scene.server.put("nomad/jobs/reader", &[("word", "first")]);
    let first = "first nomad/jobs/reader\n";
    output(&scene, id, |text| text == first).await;
    scene.server.put("nomad/jobs/reader", &[("word", "second")]);
    let both = format!("{first}second nomad/jobs/reader\n");
    output(&scene, id, |text| text == both).await;
}
