//! A data directory on a disk that hangs, and on one that is full.

use std::path::{Path, PathBuf};
use std::process::Command;

use protocol_model::ClientStatus;
use serde_json::json;

use crate::node::{alloc, is, job};
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
    drop(frozen);
    scene
        .server
        .until("the second runs too", |known| {
            is(known, second.id, ClientStatus::Running)
        })
        .await;
}
