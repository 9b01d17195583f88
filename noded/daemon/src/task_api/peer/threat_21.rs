//! Threat 21: processes of another task, another user or an earlier life of a pid connect to a
//! task's socket. The processes are real: the test starts itself once more in a cgroup.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use protocol_model::AllocId;

use super::*;

/// Says to the process that is started below that it is that process: the socket it connects to.
const SOCKET: &str = "DROVER_TEST_PEER_SOCKET";
const CLIENT: &str = "task_api::peer::threat_21::client_connects_when_it_is_told_to";
/// Says to a process that it is the first one of a pid namespace of its own.
const NAMESPACE: &str = "DROVER_TEST_PEER_NAMESPACE";
const REUSED: &str = "task_api::peer::threat_21::pid_that_is_reused_lets_no_stranger_in";

/// A user that is not root.
const OTHER_UID: u32 = 65_534;

/// The cgroups of two allocations' tasks, and the socket of the task `web` of the first one.
struct Scene {
    mount: PathBuf,
    tasks: String,
    socket: tempfile::TempDir,
    listener: UnixListener,
}

impl Scene {
    /// `None` where this host has no cgroups that can be made.
    fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let mount = match isolation::cgroup::find_mount() {
            Ok(mount) => mount.path,
            Err(error) => {
                eprintln!("skipped: needs cgroup v2: {error}");
                return None;
            }
        };
        let base = format!("drover-peer-{}-{name}", std::process::id());
        let socket = tempfile::tempdir().expect("a directory");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(socket.path(), open).expect("its mode");
        let path = socket.path().join("api.sock");
        let listener = UnixListener::bind(&path).expect("binds");
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&path, open).expect("its mode");
        Some(Self {
            mount,
            tasks: format!("{base}/tasks"),
            socket,
            listener,
        })
    }

    fn rule(&self, peers: Peers) -> PeerRule {
        let owner = SocketOwner {
            alloc: AllocId::from_u128(1),
            task: "web".to_owned(),
        };
        PeerRule::new(peers, &self.tasks, &owner, 0)
    }

    /// A cgroup below that of all tasks, made where it is missing.
    fn cgroup(&self, alloc: u128, below: &str) -> PathBuf {
        let alloc = AllocId::from_u128(alloc).to_string();
        let path = self.mount.join(&self.tasks).join(alloc).join(below);
        std::fs::create_dir_all(&path).expect("a cgroup");
        path
    }

    /// Starts a process of a user in a cgroup. It has connected once the result is accepted, and
    /// lives until it is dropped.
    fn connect(&self, cgroup: Option<&Path>, uid: u32) -> (Client, UnixStream) {
        let client = self.client(cgroup, uid, Stdio::piped());
        let (stream, _) = self.listener.accept().expect("accepts");
        (Client(client), stream)
    }

    fn client(&self, cgroup: Option<&Path>, uid: u32, stdin: Stdio) -> Child {
        let mut command = Command::new("/bin/sh");
        let enter = match cgroup {
            Some(cgroup) => format!("echo $$ > {}/cgroup.procs && ", cgroup.display()),
            None => String::new(),
        };
        let script = format!("{enter}exec setpriv --reuid {uid} --clear-groups -- \"$0\" \"$@\"");
        command.args(["-c", &script]);
        command.arg(std::env::current_exe().expect("this program"));
        command.args(["--exact", CLIENT]);
        command.env(SOCKET, self.socket.path().join("api.sock"));
        command.stdin(stdin).stdout(Stdio::null());
        command.process_group(0).spawn().expect("starts")
    }

    fn judge(&self, peers: Peers, cgroup: Option<&Path>, uid: u32) -> Result<u32, &'static str> {
        let (_client, stream) = self.connect(cgroup, uid);
        let judged = self.rule(peers).check(&stream);
        judged.map_err(|stranger| {
            assert_eq!(stranger.uid, uid);
            stranger.reason
        })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let base = self.tasks.trim_end_matches("/tasks");
        let _ = std::fs::write(self.mount.join(base).join("cgroup.kill"), "1");
        let patience = isolation::cgroup::Patience::Milliseconds(5000);
        let mount = std::fs::File::open(&self.mount).expect("the mount");
        if let Err(errors) = isolation::cgroup::remove_subtree(mount.as_fd(), base, patience) {
            eprintln!("{base}: {errors:?}");
        }
    }
}

/// A process that ends when this is dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Connects, and stays until its input ends.
#[test]
fn client_connects_when_it_is_told_to() {
    if let Some(path) = std::env::var_os(SOCKET) {
        let _stream = UnixStream::connect(path).expect("connects");
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    }
}

#[test]
fn processes_of_another_task_or_allocation_are_turned_away() {
    let Some(scene) = Scene::new("tasks") else {
        return;
    };
    for (alloc, cgroup, is_let_in) in [
        (1, "web.0", true),
        (1, "web.17", true),
        // A command of `alloc exec`.
        (1, "web.0/exec-1", true),
        // The task `web.1`, and one whose name begins the same.
        (1, "web.1.0", false),
        (1, "web2.0", false),
        (1, "other.0", false),
        (1, "other.0/web.0", false),
        (2, "web.0", false),
        (2, "web.0/exec-1", false),
    ] {
        let path = scene.cgroup(alloc, cgroup);
        let expected = match is_let_in {
            true => Ok(0),
            false => Err("it is not of the task"),
        };
        let judged = scene.judge(Peers::Cgroup, Some(&path), 0);
        assert_eq!(judged, expected, "{alloc} {cgroup}");
    }
    let outside = scene.judge(Peers::Cgroup, None, 0);
    assert_eq!(outside, Err("it is not of the task"));
}

#[test]
fn setting_of_peers_decides_by_cgroup_by_user_or_not_at_all() {
    let Some(scene) = Scene::new("users") else {
        return;
    };
    let own = scene.cgroup(1, "web.0");
    let other = scene.cgroup(2, "web.0");
    let (not_of_it, another) = (Err("it is not of the task"), Err("it is of another user"));
    for (peers, cgroup, uid, expected) in [
        // A task may change its user.
        (Peers::Cgroup, &own, OTHER_UID, Ok(OTHER_UID)),
        (Peers::Cgroup, &other, OTHER_UID, not_of_it),
        (Peers::Cgroup, &other, 0, not_of_it),
        (Peers::User, &own, 0, Ok(0)),
        (Peers::User, &other, 0, Ok(0)),
        (Peers::User, &own, OTHER_UID, another),
        (Peers::Any, &other, OTHER_UID, Ok(OTHER_UID)),
    ] {
        let judged = scene.judge(peers, Some(cgroup), uid);
        assert_eq!(judged, expected, "{peers:?} {} {uid}", cgroup.display());
    }
}

#[test]
fn process_that_connected_and_ended_is_turned_away() {
    let Some(scene) = Scene::new("ended") else {
        return;
    };
    let own = scene.cgroup(1, "web.0");
    let mut client = scene.client(Some(&own), 0, Stdio::null());
    assert!(client.wait().expect("it ends").success());
    let (stream, _) = scene.listener.accept().expect("accepts");
    let judged = scene.rule(Peers::Cgroup).check(&stream);
    assert_eq!(judged.map_err(|it| it.reason), Err("it has ended"));
}

/// In a pid namespace of its own, where the next pid can be chosen.
#[test]
fn pid_that_is_reused_lets_no_stranger_in() {
    if std::env::var_os(NAMESPACE).is_some() {
        return reuse();
    }
    if Scene::new("namespace").is_none() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", REUSED, "--nocapture"]);
    let output = command.env(NAMESPACE, "1").output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    eprint!("{said}");
}

fn reuse() {
    const NEXT: &str = "/proc/sys/kernel/ns_last_pid";
    let Some(scene) = Scene::new("reused") else {
        return;
    };
    let own = scene.cgroup(1, "web.0");
    // The stranger connects and ends before the connection is accepted.
    let mut stranger = scene.client(None, 0, Stdio::null());
    let pid = stranger.id();
    assert!(stranger.wait().expect("it ends").success());
    if let Err(error) = std::fs::write(NEXT, (pid - 1).to_string()) {
        eprintln!("skipped: needs {NEXT}: {error}");
        return;
    }
    let mut task = Command::new("/bin/sleep").arg("1000").spawn();
    let task = task.as_mut().expect("starts");
    assert_eq!(task.id(), pid, "the pid is reused");
    std::fs::write(own.join("cgroup.procs"), pid.to_string()).expect("enters");
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let alloc = AllocId::from_u128(1).to_string();
    let cgroup = cgroup_of(&cgroup).expect("version 2");
    assert!(is_of_task(cgroup, &scene.tasks, &alloc, "web"), "{cgroup}");

    let (stream, _) = scene.listener.accept().expect("accepts");
    let judged = scene.rule(Peers::Cgroup).check(&stream);
    task.kill().expect("is killed");
    task.wait().expect("is reaped");
    if matches!(
        getsockopt(&stream, PeerPidfd),
        Err(nix::errno::Errno::ENOPROTOOPT)
    ) {
        eprintln!("skipped: needs the pidfds of peers, of Linux 6.5");
        return;
    }
    assert_eq!(judged.map_err(|it| it.reason), Err("it has ended"));
}
