//! The sockets of tasks over deaths of noded and of keeper, at each step of their custody. After
//! every test the same census: no process listens any more, and keeper holds what it held before.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noded_keeper::lock::holder;
use noded_keeper::paths::RuntimePaths;
use protocol_model::{AllocId, Allocation, ClientStatus, Job};
use rustix::fs::{Mode, OFlags, open};
use serde_json::json;

use crate::fake_server::PATIENCE;
use crate::jobs::{alloc, eventually, is, job, sh, stopped};
use crate::scene::{Scene, can_run};

/// A node whose tasks' sockets any process may use, and one job for it.
struct Node {
    scene: Scene,
    job: std::sync::Arc<Job>,
    alloc: Allocation,
    /// Descriptors that keeper had open before there were tasks.
    files: usize,
    /// The files of all sockets that a client has seen, by descriptors that keep them.
    seen: Vec<OwnedFd>,
}

impl Node {
    async fn new() -> Option<Self> {
        if !can_run() {
            return None;
        }
        let scene = Scene::new();
        scene.configure("task_api {\n  peers = \"any\"\n}");
        let job = job("web", "raw_exec", &sh("exec sleep 1000"), json!({}));
        let alloc = alloc(&job, 1);
        let mut node = Self {
            scene,
            job,
            alloc,
            files: 0,
            seen: Vec::new(),
        };
        node.starts(1).await;
        node.restart().await;
        node.files = node.keeper_files().count();
        Some(node)
    }

    fn id(&self) -> AllocId {
        self.alloc.id
    }

    fn path(&self) -> PathBuf {
        self.scene
            .alloc_path(self.id())
            .join("main/secrets/api.sock")
    }

    fn want(&self) {
        self.scene.server.want(self.alloc.clone(), &self.job);
    }

    async fn runs(&mut self) {
        let id = self.id();
        self.scene
            .server
            .until("it runs", |known| is(known, id, ClientStatus::Running))
            .await;
        self.look();
    }

    /// Keeps the file of the socket that is there now.
    fn look(&mut self) {
        let opened = open(self.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.seen.push(opened.unwrap());
    }

    async fn is_bound(&self) {
        let path = self.path();
        eventually(|| path.exists()).await;
    }

    fn keeper(&self) -> Pid {
        let paths = RuntimePaths::new(self.scene.directory.path().join("run"));
        let pid = holder(&paths.keeper_lock()).unwrap().expect("it runs");
        Pid::from_raw(pid.as_raw_pid())
    }

    /// The files that keeper has open.
    fn keeper_files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.keeper()));
        let files = files.into_iter().flatten().flatten();
        files.filter_map(|entry| std::fs::read_link(entry.path()).ok())
    }

    /// Waits until keeper has three sockets: its own, noded's, and the task's.
    async fn is_held(&self) {
        let is_socket = |path: &PathBuf| path.to_string_lossy().starts_with("socket:");
        eventually(|| self.keeper_files().filter(is_socket).count() == 3).await;
    }

    /// From now on keeper does nothing that it is asked for.
    fn stop_keeper(&self) -> Pid {
        let keeper = self.keeper();
        kill(keeper, Signal::SIGSTOP).unwrap();
        keeper
    }

    async fn starts(&self, count: usize) {
        eventually(|| self.scene.log().matches("noded starts").count() >= count).await;
    }

    async fn restart(&mut self) {
        self.scene.kill();
        self.start().await;
    }

    async fn start(&mut self) {
        let before = self.scene.log().matches("noded starts").count();
        self.scene.start();
        self.starts(before + 1).await;
    }

    /// The socket answers as it does for a request without a token.
    async fn answers(&mut self) {
        let path = self.path();
        eventually(|| status(UnixStream::connect(&path)).is_some_and(|it| it == "401")).await;
        self.look();
    }

    /// Stops the job and counts what is left of it.
    async fn census(self) {
        let id = self.id();
        self.scene
            .server
            .want(stopped(self.alloc.clone()), &self.job);
        let ended = |known: &crate::fake_server::Known| is(known, id, ClientStatus::Complete);
        self.scene.server.until("it ended", ended).await;
        eventually(|| self.scene.mounts().is_empty()).await;
        for file in &self.seen {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            eventually(|| is_refused(Path::new(&path))).await;
        }
        eventually(|| self.keeper_files().count() == self.files).await;
        self.scene.server.forget(id);
        eventually(|| !self.scene.alloc_path(id).exists()).await;
        assert_eq!(self.keeper_files().count(), self.files);
    }

    /// noded is killed: a connect waits, and the next noded serves the socket.
    async fn survives_a_kill(&mut self) {
        self.scene.kill();
        drop(wait_in_queue(self));
        self.start().await;
        self.answers().await;
    }
}

fn is_refused(path: &Path) -> bool {
    let connected = UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Asks on a connection, and answers the status; `None` where there is no connection or answer.
fn status(connected: std::io::Result<UnixStream>) -> Option<String> {
    let mut client = connected.ok()?;
    ask(&mut client);
    client.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    read_status(&mut client)
}

fn ask(client: &mut UnixStream) {
    // A connection that was closed meanwhile answers nothing.
    let _ = client.write_all(b"GET /v1/agent/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

fn read_status(client: &mut UnixStream) -> Option<String> {
    let mut head = [0; 12];
    client.read_exact(&mut head).ok()?;
    let head = String::from_utf8(head.to_vec()).ok()?;
    head.strip_prefix("HTTP/1.1 ").map(str::to_owned)
}

/// A connection made while noded is away, with a request; it is served by the next noded.
fn wait_in_queue(node: &Node) -> UnixStream {
    let mut client = UnixStream::connect(node.path()).expect("it waits in the queue");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut client);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_waits_while_noded_is_killed_after_hold_and_is_served() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    for _ in 0..3 {
        node.scene.kill();
        let mut client = wait_in_queue(&node);
        node.start().await;
        let status = tokio::task::spawn_blocking(move || read_status(&mut client));
        assert_eq!(status.await.unwrap().as_deref(), Some("401"));
    }
    node.answers().await;
    node.census().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_answers_after_noded_is_killed_between_bind_and_hold() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    let keeper = node.stop_keeper();
    node.want();
    node.is_bound().await;
    node.look();
    node.scene.kill();
    kill(keeper, Signal::SIGCONT).unwrap();
    node.start().await;
    node.runs().await;
    node.answers().await;
    node.survives_a_kill().await;
    node.census().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_held_after_keeper_is_killed_between_bind_and_hold() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    let keeper = node.stop_keeper();
    node.want();
    node.is_bound().await;
    kill(keeper, Signal::SIGKILL).unwrap();
    node.runs().await;
    node.answers().await;
    node.survives_a_kill().await;
    node.census().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_held_again_after_keeper_is_killed_after_hold() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    let connects = node.scene.log().matches("keeper restored").count();
    kill(node.keeper(), Signal::SIGKILL).unwrap();
    eventually(|| node.scene.log().matches("keeper restored").count() > connects).await;
    node.answers().await;
    node.is_held().await;
    node.survives_a_kill().await;
    node.census().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_answers_after_noded_is_killed_while_it_takes() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    node.scene.kill();
    let mut client = wait_in_queue(&node);
    eventually(|| keeper_names(&node) == 1).await;
    let keeper = node.stop_keeper();
    node.scene.start();
    // It waits for keeper's greeting, and then for what keeper holds.
    eventually(|| keeper_names(&node) > 1).await;
    node.scene.kill();
    kill(keeper, Signal::SIGCONT).unwrap();
    node.start().await;
    let status = tokio::task::spawn_blocking(move || read_status(&mut client));
    assert_eq!(status.await.unwrap().as_deref(), Some("401"));
    node.census().await;
}

/// The sockets of keeper's name: the one that listens, and one for each connection to it.
fn keeper_names(node: &Node) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = node.scene.directory.path().join("run/keeper.sock");
    let own = path.to_str().unwrap();
    sockets.lines().filter(|line| line.ends_with(own)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_bound_anew_after_noded_and_keeper_are_killed() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    node.scene.kill();
    kill(node.keeper(), Signal::SIGKILL).unwrap();
    eventually(|| is_refused(&node.path())).await;
    node.start().await;
    node.answers().await;
    node.is_held().await;
    node.survives_a_kill().await;
    node.census().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_socket_goes_when_its_file_or_allocation_went_meanwhile() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    node.scene.kill();
    // The task's own doing: its socket is another one from then on.
    std::fs::remove_file(node.path()).unwrap();
    node.start().await;
    node.answers().await;
    let first = format!("/proc/self/fd/{}", node.seen[0].as_raw_fd());
    eventually(|| is_refused(Path::new(&first))).await;
    node.scene.kill();
    node.scene.server.forget(node.id());
    node.start().await;
    let id = node.id();
    eventually(|| !node.scene.alloc_path(id).exists()).await;
    for file in &node.seen {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        eventually(|| is_refused(Path::new(&path))).await;
    }
    eventually(|| node.keeper_files().count() == node.files).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_the_task_api_lets_go_of_held_sockets() {
    let Some(mut node) = Node::new().await else {
        return;
    };
    node.want();
    node.runs().await;
    node.scene.kill();
    node.scene.configure("task_api {\n  enabled = false\n}");
    node.start().await;
    let path = node.path();
    eventually(|| is_refused(&path)).await;
    node.census().await;
}
