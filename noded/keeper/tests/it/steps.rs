//! Deaths in the middle of a step: the rows of the table in ARCHITECTURE.md that need a step to be
//! held open.

use crate::support::{Conversation, Scene, ignores_term, key, place, request, shell, wait_until};
use noded_keeper::client::{Connection, seal_plan};
use noded_keeper::protocol::{
    Event, ExitCause, ExitStatus, Remains, Request, Response, SpawnFailure, StdioSource,
    StopMethod, TaskKey, TaskPhase,
};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// A task that hangs between clone and exec: its network is a FIFO that nobody writes to. Answers
/// the FIFO; as soon as somebody opens it the step fails, because it is no namespace.
fn start_hanging(scene: &Scene, noded: &mut Connection, key: &TaskKey, cgroup: &str) -> PathBuf {
    let fifo = scene.directory.path().join("network");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut spec = shell("exit 0");
    spec.network = isolation::Network::Path(fifo.clone());
    let mut spawn = request(key, cgroup);
    spawn.start_timeout_ms = 600_000;
    assert_eq!(noded.spawn(spawn, &spec), Response::Accepted);
    fifo
}

fn failure_of(noded: &mut Connection) -> SpawnFailure {
    let mut found = None;
    wait_until("the start has failed", || {
        found = noded.list().into_values().next();
        matches!(found, Some(TaskPhase::SpawnFailed(_)))
    });
    match found {
        Some(TaskPhase::SpawnFailed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_between_clone_and_exec_dies_with_its_keeper_and_its_start_has_failed() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    start_hanging(&scene, &mut noded, &key, &cgroups.task("web"));
    assert!(cgroups.is_populated("web"));
    keeper.kill();
    let (_next, mut noded) = scene.serve(&cgroups);
    let failure = failure_of(&mut noded);
    assert!(failure.step.contains("a keeper that lived"), "{failure:?}");
    wait_until("the child is gone", || !cgroups.is_populated("web"));
}

/// Puts a frozen record where a keeper that died would have left it.
fn leave_record(scene: &Scene, frozen: &str) -> TaskKey {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let name = "0b7d6a80-1f0e-4c55-9d3c-5d1a52a0c001.web.300";
    let record = scene.paths.records_directory().join(name);
    std::fs::copy(golden.join(frozen), record).unwrap();
    key("0b7d6a80-1f0e-4c55-9d3c-5d1a52a0c001", "web", 300)
}

#[test]
fn a_record_without_a_process_is_a_failed_start() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    leave_record(&scene, "record-0.bin");
    let _keeper = scene.keeper(&cgroups);
    let failure = failure_of(&mut scene.connect());
    assert!(failure.step.contains("a keeper that lived"), "{failure:?}");
}

#[test]
fn the_status_of_a_main_process_outlives_the_keeper_that_was_ending_the_rest() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    // It exited with 5, and this one was left.
    let key = leave_record(&scene, "record-7.bin");
    let parent = cgroups.path.join("a");
    std::fs::create_dir_all(parent.join("web")).unwrap();
    let mut left = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let procs = parent.join("web/cgroup.procs");
    std::fs::write(procs, left.id().to_string()).unwrap();
    let (_keeper, mut noded) = scene.serve(&cgroups);
    wait_until("the end is known", || {
        matches!(noded.list().remove(&key), Some(TaskPhase::Exited(exit))
            if (exit.status, exit.remains) == (ExitStatus::Code(5), Remains::Killed))
    });
    assert!(!cgroups.is_populated("a/web"));
    left.wait().unwrap();
    std::fs::remove_dir(parent.join("web")).unwrap();
}

#[test]
fn a_start_that_is_under_way_goes_on_in_the_next_build_and_a_failed_step_has_its_words() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let fifo = start_hanging(&scene, &mut noded, &key, &cgroups.task("web"));
    noded
        .upgrade(Path::new(env!("CARGO_BIN_EXE_noded-keeper")))
        .unwrap();
    let phase = noded.list().remove(&key);
    assert!(
        matches!(phase, Some(TaskPhase::Starting { .. })),
        "{phase:?}"
    );
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    match noded.event() {
        Event::SpawnFailed { failure, .. } => {
            assert_eq!(failure.errno, libc::EINVAL);
            assert!(
                failure.step.contains("join namespaces: network"),
                "{failure:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kill_deadline_outlives_the_noded_that_gave_it() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let ready = scene.directory.path().join("ready");
    let script = ignores_term(&ready);
    noded.start(request(&key, &cgroups.task("web")), &shell(&script));
    wait_until("the signal is ignored", || ready.exists());
    assert_eq!(noded.stop(&key, 500), StopMethod::Signalled);
    drop(noded);
    wait_until("keeper does it alone", || !cgroups.is_populated("web"));
    let mut noded = scene.connect();
    let mut cause = None;
    wait_until("its end waits to be told", || {
        cause = noded.list().remove(&key).and_then(|phase| match phase {
            TaskPhase::Exited(exit) => Some(exit.cause),
            _ => None,
        });
        cause.is_some()
    });
    assert_eq!(cause, Some(ExitCause::KillDeadline));
}

#[test]
fn where_the_host_refuses_io_uring_epoll_takes_over_and_says_so() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    // A pump as a task: the default filter refuses io_uring, as container hosts do.
    let mut spec = shell("");
    spec.command = env!("CARGO_BIN_EXE_noded-keeper").to_owned();
    spec.args = ["pump", "--engine", "auto", "--runtime-dir"]
        .map(str::to_owned)
        .into();
    spec.args.push(scene.paths.root().display().to_string());
    spec.new_privileges = isolation::NewPrivileges::Forbidden;
    spec.seccomp = isolation::SeccompProfile::Default;
    let plan = seal_plan(&isolation::plan(&spec).unwrap()).unwrap();
    let (said, says) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let key = key("a", "pump", 1);
    let mut spawn = request(&key, &cgroups.task("pump"));
    spawn.stderr = StdioSource::Descriptor { position: 1 };
    let answer = noded.ask_with(&Request::Spawn(spawn), &[plan.as_fd(), says.as_fd()]);
    assert_eq!(answer, Response::Accepted);
    drop(says);
    let owner = crate::pump::owner("web");
    let streams = scene.streams(&owner, crate::pump::limits(10, 100_000));
    let mut writes = request(
        &TaskKey::new(owner.alloc(), owner.task(), 1).unwrap(),
        &cgroups.task("web"),
    );
    (writes.stdout, writes.stderr) = (streams.stdout, streams.stderr);
    let plan = seal_plan(&isolation::plan(&shell("echo through epoll")).unwrap()).unwrap();
    let answer = noded.ask_with(&Request::Spawn(writes), &[plan.as_fd()]);
    assert_eq!(answer, Response::Accepted);
    wait_until("its output is in the log", || {
        scene.log("web.stdout") == b"through epoll\n"
    });
    let kill = Request::Kill { key };
    assert_eq!(noded.ask(&kill), Response::Accepted);
    let mut words = String::new();
    std::fs::File::from(said)
        .read_to_string(&mut words)
        .unwrap();
    assert!(words.contains("refuses io_uring"), "{words}");
    assert!(words.contains("streams with epoll"), "{words}");
}
