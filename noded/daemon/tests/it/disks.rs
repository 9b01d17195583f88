//! A data directory on a disk that hangs, and on one that is full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use protocol_model::ClientStatus;
use serde_json::json;

use crate::fake_server::Known;
use crate::jobs::{alloc, is, job, sh, stopped};
use crate::scene::{Scene, can_run};

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// A file system on a loop device, which can be frozen: whoever writes to it waits.
fn mount_image(image: &Path, on: &Path) -> bool {
    let file = std::fs::File::create(image).unwrap();
    file.set_len(64 * 1024 * 1024).unwrap();
    run("mkfs.ext4", &["-q".as_ref(), image.as_ref()])
        && run(
            "mount",
            &["-o".as_ref(), "loop".as_ref(), image.as_ref(), on.as_ref()],
        )
}

/// Thaws it again, whatever becomes of the test.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: PathBuf) -> Self {
        assert!(run("fsfreeze", &["-f".as_ref(), path.as_ref()]));
        Self(path)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run("fsfreeze", &["-u".as_ref(), self.0.as_ref()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_does_not_make_a_node_look_dead() {
    if !can_run() {
        return;
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    let mut mounted = false;
    let scene = Scene::on_disk(|data| mounted = mount_image(image.path(), data));
    if !mounted {
        eprintln!("skipped: needs ext4 on a loop device");
        return;
    }
    let web = job("web", "mock_driver", &json!({}), json!({}));
    let first = alloc(&web, 1);
    scene.server.want(first.clone(), &web);
    scene
        .server
        .until("running", |known| {
            is(known, first.id, ClientStatus::Running)
        })
        .await;
    let frozen = Frozen::new(scene.data());
    let second = alloc(&web, 2);
    scene.server.want(second.clone(), &web);
    // Each is an answer of the loop that has the second allocation to journal.
    for _ in 0..20 {
        let heard = scene.server.known().heartbeats;
        scene
            .server
            .until("a heartbeat", |known| known.heartbeats > heard)
            .await;
    }
    let known = scene.server.known();
    assert!(
        !is(&known, second.id, ClientStatus::Running),
        "not journaled"
    );
    assert_eq!(known.hellos.len(), 1, "the session went on");
    // Nor when it has to connect anew.
    scene.server.cut();
    for _ in 0..20 {
        let heard = scene.server.known().heartbeats;
        let again = |known: &Known| known.hellos.len() == 2 && known.heartbeats > heard;
        scene
            .server
            .until("a heartbeat of the next one", again)
            .await;
    }
    let hello = scene.server.known().hellos[1].clone();
    let named = hello.watermark.unwrap().index;
    let told = scene.server.known().index;
    assert!(named < told, "{named}: only what is on the disk");
    assert!(
        scene.server.known().synced.len() == 1,
        "nor said anything else"
    );
    drop(frozen);
    scene
        .server
        .until("the second runs too", |known| {
            is(known, second.id, ClientStatus::Running)
        })
        .await;
}

/// Takes whatever room there is.
fn fill(disk: &Path) -> PathBuf {
    let ballast = disk.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    let block = [1; 4096];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    ballast
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_directory_that_fills_up_is_shown_until_it_has_room() {
    if !can_run() {
        return;
    }
    let scene = Scene::on_disk(|data| {
        let run = data.with_file_name("run");
        std::fs::create_dir(&run).unwrap();
        isolation::scratch::mount(&run, 8 * 1024 * 1024, 0o700).unwrap();
    });
    scene.configure("fingerprint_interval = \"1s\"");
    scene
        .server
        .until("a session", |known| !known.synced.is_empty())
        .await;
    scene.reload();
    let newest = |known: &Known| {
        let facts = known.facts.last()?;
        facts.attributes.get("drover.run_dir.full").cloned()
    };
    let ballast = fill(&scene.directory.path().join("run"));
    scene
        .server
        .until("it is full", |known| {
            newest(known).as_deref() == Some("true")
        })
        .await;
    assert!(scene.log().contains("the runtime directory is full"));
    std::fs::remove_file(ballast).unwrap();
    scene
        .server
        .until("it has room", |known| {
            newest(known).as_deref() == Some("false")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_noded_starts_keeps_what_runs_and_refuses_what_is_new() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::on_disk(|data| {
        isolation::scratch::mount(data, 16 * 1024 * 1024, 0o755).unwrap();
    });
    let web = job("web", "raw_exec", &sh("exec sleep 1000"), json!({}));
    let [runs, stops, refused, later] = [1, 2, 3, 4].map(|number| alloc(&web, number));
    for alloc in [&runs, &stops] {
        scene.server.want(alloc.clone(), &web);
    }
    let known = scene
        .server
        .until("both run", |known| {
            [&runs, &stops]
                .iter()
                .all(|alloc| is(known, alloc.id, ClientStatus::Running))
        })
        .await;
    let started = known.reports[&runs.id].task_states["main"].started_at;
    let ballast = fill(&scene.data());
    let synced = known.synced.len();
    scene.kill();
    scene.start();
    scene
        .server
        .until("another sync", |known| known.synced.len() > synced)
        .await;
    scene.server.want(refused.clone(), &web);
    let known = scene
        .server
        .until("it is refused", |known| {
            is(known, refused.id, ClientStatus::Failed)
        })
        .await;
    let events = &known.reports[&refused.id].task_states["main"].events;
    let says = |event: &Arc<protocol_model::TaskEvent>| event.display_message.contains("no space");
    assert!(events.iter().any(says), "{events:#?}");
    scene.server.want(stopped(stops.clone()), &web);
    let known = scene
        .server
        .until("a stop is reported", |known| {
            is(known, stops.id, ClientStatus::Complete)
        })
        .await;
    assert!(is(&known, runs.id, ClientStatus::Running));
    let state = &known.reports[&runs.id].task_states["main"];
    assert_eq!((state.started_at, state.restarts), (started, 0));
    std::fs::remove_file(ballast).unwrap();
    scene.server.want(later.clone(), &web);
    scene
        .server
        .until("there is room again", |known| {
            is(known, later.id, ClientStatus::Running)
        })
        .await;
}
