//! How tasks end: by themselves, by a signal, by a stop, by a kill; and what they leave.

use crate::support::{Conversation, ignores_term, key, place, request, shell, wait_until};
use noded_keeper::protocol::{
    ExitCause, ExitStatus, OomKill, OsSignal, Refusal, Remains, Request, Response, StopMethod,
};
use std::time::{Duration, Instant};

fn signalled(number: i32) -> ExitStatus {
    ExitStatus::Signal {
        signal: OsSignal(number),
        core_dumped: false,
    }
}

#[test]
fn exit_codes_and_fatal_signals_are_told() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
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
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
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
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let polite = key("a", "polite", 1);
    noded.start(
        request(&polite, &cgroups.task("polite")),
        &shell("exec sleep 1000"),
    );
    assert_eq!(noded.stop(&polite, 60_000), StopMethod::Signalled);
    let exit = noded.exit(&polite);
    assert_eq!(
        (exit.status, exit.cause),
        (signalled(libc::SIGTERM), ExitCause::OwnAccord)
    );

    let stubborn = key("a", "stubborn", 1);
    let ready = scene.directory.path().join("ready");
    let script = ignores_term(&ready);
    noded.start(
        request(&stubborn, &cgroups.task("stubborn")),
        &shell(&script),
    );
    wait_until("the signal is ignored", || ready.exists());
    let asked = Instant::now();
    assert_eq!(noded.stop(&stubborn, 300), StopMethod::Signalled);
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
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let mut spec = shell("exec sleep 1000");
    spec.namespaces
        .extend([isolation::Namespace::Mount, isolation::Namespace::Pid]);
    noded.start(request(&key, &cgroups.task("web")), &spec);
    assert_eq!(noded.stop(&key, 600_000), StopMethod::KilledAtOnce);
    let exit = noded.exit(&key);
    assert_eq!(exit.status, signalled(libc::SIGKILL));
    assert_eq!(exit.cause, ExitCause::SignalWouldBeDiscarded);
}

#[test]
fn a_reaper_hears_the_stop_signal_and_hands_it_on() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let key = key("a", "web", 1);
    let mut spec = shell("exec sleep 1000");
    spec.namespaces
        .extend([isolation::Namespace::Mount, isolation::Namespace::Pid]);
    spec.first_process = isolation::FirstProcess::Reaper;
    noded.start(request(&key, &cgroups.task("web")), &spec);
    assert_eq!(noded.stop(&key, 600_000), StopMethod::Signalled);
    let exit = noded.exit(&key);
    assert_eq!(exit.status, ExitStatus::Code(128 + libc::SIGTERM));
    assert_eq!(exit.cause, ExitCause::OwnAccord);
}

#[test]
fn what_a_task_leaves_behind_is_killed_before_its_exit_is_told() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
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
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
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
