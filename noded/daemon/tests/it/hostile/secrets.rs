//! Threat 25: tokens of tasks and items of variables are in no log, event or file but their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::jobs::{alloc, job, output, report, sh};
use crate::scene::{Scene, can_run};

/// Regular files below a directory that hold this text.
fn holding(directory: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        let path = entry.path();
        if kind.is_dir() {
            holding(&path, text, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
                found.push(path);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_task_are_in_no_log_event_or_file_but_their_own() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    scene
        .server
        .until("a session", |known| !known.synced.is_empty())
        .await;
    assert!(scene.stop());
    scene.configure("");
    let file = scene.directory.path().join("noded.hcl");
    let text = std::fs::read_to_string(&file).unwrap();
    let loud = text.replace("debug,quinn=warn,rustls=warn", "trace");
    assert_ne!(loud, text);
    std::fs::write(&file, loud).unwrap();
    scene.start();
    scene.server.put(
        "nomad/jobs/keeper-of-secrets",
        &[("word", "planted-item-4711")],
    );
    let template = "{{ with nomadVar \"nomad/jobs/keeper-of-secrets\" }}{{ .word }}{{ end }}";
    let more = json!({
        "Identity": {"Name": "default", "Env": true, "File": true},
        "Templates": [{"EmbeddedTmpl": template, "DestPath": "secrets/word"}],
    });
    let script = "test -s $NOMAD_SECRETS_DIR/word && echo up; exec sleep 1000";
    let job = job("keeper-of-secrets", "raw_exec", &sh(script), more);
    let alloc = alloc(&job, 240);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    output(&scene, id, |text| text.contains("up\n")).await;
    let secrets = scene.alloc_path(id).join("main/secrets");
    assert!(scene.stop());
    scene.start();
    let synced = scene.server.known().synced.len();
    scene
        .server
        .until("another sync", |known| known.synced.len() > synced)
        .await;

    let base = scene.directory.path();
    let kept = base.join("run/identities").join(id.to_string());
    // Its environment, for commands that are run in it.
    let sandbox = base.join(format!("run/sandboxes/{id}.main.json"));
    for of_root in [&kept, &sandbox] {
        let mode = of_root.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", of_root.display());
    }
    for (secret, own) in [
        (
            "token-default-1",
            vec![secrets.join("nomad_token"), kept, sandbox],
        ),
        ("planted-item-4711", vec![secrets.join("word")]),
    ] {
        let mut found = Vec::new();
        holding(base, secret, &mut found);
        found.sort();
        let mut own = own;
        own.sort();
        assert_eq!(found, own, "{secret}");
        let known = scene.server.known();
        let shown = format!("{:?} {:?}", report(&known, id), known.facts);
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(scene.log().contains(" TRACE "), "the log has everything");
}

#[test]
fn processes_that_hold_secrets_write_no_core_dumps() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for unit in [
        "noded/units/noded.service",
        "controlplane/units/controlplane.service",
    ] {
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        assert!(text.lines().any(|line| line == "LimitCORE=0"), "{unit}");
    }
}
