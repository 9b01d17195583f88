//! keeper with real children: starts, ends, signals, refusals.

use crate::pump::{limits, owner};
use crate::support::{Conversation, PATIENCE, Scene, TestCgroup, key, request, shell, wait_until};
use noded_keeper::client::{
    Connection, Launch, LaunchError, Starter, ensure_pump_running, ensure_running, seal_plan,
};
use noded_keeper::io::retire_streams;
use noded_keeper::protocol::{
    Event, ExitCause, ExitStatus, Message, OomKill, OsSignal, Refusal, Remains, Request, Response,
    StdioSource, StopMethod, TaskPhase,
};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const TERM: OsSignal = OsSignal(libc::SIGTERM);

fn signalled(number: i32) -> ExitStatus {
    ExitStatus::Signal {
        signal: OsSignal(number),
        core_dumped: false,
    }
}

#[test]
fn exit_codes_and_fatal_signals_are_told() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let cgroup = cgroups.task("web");
    let scripts = [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 42", ExitStatus::Code(42)),
        ("kill -KILL $$", signalled(libc::SIGKILL)),
        ("kill -40 $$", signalled(40)),
    ];
    for (run_epoch, (script, status)) in (1..).zip(scripts) {
        let key = key("a", "web", run_epoch);
        noded.start(request(&key, &cgroup), &shell(script));
        let exit = noded.exit(&key);
        assert_eq!(
            (exit.status, exit.cause),
            (status, ExitCause::OwnAccord),
            "{script}"
        );
        assert_ne!(exit.oom, OomKill::Yes);
        assert_eq!(noded.ask(&Request::Acknowledge { key }), Response::Accepted);
    }
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 0 });
}

#[test]
fn a_signal_reaches_the_main_process() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let ready = scene.directory.path().join("ready");
    let script = format!(
        "trap 'exit 7' USR1; : > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    noded.start(request(&key, &cgroups.task("web")), &shell(&script));
    wait_until("the handler is set", || ready.exists());
    let signal = Request::Signal {
        key: key.clone(),
        signal: OsSignal(libc::SIGUSR1),
    };
    assert_eq!(noded.ask(&signal), Response::Accepted);
    assert_eq!(noded.exit(&key).status, ExitStatus::Code(7));
    let refused = noded.ask(&signal);
    assert_eq!(refused, Response::Refused(Refusal::AlreadyEnded));
}

#[test]
fn a_stop_is_a_signal_first_and_a_kill_only_after_its_deadline() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let polite = key("a", "polite", 1);
    noded.start(
        request(&polite, &cgroups.task("polite")),
        &shell("exec sleep 1000"),
    );
    let stop = Request::Stop {
        key: polite.clone(),
        signal: TERM,
        kill_after_ms: 60_000,
    };
    assert_eq!(
        noded.ask(&stop),
        Response::Stopping {
            method: StopMethod::Signalled
        }
    );
    let exit = noded.exit(&polite);
    assert_eq!(
        (exit.status, exit.cause),
        (signalled(libc::SIGTERM), ExitCause::OwnAccord)
    );

    let stubborn = key("a", "stubborn", 1);
    let ready = scene.directory.path().join("ready");
    let script = format!(
        "trap '' TERM; : > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    noded.start(
        request(&stubborn, &cgroups.task("stubborn")),
        &shell(&script),
    );
    wait_until("the signal is ignored", || ready.exists());
    let asked = Instant::now();
    let stop = Request::Stop {
        key: stubborn.clone(),
        signal: TERM,
        kill_after_ms: 300,
    };
    assert_eq!(
        noded.ask(&stop),
        Response::Stopping {
            method: StopMethod::Signalled
        }
    );
    let exit = noded.exit(&stubborn);
    assert!(asked.elapsed() >= Duration::from_millis(300));
    assert_eq!(
        (exit.status, exit.cause),
        (signalled(libc::SIGKILL), ExitCause::KillDeadline)
    );
    assert!(!cgroups.is_populated("stubborn"));
}

#[test]
fn a_stop_signal_that_pid_1_would_not_hear_kills_at_once_and_says_so() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let mut spec = shell("exec sleep 1000");
    spec.namespaces
        .extend([isolation::Namespace::Mount, isolation::Namespace::Pid]);
    noded.start(request(&key, &cgroups.task("web")), &spec);
    let stop = Request::Stop {
        key: key.clone(),
        signal: TERM,
        kill_after_ms: 600_000,
    };
    assert_eq!(
        noded.ask(&stop),
        Response::Stopping {
            method: StopMethod::KilledAtOnce
        }
    );
    let exit = noded.exit(&key);
    assert_eq!(exit.status, signalled(libc::SIGKILL));
    assert_eq!(exit.cause, ExitCause::SignalWouldBeDiscarded);
}

#[test]
fn a_reaper_hears_the_stop_signal_and_hands_it_on() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let mut spec = shell("exec sleep 1000");
    spec.namespaces
        .extend([isolation::Namespace::Mount, isolation::Namespace::Pid]);
    spec.first_process = isolation::FirstProcess::Reaper;
    noded.start(request(&key, &cgroups.task("web")), &spec);
    let stop = Request::Stop {
        key: key.clone(),
        signal: TERM,
        kill_after_ms: 600_000,
    };
    assert_eq!(
        noded.ask(&stop),
        Response::Stopping {
            method: StopMethod::Signalled
        }
    );
    let exit = noded.exit(&key);
    assert_eq!(exit.status, ExitStatus::Code(128 + libc::SIGTERM));
    assert_eq!(exit.cause, ExitCause::OwnAccord);
}

#[test]
fn what_a_task_leaves_behind_is_killed_before_its_exit_is_told() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let script = "for n in 1 2 3; do setsid sleep 1000 & done; exit 5";
    noded.start(request(&key, &cgroups.task("web")), &shell(script));
    let exit = noded.exit(&key);
    assert_eq!(
        (exit.status, exit.remains),
        (ExitStatus::Code(5), Remains::Killed)
    );
    assert!(!cgroups.is_populated("web"));
}

#[test]
fn a_kill_ends_the_whole_cgroup() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    noded.start(
        request(&key, &cgroups.task("web")),
        &shell("sleep 1000 & sleep 1000; :"),
    );
    assert_eq!(
        noded.ask(&Request::Kill { key: key.clone() }),
        Response::Accepted
    );
    let exit = noded.exit(&key);
    assert_eq!(
        (exit.status, exit.cause),
        (signalled(libc::SIGKILL), ExitCause::KillRequest)
    );
    assert!(!cgroups.is_populated("web"));
}

#[test]
fn a_program_that_is_not_there_is_a_failed_start_with_the_step_and_the_errno() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let mut spec = shell("");
    spec.command = "/nowhere/program".into();
    assert_eq!(
        noded.spawn(request(&key, &cgroups.task("web")), &spec),
        Response::Accepted
    );
    let Event::SpawnFailed {
        key: failed,
        failure,
    } = noded.event()
    else {
        panic!("the start must fail")
    };
    assert_eq!(failed, key);
    assert_eq!(failure.errno, libc::ENOENT);
    assert!(
        failure.step.contains("/nowhere/program"),
        "{}",
        failure.step
    );
    assert!(failure.step_index.is_some());
}

#[test]
fn run_epochs_fence_late_requests() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let cgroup = cgroups.task("web");
    let fifth = key("a", "web", 5);
    noded.start(request(&fifth, &cgroup), &shell("exec sleep 1000"));
    let other = cgroups.task("other");
    let spec = shell("exit 0");
    for (run_epoch, refusal) in [
        (4, Refusal::StaleEpoch { highest: 5 }),
        (5, Refusal::StaleEpoch { highest: 5 }),
        (6, Refusal::EarlierRunAlive { run_epoch: 5 }),
    ] {
        let answer = noded.spawn(request(&key("a", "web", run_epoch), &other), &spec);
        assert_eq!(answer, Response::Refused(refusal));
    }
    noded.ask(&Request::Kill { key: fifth.clone() });
    noded.exit(&fifth);
    noded.ask(&Request::Acknowledge { key: fifth.clone() });
    let answer = noded.spawn(request(&fifth, &cgroup), &spec);
    assert_eq!(
        answer,
        Response::Refused(Refusal::StaleEpoch { highest: 5 })
    );
    noded.ask(&Request::Forget { alloc: "a".into() });
    noded.start(request(&fifth, &cgroup), &spec);
    noded.exit(&fifth);
}

#[test]
fn requests_that_cannot_be_followed_are_refused_and_change_nothing() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    let spec = shell("exit 0");
    let refused = |response| match response {
        Response::Refused(refusal) => refusal,
        other => panic!("must be refused, not {other:?}"),
    };
    let missing = noded.ask(&Request::Spawn(request(&key, "web")));
    assert_eq!(refused(missing), Refusal::MissingDescriptor { position: 0 });
    let no_cgroup = noded.spawn(request(&key, "nowhere"), &spec);
    let path = "nowhere".to_owned();
    assert_eq!(
        refused(no_cgroup),
        Refusal::Cgroup {
            path,
            errno: libc::ENOENT
        }
    );
    let outside = noded.spawn(request(&key, "../"), &spec);
    assert!(matches!(
        refused(outside),
        Refusal::Cgroup {
            errno: libc::EXDEV,
            ..
        }
    ));
    let cgroup = cgroups.task("web");
    let mut no_fifo = request(&key, &cgroup);
    no_fifo.stdout = StdioSource::Fifo {
        name: "../keeper.sock".into(),
    };
    assert!(matches!(
        refused(noded.spawn(no_fifo, &spec)),
        Refusal::Fifo { .. }
    ));
    let unsealed = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let answer = noded.ask_with(&Request::Spawn(request(&key, &cgroup)), &[unsealed.as_fd()]);
    assert!(matches!(refused(answer), Refusal::BadPlan { .. }));
    let mut foreign = isolation::plan(&spec).unwrap();
    foreign.version = isolation::PLAN_VERSIONS.end() + 1;
    let foreign = seal_plan(&foreign).unwrap();
    let answer = noded.ask_with(&Request::Spawn(request(&key, &cgroup)), &[foreign.as_fd()]);
    let Refusal::BadPlan { detail } = refused(answer) else {
        panic!("another refusal");
    };
    assert!(detail.contains("only 1 to 2 are applied"), "{detail}");
    let unknown = noded.ask(&Request::Kill { key: key.clone() });
    assert_eq!(refused(unknown), Refusal::UnknownTask);
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 0 });
    // The refused epoch was not used up.
    noded.start(request(&key, &cgroup), &spec);
    noded.exit(&key);
}

#[test]
fn a_client_that_returns_finds_what_it_missed_and_the_newest_client_wins() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut first = scene.connect();
    let (ended, alive) = (key("a", "ended", 1), key("a", "alive", 9));
    let pid = first.start(
        request(&alive, &cgroups.task("alive")),
        &shell("exec sleep 1000"),
    );
    let spec = shell("exec sleep 0.05; exit 3");
    first.start(request(&ended, &cgroups.task("ended")), &spec);
    drop(first);
    wait_until("the task ended", || !cgroups.is_populated("ended"));
    let mut second = scene.connect();
    let mut third = scene.connect();
    let lost = second.recv_within(PATIENCE);
    assert!(
        matches!(lost, Err(noded_keeper::client::ConnectionError::Closed)),
        "{lost:?}"
    );
    let Response::Listing { tasks, more } = third.ask(&Request::List) else {
        panic!("List lists")
    };
    assert!(!more);
    let phase = |wanted| &tasks.iter().find(|task| task.key == wanted).unwrap().phase;
    assert!(matches!(
        phase(alive.clone()),
        TaskPhase::Running { pid: told, stopping: false, .. } if *told == pid
    ));
    assert!(matches!(phase(ended.clone()), TaskPhase::Exited(_)));
    assert_eq!(tasks.len(), 2);
    third.ask(&Request::Acknowledge { key: ended });
    let Response::Listing { tasks, .. } = third.ask(&Request::List) else {
        panic!("List lists")
    };
    assert_eq!(tasks.len(), 1);
}

#[test]
fn output_goes_through_fifos_to_log_files() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let _pump = scene.pump("auto");
    let mut noded = scene.connect();
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(10, 1_000_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    noded.start(spawn, &shell("seq 1 20000; echo warning >&2"));
    assert_eq!(noded.exit(&key).status, ExitStatus::Code(0));
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    noded.ask(&Request::Acknowledge { key });
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    assert!(scene.log("web.stdout") == expected.as_bytes());
    assert_eq!(scene.log("web.stderr"), b"warning\n");
}

#[test]
fn output_of_an_acknowledged_task_waits_for_a_pump() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let owner = owner("web");
    let streams = scene.streams(&owner, limits(10, 1_000_000));
    let key = key(owner.alloc(), "web", 1);
    let mut spawn = request(&key, &cgroups.task("web"));
    (spawn.stdout, spawn.stderr) = (streams.stdout, streams.stderr);
    noded.start(spawn, &shell("echo last words"));
    noded.exit(&key);
    noded.ask(&Request::Acknowledge { key });
    let _pump = scene.pump("auto");
    retire_streams(&scene.paths, &owner).unwrap();
    scene.wait_drained(&owner);
    assert_eq!(scene.log("web.stdout"), b"last words\n");
}

#[test]
fn a_list_longer_than_a_packet_comes_in_pages() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let cgroup = cgroups.task("all");
    for number in 0..250 {
        let key = key("a", &format!("task{number}"), 1);
        noded.start(request(&key, &cgroup), &shell("exit 0"));
        noded.exit(&key);
    }
    let asked = noded.send(&Request::List, &[]).unwrap();
    let mut pages = Vec::new();
    loop {
        let Some(Message::Response { call, response }) = noded.recv_within(PATIENCE).unwrap()
        else {
            panic!("only pages are expected")
        };
        let Response::Listing { tasks, more } = response else {
            panic!("only pages")
        };
        assert_eq!(call, asked);
        pages.push(tasks.len());
        if !more {
            break;
        }
    }
    assert_eq!(pages, [100, 100, 50]);
}

#[test]
fn rubbish_on_the_socket_ends_that_session_and_nothing_else() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let mut noded = scene.connect();
    let key = key("a", "web", 1);
    noded.start(
        request(&key, &cgroups.task("web")),
        &shell("exec sleep 1000"),
    );
    drop(noded);
    // A linear congruential generator: the same rubbish in every run.
    let mut state = 12345_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    for _ in 0..300 {
        let socket = raw_client(&scene);
        for _ in 0..4 {
            let length = random() as usize % 200;
            let mut packet: Vec<u8> = (0..length).map(|_| random().to_le_bytes()[0]).collect();
            if random() % 2 == 0 && !packet.is_empty() {
                packet[0] = 1;
            }
            let _ = rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL);
        }
    }
    let socket = raw_client(&scene);
    let _ = rustix::net::send(&socket, &[1; 100_000], rustix::net::SendFlags::NOSIGNAL);
    let mut noded = scene.connect();
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 1 });
    noded.ask(&Request::Kill { key: key.clone() });
    noded.exit(&key);
}

fn raw_client(scene: &Scene) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let raw = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(scene.paths.socket()).unwrap();
    wait_until("keeper takes connections", || {
        connect(&raw, &address).is_ok()
    });
    raw
}

#[test]
fn a_request_before_the_greeting_is_refused() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let _keeper = scene.keeper(&cgroups);
    let socket = raw_client(&scene);
    use noded_keeper::protocol::{CallId, decode_from_keeper, encode_for_keeper};
    let packet = encode_for_keeper(CallId(4), &Request::Ping).unwrap();
    rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL).unwrap();
    let mut answer = [0; 1000];
    let (length, _) =
        rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty()).unwrap();
    let response = Response::Refused(Refusal::NotGreeted);
    let expected = Message::Response {
        call: CallId(4),
        response,
    };
    assert_eq!(decode_from_keeper(&answer[..length]).unwrap(), expected);
}

#[test]
fn the_client_starts_what_is_missing_and_finds_what_is_there() {
    let Some(cgroups) = TestCgroup::new() else {
        return;
    };
    let scene = Scene::new();
    let launch = Launch {
        starter: Starter::Client,
        program: env!("CARGO_BIN_EXE_noded-keeper").into(),
        paths: scene.paths.clone(),
        cgroup_base: cgroups.path.clone(),
        supervisor_cgroup: Some(cgroups.path.join("supervisor")),
    };
    let managed = Launch {
        starter: Starter::ServiceManager,
        ..launch.clone()
    };
    let absent = |error| matches!(error, LaunchError::Absent { .. });
    assert!(absent(ensure_running(&managed).unwrap_err()));
    assert!(absent(ensure_pump_running(&managed).unwrap_err()));
    let mut noded = ensure_running(&launch).unwrap();
    let keeper = noded.welcome().keeper_pid;
    assert_eq!(
        ensure_running(&launch).unwrap().welcome().keeper_pid,
        keeper
    );
    noded = ensure_running(&launch).unwrap();
    ensure_pump_running(&launch).unwrap();
    ensure_pump_running(&managed).unwrap();
    let members = std::fs::read_to_string(cgroups.path.join("supervisor/cgroup.procs")).unwrap();
    assert_eq!(
        members.lines().count(),
        2,
        "keeper and one pump: {members:?}"
    );
    assert!(members.lines().any(|pid| pid == keeper.to_string()));
    let stat = std::fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap();
    assert!(stat.contains("(drover-keeper)"));
    let session = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(3)
        .unwrap();
    assert_eq!(
        session,
        keeper.to_string(),
        "keeper leads a session of its own"
    );
    let key = key("a", "web", 1);
    noded.start(
        request(&key, &cgroups.task("web")),
        &shell("exec sleep 1000"),
    );
    let refused = noded.ask(&Request::Shutdown);
    assert_eq!(refused, Response::Refused(Refusal::RunsRemain { runs: 1 }));
    noded.ask(&Request::Kill { key: key.clone() });
    noded.exit(&key);
    noded.ask(&Request::Acknowledge { key });
    assert_eq!(noded.ask(&Request::Shutdown), Response::Accepted);
    wait_until("keeper ended", || {
        Connection::connect(&scene.paths).is_err()
    });
    assert!(!scene.paths.socket().exists());
}
