//! A keeper becomes another program: nothing that runs notices.

use crate::leases::{extend, lease};
use crate::pump::{limits, owner};
use crate::support::{
    Conversation, Scene, TestCgroup, exits_when, ignores_term, key, place, request, shell,
    wait_until,
};
use noded_keeper::client::{Connection, Launch, Starter, Upgrade, UpgradeError, ensure_current};
use noded_keeper::io::retire_streams;
use noded_keeper::protocol::{
    ExitCause, ExitStatus, Message, Refusal, Request, Response, StopMethod, TaskPhase, VersionRange,
};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const OWN: &str = env!("CARGO_BIN_EXE_noded-keeper");
/// The beginning of every state, before the digit of its version.
const STATE: &[u8] = b"drover keeper state, version ";

/// The same program as another build: other bytes behind the end of the executable.
pub(crate) fn another_build(scene: &Scene, name: &str) -> PathBuf {
    let mut bytes = std::fs::read(OWN).unwrap();
    bytes.extend_from_slice(name.as_bytes());
    install(scene, name, &bytes)
}

/// A build that reads and writes other versions of the state.
pub(crate) fn build_of_another_time(scene: &Scene) -> PathBuf {
    let mut bytes = std::fs::read(OWN).unwrap();
    let mut changed = 0;
    let places: Vec<usize> = bytes
        .windows(STATE.len())
        .enumerate()
        .filter_map(|(place, window)| (window == STATE).then_some(place))
        .collect();
    for place in places {
        if let version @ (b'1' | b'2') = &mut bytes[place + STATE.len()] {
            *version += 7;
            changed += 1;
        }
    }
    assert!(changed >= 2, "the program holds its state's versions");
    install(scene, "another-time", &bytes)
}

fn install(scene: &Scene, name: &str, bytes: &[u8]) -> PathBuf {
    let path = scene.directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A test beside this one may just have forked, with the file open for writing.
    wait_until("it can be executed", || {
        let mut command = Command::new(&path);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        match command.stdin(Stdio::null()).status() {
            Err(error) => error.kind() != std::io::ErrorKind::ExecutableFileBusy,
            Ok(_) => true,
        }
    });
    path
}

fn launch(scene: &Scene, cgroups: &TestCgroup, program: &Path) -> Launch {
    Launch {
        starter: Starter::ServiceManager,
        program: program.to_owned(),
        paths: scene.paths.clone(),
        cgroup_base: cgroups.path.clone(),
        supervisor_cgroup: None,
    }
}

pub(crate) fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

fn program_of(pid: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

pub(crate) fn upgrade(noded: &mut Connection, program: &Path) {
    let pid = noded.welcome().keeper_pid;
    noded.upgrade(program).unwrap();
    assert_eq!(noded.welcome().keeper_pid, pid, "the same process");
    assert_eq!(program_of(pid), program);
}

#[test]
fn tasks_live_on_and_their_ends_arrive_after_two_upgrades() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let go = scene.directory.path().join("go");
    let script = exits_when(&go, 9);
    let (waits, ended, leaves) = (
        key("a", "waits", 1),
        key("a", "ended", 1),
        key("a", "leaves", 1),
    );
    let pid = noded.start(request(&waits, &cgroups.task("waits")), &shell(&script));
    noded.start(request(&ended, &cgroups.task("ended")), &shell("exit 6"));
    let told = noded.exit(&ended);
    let files = open_files(noded.welcome().keeper_pid);
    for name in ["first", "second"] {
        upgrade(&mut noded, &another_build(&scene, name));
        let phases: Vec<TaskPhase> = noded.list().into_values().collect();
        assert_eq!(phases.len(), 2);
        assert_eq!(phases[0], TaskPhase::Exited(told));
        assert!(matches!(phases[1], TaskPhase::Running { pid: now, .. } if now == pid));
        let pid = noded.welcome().keeper_pid;
        wait_until("it holds no more than before", || open_files(pid) <= files);
        let stale = noded.spawn(request(&ended, "ended"), &shell("exit 0"));
        assert_eq!(stale, Response::Refused(Refusal::StaleEpoch { highest: 1 }));
    }
    // A child of the program before is a child of this one: its status is the true one.
    std::fs::write(&go, "").unwrap();
    assert_eq!(noded.exit(&waits).status, ExitStatus::Code(9));
    // And it works as before.
    noded.start(
        request(&leaves, &cgroups.task("leaves")),
        &shell("sleep 1000 & exit 3"),
    );
    assert_eq!(noded.exit(&leaves).status, ExitStatus::Code(3));
    assert!(!cgroups.is_populated("leaves"));
}

/// A keeper of the release before agreed on version 2 of the packets.
#[test]
fn upgraded_keeper_speaks_the_newest_version_on_the_same_connection() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "stays", 1);
    noded.start(request(&key, &cgroups.task("stays")), &shell("sleep 1000"));
    let newest = noded.welcome().protocol;
    let older = Request::Hello {
        protocol: VersionRange {
            lowest: 1,
            highest: newest - 1,
        },
        steps: noded.welcome().steps,
    };
    let asked = noded.send(&older, &[]).unwrap();
    let answer = noded.recv_within(Duration::from_secs(10)).unwrap();
    let Some(Message::Response {
        call,
        response: Response::Welcome { protocol, .. },
    }) = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!((call, protocol), (asked, newest - 1));
    upgrade(&mut noded, &another_build(&scene, "newer"));
    assert_eq!(noded.welcome().protocol, newest);
    assert_eq!(noded.take_sockets().unwrap().len(), 0);
    assert_eq!(noded.list().len(), 1);
}

#[test]
fn deadlines_and_leases_go_on_counting() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let (stopped, leased) = (key("a", "stopped", 1), key("leased", "web", 1));
    let ready = scene.directory.path().join("ready");
    let stubborn = ignores_term(&ready);
    noded.start(
        request(&stopped, &cgroups.task("stopped")),
        &shell(&stubborn),
    );
    let hour = Duration::from_secs(3600);
    extend(&mut noded, vec![lease("leased", hour)]);
    let spawn = request(&leased, &cgroups.task("leased"));
    noded.start(spawn, &shell("exec sleep 1000"));
    wait_until("the signal is ignored", || ready.exists());
    assert_eq!(noded.stop(&stopped, 3_000), StopMethod::Signalled);
    upgrade(&mut noded, &another_build(&scene, "next"));
    assert_eq!(noded.exit(&stopped).cause, ExitCause::KillDeadline);
    extend(&mut noded, vec![lease("leased", Duration::ZERO)]);
    assert_eq!(noded.exit(&leased).cause, ExitCause::LeaseExpired);
}

#[test]
fn output_is_complete_while_keeper_becomes_one_program_after_another() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let _keeper = scene.keeper(&cgroups);
    let _pump = scene.pump("auto");
    let mut noded = scene.connect();
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(100, 100_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    let go = scene.directory.path().join("go");
    let script = format!(
        "n=0; while [ ! -e {} ]; do n=$((n+1)); echo $n; done",
        go.display()
    );
    noded.start(spawn, &shell(&script));
    let builds = [another_build(&scene, "one"), another_build(&scene, "two")];
    for round in 0..4 {
        wait_until("more output is written", || {
            scene.log("web.stdout").len() > round * 20_000
        });
        upgrade(&mut noded, &builds[round % 2]);
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(noded.exit(&key).status, ExitStatus::Code(0));
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    let output = String::from_utf8(scene.log("web.stdout")).unwrap();
    assert!(!output.is_empty());
    for (number, line) in (1..).zip(output.lines()) {
        assert_eq!(line, number.to_string());
    }
}

#[test]
fn a_program_that_does_not_understand_the_state_leaves_the_old_keeper_running() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let go = scene.directory.path().join("go");
    let script = exits_when(&go, 9);
    noded.start(request(&key, &cgroups.task("web")), &shell(&script));
    let pid = noded.welcome().keeper_pid;
    let files = open_files(pid);
    let other_time = build_of_another_time(&scene);
    let text = install(&scene, "text", b"no program at all");
    for (program, expected) in [
        (other_time.as_path(), "no state of version 8 or 9"),
        (Path::new("/bin/false"), "says no"),
        (Path::new("/bin/true"), "no keeper that can be upgraded to"),
        (text.as_path(), "cannot be started"),
        (Path::new("/"), "is no file"),
    ] {
        let error = noded.upgrade(program).unwrap_err();
        let UpgradeError::Refused(Refusal::UpgradeFailed { detail }) = error else {
            panic!("{}: {error:?}", program.display());
        };
        assert!(detail.contains(expected), "{detail}");
        assert_eq!(program_of(pid), Path::new(OWN));
        wait_until("what the attempt needed is closed", || {
            open_files(pid) <= files
        });
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(noded.exit(&key).status, ExitStatus::Code(9));
}

#[test]
fn a_client_that_leaves_during_the_check_finds_one_keeper_or_the_other() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let spawn = request(&key, &cgroups.task("web"));
    noded.start(spawn, &shell("exec sleep 1000"));
    let pid = noded.welcome().keeper_pid;
    let next = another_build(&scene, "next");
    let program = std::fs::File::open(&next).unwrap();
    noded
        .send(&Request::Upgrade, &[std::os::fd::AsFd::as_fd(&program)])
        .unwrap();
    drop(noded);
    wait_until("nobody waits for it, and it goes on", || {
        program_of(pid) == next
    });
    let mut noded = scene.connect();
    let kill = Request::Kill { key: key.clone() };
    assert_eq!(noded.ask(&kill), Response::Accepted);
    assert_eq!(noded.exit(&key).cause, ExitCause::KillRequest);
}

#[test]
fn the_client_brings_keeper_up_to_date_only_where_it_is_another_build() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let _keeper = scene.keeper(&cgroups);
    drop(scene.connect());
    let current = |program: &Path| ensure_current(&launch(&scene, &cgroups, program)).unwrap();
    assert!(matches!(current(Path::new(OWN)).1, Upgrade::NotNeeded));
    // Another file with the same content is the same build.
    let copy = install(&scene, "copy", &std::fs::read(OWN).unwrap());
    assert!(matches!(current(&copy).1, Upgrade::NotNeeded));
    let next = another_build(&scene, "next");
    let (noded, done) = current(&next);
    assert!(matches!(done, Upgrade::Done), "{done:?}");
    assert_eq!(program_of(noded.welcome().keeper_pid), next);
    assert!(matches!(current(&next).1, Upgrade::NotNeeded));
    let (mut noded, refused) = current(&build_of_another_time(&scene));
    assert!(
        matches!(refused, Upgrade::NotDone(UpgradeError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 0 });
}

#[test]
fn a_state_that_is_lost_on_the_way_leaves_the_records() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let spawn = request(&key, &cgroups.task("web"));
    let pid = noded.start(spawn, &shell("exec sleep 1000"));
    keeper.kill();
    let _next = scene.keeper_with(&cgroups, &["--take-over", "100"]);
    let mut noded = scene.connect();
    let phase = noded.list().into_values().next();
    assert!(matches!(phase, Some(TaskPhase::Running { pid: told, .. }) if told == pid));
}
