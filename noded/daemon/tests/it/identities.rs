//! Identities of tasks: files, variables, renewal, a restart of noded, planted links.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use protocol_model::{AllocId, ClientStatus};
use serde_json::{Value, json};

use crate::fake_server::Known;
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
    scene.kill();
    scene.start();
    let text = output(&scene, id, |text| text.contains("renewed")).await;
    assert_eq!(text.matches("renewed").count(), 1, "{text}");
    assert_eq!(
        scene.server.known().signed,
        3,
        "it asks for what is due alone"
    );
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

/// An identity that is renewed with a signal, and the default one; both as files.
fn both() -> Value {
    json!({
        "Identity": {"Name": "default", "File": true},
        "Identities": [{
            "Name": "cloud", "Audience": ["cloud.example"], "TTL": 20_000_000_000_u64,
            "File": true, "ChangeMode": "signal", "ChangeSignal": "SIGHUP",
        }],
    })
}

/// The texts of a task's events.
fn texts(known: &Known, id: AllocId) -> Vec<String> {
    let report = report(known, id);
    let events = report.map(|report| &report.task_states["main"].events);
    let events = events.into_iter().flatten();
    events.map(|event| event.display_message.clone()).collect()
}

fn says(known: &Known, id: AllocId, parts: &[&str]) -> bool {
    let texts = texts(known, id);
    texts
        .iter()
        .any(|text| parts.iter().all(|part| text.contains(part)))
}

/// Fills the directory of secrets. A file that noded still closes keeps its pages until then, so
/// that there is room once more a moment later.
const FILL: &str = "for file in fill more; do dd if=/dev/zero of=$NOMAD_SECRETS_DIR/$file bs=4k \
                    2> /dev/null; sleep 0.3; done";

#[tokio::test(flavor = "multi_thread")]
async fn full_secrets_fail_the_setup_by_the_name_of_the_identity() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let mut more = both();
    more["RestartPolicy"] = json!({
        "Attempts": 1, "Mode": "fail", "Interval": 60_000_000_000_u64, "Delay": 100_000_000_u64,
    });
    let script = format!("rm -f $NOMAD_SECRETS_DIR/nomad_*; {FILL}; exit 1");
    let job = job("full", "raw_exec", &sh(&script), more);
    let alloc = alloc(&job, 203);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    let known = scene
        .server
        .until("it fails", |known| is(known, id, ClientStatus::Failed))
        .await;
    let parts = ["Identity[", "nomad_", "No space left on device"];
    assert!(says(&known, id, &parts), "{:#?}", texts(&known, id));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_secrets_keep_the_token_of_before_until_there_is_room() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let script =
        format!("trap 'echo renewed' HUP; {FILL}; echo full; while :; do sleep 0.05; done");
    let job = job("full", "raw_exec", &sh(&script), both());
    let alloc = alloc(&job, 204);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text.contains("full")).await;
    let secrets = scene.alloc_path(id).join("main/secrets");
    let file = secrets.join("nomad_cloud.jwt");
    let before = std::fs::read_to_string(&file).unwrap();
    let parts = ["Identity[cloud]", "the token of before stays"];
    scene
        .server
        .until("the event", |known| says(known, id, &parts))
        .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let names = std::fs::read_dir(&secrets).unwrap();
    let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let wanted = ["api.sock", "fill", "more", "nomad_cloud.jwt", "nomad_token"];
    assert_eq!(names, wanted.map(OsString::from).into());
    let text = scene.server.logs(id, "main", false).await;
    assert_eq!(
        text, "full\n",
        "it is told of a token that it does not have"
    );

    for name in ["fill", "more"] {
        std::fs::remove_file(secrets.join(name)).unwrap();
    }
    let text = output(&scene, id, |text| text.contains("renewed")).await;
    assert!(text.starts_with("full\nrenewed\n"), "{text}");
    assert_ne!(std::fs::read_to_string(&file).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn token_that_expires_unrenewed_stays_and_is_told_once_by_two_daemons() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    // It expires before the 10 s after which it may be renewed.
    scene.server.sign_for(3);
    let job = job(
        "old",
        "raw_exec",
        &sh("trap '' HUP; echo up; exec sleep 1000"),
        both(),
    );
    let alloc = alloc(&job, 205);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text.contains("up")).await;
    let file = scene.alloc_path(id).join("main/secrets/nomad_cloud.jwt");
    let before = std::fs::read_to_string(&file).unwrap();
    let parts = ["Identity[cloud]", "the token expired"];
    scene
        .server
        .until("the event", |known| says(known, id, &parts))
        .await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    scene.kill();
    scene.server.sign_for(3_600);
    scene.start();
    // The next one is renewed; what it was told before stays in its history.
    eventually(|| std::fs::read_to_string(&file).unwrap() != before).await;
    let known = scene
        .server
        .until("the renewal", |known| {
            says(known, id, &["Identity[cloud]: new Identity token acquired"])
        })
        .await;
    let texts = texts(&known, id);
    let told = texts.iter().filter(|text| text.contains(parts[1])).count();
    assert_eq!(told, 1, "{texts:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_belong_to_a_user_that_only_a_template_names() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let mut more = both();
    more["User"] = json!("${RUNS_AS}");
    more["Templates"] = json!([{
        "EmbeddedTmpl": "RUNS_AS=daemon", "DestPath": "secrets/env", "Envvars": true,
    }]);
    let script = "trap 'echo renewed $(cat $NOMAD_SECRETS_DIR/nomad_cloud.jwt)' HUP; \
         echo own $(cat $NOMAD_SECRETS_DIR/nomad_token); while :; do sleep 0.05; done";
    let job = job("named", "raw_exec", &sh(script), more);
    let alloc = alloc(&job, 206);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text.contains("own token-default-")).await;
    // The renewed file is the user's as well.
    output(&scene, id, |text| text.contains("renewed token-cloud-")).await;
    let secrets = scene.alloc_path(id).join("main/secrets");
    for name in ["nomad_token", "nomad_cloud.jwt"] {
        let found = std::fs::metadata(secrets.join(name)).unwrap();
        assert_ne!(found.uid(), 0, "{name}");
        assert_eq!(found.mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_follows_more_variables_than_its_session_has_streams() {
    const COUNT: usize = 120;
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let mut text = String::new();
    for number in 0..COUNT {
        scene
            .server
            .put(&format!("many/{number}"), &[("word", "a")]);
        text += &format!("{{{{ with nomadVar \"many/{number}\" }}}}{{{{ .word }}}}{{{{ end }}}}");
    }
    let more = json!({
        "Identity": {"Name": "default", "File": true},
        "Templates": [{
            "EmbeddedTmpl": text, "DestPath": "local/words", "ChangeMode": "signal",
            "ChangeSignal": "SIGHUP", "Splay": 0, "Wait": {"Min": 1_000_000, "Max": 2_000_000},
        }],
    });
    let script = "trap 'echo; cat $NOMAD_TASK_DIR/words' HUP; cat $NOMAD_TASK_DIR/words; \
         while :; do sleep 0.05; done";
    let job = job("reader", "raw_exec", &sh(script), more.clone());
    let alloc_of_many = alloc(&job, 207);
    let id = alloc_of_many.id;
    scene.server.want(alloc_of_many, &job);
    let all = "a".repeat(COUNT);
    output(&scene, id, |text| text == all).await;
    // Others have their questions answered meanwhile.
    let other = job_of_other(&more);
    let alloc_of_other = alloc(&other, 208);
    let other_id = alloc_of_other.id;
    scene.server.want(alloc_of_other, &other);
    output(&scene, other_id, |text| text.contains("up")).await;
    scene
        .server
        .put(&format!("many/{}", COUNT - 1), &[("word", "b")]);
    let changed = format!("{all}\n{}b", "a".repeat(COUNT - 1));
    output(&scene, id, |text| text == changed).await;
}

fn job_of_other(more: &Value) -> std::sync::Arc<protocol_model::Job> {
    let identity = json!({ "Identity": more["Identity"] });
    job(
        "other",
        "raw_exec",
        &sh("echo up; exec sleep 1000"),
        identity,
    )
}
