//! Threat 23: a task plants links, FIFOs, directories and mounts where noded writes its tokens and
//! binds its socket. A file outside of the task's directories never changes.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use protocol_model::{AllocId, ClientStatus};
use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde_json::json;

use super::{TOKEN, said, with_socket};
use crate::fake_server::Known;
use crate::jobs::{alloc, eventually, is, job, json_of, report, sh};
use crate::scene::{Scene, can_run};

/// A file that is planted in the place of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    Link,
    LinkedParent,
    Fifo,
    Directory,
    Mount,
    HardLink,
    /// A link under the name of the file that is written before it is renamed.
    LinkOfTemporary,
}

/// A file of root that a task would like to have written, or given away.
struct Victim {
    directory: PathBuf,
    path: PathBuf,
}

impl Victim {
    const TEXT: &str = "as it was";

    fn new(scene: &Scene) -> Self {
        let directory = scene.directory.path().join("outside");
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("token");
        std::fs::write(&path, Self::TEXT).unwrap();
        Self { directory, path }
    }

    /// Puts it in the place of `file`, as a task with all rights on the host could.
    fn plant(&self, planted: Planted, file: &Path) {
        let parent = file.parent().unwrap();
        if planted == Planted::LinkOfTemporary {
            let mut temporary = file.as_os_str().to_owned();
            temporary.push(".drover-new");
            return symlink(&self.path, temporary).unwrap();
        }
        if planted != Planted::Mount {
            std::fs::remove_file(file).unwrap();
        }
        match planted {
            Planted::Link => symlink(&self.path, file).unwrap(),
            Planted::LinkedParent => {
                std::fs::remove_dir(parent).unwrap();
                symlink(&self.directory, parent).unwrap();
            }
            Planted::Fifo => {
                let mode = Mode::from_raw_mode(0o600);
                mknodat(CWD, file, FileType::Fifo, mode, 0).unwrap();
            }
            Planted::Directory => std::fs::create_dir(file).unwrap(),
            Planted::Mount => mount_bind(&self.path, file).unwrap(),
            Planted::HardLink | Planted::LinkOfTemporary => {
                std::fs::hard_link(&self.path, file).unwrap();
            }
        }
    }

    /// Takes it away.
    fn clear(planted: Planted, file: &Path) {
        let parent = file.parent().unwrap();
        match planted {
            Planted::Link | Planted::Fifo => std::fs::remove_file(file).unwrap(),
            Planted::LinkedParent => std::fs::remove_file(parent).unwrap(),
            Planted::Directory => std::fs::remove_dir(file).unwrap(),
            Planted::Mount => unmount(file, UnmountFlags::empty()).unwrap(),
            Planted::HardLink | Planted::LinkOfTemporary => {}
        }
    }

    fn check(&self, planted: Planted) {
        let text = std::fs::read_to_string(&self.path).unwrap();
        assert_eq!(text, Self::TEXT, "{planted:?}");
        let names = std::fs::read_dir(&self.directory).unwrap().count();
        assert_eq!(names, 1, "{planted:?}: a file was made outside");
        let found = self.path.metadata().unwrap();
        let mode = found.mode() & 0o777;
        // The umask of the tests decides.
        assert!(
            [0o644, 0o600, 0o640, 0o664].contains(&mode),
            "{planted:?} {mode:o}"
        );
        assert_eq!((found.uid(), found.gid()), (0, 0), "{planted:?}");
    }
}

/// Whether the task has an event with these texts.
fn has_event(known: &Known, id: AllocId, texts: [&str; 2]) -> bool {
    report(known, id).is_some_and(|report| {
        let mut events = report.task_states["main"].events.iter();
        events.any(|event| {
            let message = &event.display_message;
            texts.iter().all(|text| message.contains(text))
        })
    })
}

/// Each kind, in the place of the file of an identity of its own; and whether its renewal works.
const AT_TOKENS: [(Planted, bool); 7] = [
    (Planted::Link, false),
    (Planted::LinkedParent, false),
    (Planted::Fifo, false),
    (Planted::Directory, false),
    (Planted::Mount, false),
    (Planted::HardLink, true),
    (Planted::LinkOfTemporary, true),
];

#[tokio::test(flavor = "multi_thread")]
async fn planted_files_at_a_token_are_not_followed_by_its_renewal() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let victim = Victim::new(&scene);
    let identities = AT_TOKENS.map(|(planted, _)| {
        let name = format!("{planted:?}");
        let file = format!("local/{name}/token");
        json!({"Name": name, "Audience": ["a"], "File": true, "Filepath": file})
    });
    let more = json!({"Identities": identities, "User": "nobody"});
    let job = job("planter", "raw_exec", &sh("exec sleep 1000"), more);
    let alloc = alloc(&job, 230);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let local = scene.alloc_path(id).join("main/local");
    let file = |planted: Planted| local.join(format!("{planted:?}/token"));
    let token = |planted: Planted| std::fs::read_to_string(file(planted)).unwrap_or_default();
    let given = AT_TOKENS.map(|(planted, _)| token(planted));
    // Once they were renewed, nothing of the start is written any more.
    scene.server.change_root_key(1);
    eventually(|| {
        let mut all = AT_TOKENS.iter().zip(&given);
        all.all(|((planted, _), given)| token(*planted) != *given)
    })
    .await;
    let first = AT_TOKENS.map(|(planted, _)| token(planted));
    for (planted, _) in AT_TOKENS {
        victim.plant(planted, &file(planted));
    }
    scene.server.change_root_key(2);
    let is_told = |known: &Known, planted: Planted| {
        has_event(known, id, [&format!("Identity[{planted:?}]: "), "/token"])
    };
    scene
        .server
        .until("the events of what was planted", |known| {
            let mut refused = AT_TOKENS.iter().filter(|(_, is_written)| !is_written);
            refused.all(|(planted, _)| is_told(known, *planted))
        })
        .await;
    let is_renewed = |at: usize| {
        let (planted, _) = AT_TOKENS[at];
        let text = token(planted);
        text.starts_with(&format!("token-{planted:?}-")) && text != first[at]
    };
    eventually(|| is_renewed(5) && is_renewed(6)).await;
    for (planted, _) in AT_TOKENS {
        victim.check(planted);
        Victim::clear(planted, &file(planted));
    }
    scene.server.change_root_key(3);
    eventually(|| (0..AT_TOKENS.len()).all(is_renewed)).await;
    victim.check(Planted::Link);
    for (planted, _) in AT_TOKENS {
        let found = file(planted).symlink_metadata().unwrap();
        let shown = (found.mode() & 0o777, found.nlink(), found.uid());
        assert_eq!(shown, (0o600, 1, 65_534), "{planted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_files_at_the_socket_are_replaced_or_named() {
    if !can_run() {
        return;
    }
    let (scene, id, socket) = with_socket(231).await;
    let victim = Victim::new(&scene);
    let request = format!("GET /a HTTP/1.1\r\nConnection: close\r\nX-Nomad-Token: {TOKEN}\r\n\r\n");
    for (planted, refused) in [
        (Planted::Link, None),
        (Planted::Fifo, None),
        (Planted::Directory, Some("Is a directory")),
        (Planted::Mount, Some("resource busy")),
    ] {
        victim.plant(planted, &socket);
        restart(&scene, id).await;
        if let Some(reason) = refused {
            let text = ["Task API: removing the file", reason];
            scene
                .server
                .until(reason, |known| has_event(known, id, text))
                .await;
            victim.check(planted);
            Victim::clear(planted, &socket);
            restart(&scene, id).await;
        }
        let answer = said(&socket, request.as_bytes()).await.expect("it ends");
        assert!(answer.starts_with("HTTP/1.1 200"), "{planted:?}: {answer}");
        victim.check(planted);
    }
}

/// Restarts the task, and waits for its next run.
async fn restart(scene: &Scene, id: AllocId) {
    let started = |known: &Known| report(known, id).unwrap().task_states["main"].started_at;
    let before = started(&scene.server.known());
    let restart = v1::RestartRequest {
        task: "main".to_owned(),
        all_tasks: false,
    };
    json_of(scene, id, Request::Restart(restart)).await;
    scene
        .server
        .until("another run", |known| {
            started(known) != before && is(known, id, ClientStatus::Running)
        })
        .await;
}
