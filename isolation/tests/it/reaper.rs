//! A reaper as PID 1 of a task.

use std::os::fd::AsFd as _;

use isolation::signals::pid1_ignores;
use isolation::{FirstProcess, Report, SandboxSpec, plan};
use rustix::process::{Signal, pidfd_send_signal};

use crate::fixture::{Fixture, start};

fn reaped(spec: SandboxSpec) -> SandboxSpec {
    SandboxSpec {
        first_process: FirstProcess::Reaper,
        ..spec
    }
}

#[test]
fn the_program_is_the_reapers_child_in_a_session_of_its_own() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "echo pid $$ parent $PPID; set -- $(cat /proc/$$/stat); \
                  echo leader $(($1 == $5)) $(($1 == $6)); cat /proc/1/comm; \
                  tr '\\0' '\\n' < /proc/1/cmdline; \
                  grep -E '^(SigBlk|SigIgn):' /proc/self/status; ls /proc/1/fd | wc -l";
    let outcome = fixture.run(&reaped(fixture.exec_as_root(script)));
    let expected = "pid 2 parent 1\nleader 1 1\ninit\ninit\nSigBlk:\t0000000000000000\n\
                    SigIgn:\t0000000000000000\n1\n";
    assert_eq!(outcome.success(), expected, "{outcome:?}");
}

#[test]
fn a_task_with_root_s_powers_cannot_write_to_its_program() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "grep ^Uid: /proc/1/status; test -w /proc/1/exe && echo writable; \
                  (echo x > /proc/1/exe) 2>/dev/null && echo written; \
                  grep -E '^(CapEff|Seccomp|NoNewPrivs):' /proc/1/status";
    let outcome = fixture.run(&reaped(fixture.exec_as_root(script)));
    let output = outcome.success();
    assert!(output.starts_with("Uid:\t0"), "{output}");
    assert!(!output.contains("written"), "{output}");
    assert!(output.contains("Seccomp:\t2"), "{output}");
}

#[test]
fn it_is_the_task_s_user_as_the_program_is() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let outcome = fixture.run(&reaped(fixture.exec("grep ^Uid: /proc/1/status")));
    assert!(outcome.success().starts_with("Uid:\t65534"), "{outcome:?}");
}

#[test]
fn orphans_are_buried_and_the_program_s_status_is_the_task_s() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    // Grandchildren whose parents leave at once become children of PID 1; without anybody who
    // reaps them they stay as zombies.
    let script = "for i in 1 2 3 4 5; do (true & ); done; \
                  until ! grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | grep -q .; \
                  do sleep 0.01; done; exit 7";
    let outcome = fixture.run(&reaped(fixture.exec(script)));
    assert_eq!((outcome.status, outcome.failure), (7, None));
}

#[test]
fn signals_are_handed_on_and_a_death_by_one_is_told_as_shells_do() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let scripts = [
        ("echo ready; sleep 600 & wait", 128 + 15),
        (
            "trap 'kill %1; exit 5' TERM; echo ready; sleep 600 & wait",
            5,
        ),
    ];
    for (offset, (script, expected)) in scripts.into_iter().enumerate() {
        let plan = plan(&reaped(fixture.exec(script))).expect("a plan");
        let cgroup = fixture.cgroup(&format!("web-{offset}"));
        let mut running = start(&plan, &cgroup, None);
        assert_eq!(running.report(), Report::Running);
        running.await_output("ready");
        let pid = running.spawned.pid.as_raw_pid().unsigned_abs();
        assert!(!pid1_ignores(pid, 15).expect("its state"), "it listens");
        pidfd_send_signal(running.spawned.pidfd.as_fd(), Signal::TERM).expect("sent");
        assert_eq!(running.wait(), expected);
    }
}

#[test]
fn a_program_that_is_not_there_is_told_as_without_a_reaper() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let spec = SandboxSpec {
        command: "/no/such/program".to_owned(),
        ..reaped(fixture.exec(""))
    };
    let outcome = fixture.run(&spec);
    assert_eq!(outcome.status, 127);
    let failure = outcome.failure.expect("a failure");
    assert!(failure.contains("/no/such/program"), "{failure}");
}

#[test]
fn a_first_process_that_waits_for_signals_is_seen_to_hear_them() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    // As small inits do: everything blocked, then sigwait in turn with something else.
    let script = "import signal, sys; every = signal.valid_signals(); \
                  signal.pthread_sigmask(signal.SIG_BLOCK, every); print('ready', flush=True); \
                  sys.exit(signal.sigwait(every) + 40)";
    let mut spec = fixture.exec("");
    (spec.command, spec.args) = ("python3".into(), vec!["-c".into(), script.into()]);
    let plan = plan(&spec).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let mut running = start(&plan, &cgroup, None);
    if let Report::Failed(_) = running.report() {
        running.wait();
        eprintln!("skipped: needs python3");
        return;
    }
    running.await_output("ready");
    let pid = running.spawned.pid.as_raw_pid().unsigned_abs();
    assert!(!pid1_ignores(pid, 15).expect("its state"), "it waits");
    pidfd_send_signal(running.spawned.pidfd.as_fd(), Signal::TERM).expect("sent");
    assert_eq!(running.wait(), 15 + 40);
}
