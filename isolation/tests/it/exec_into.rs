//! A second process inside a running task, and signals to a first one.

use isolation::signals::pid1_ignores;
use isolation::{ExecInto, Report, SandboxSpec, Terminal, plan, plan_exec_into};

use crate::fixture::{Fixture, start};

const SIGTERM: u8 = 15;

fn request(script: &str) -> ExecInto {
    ExecInto {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        terminal: Terminal::None,
    }
}

fn second(fixture: &Fixture, spec: &SandboxSpec, script: &str) -> String {
    let first_plan = plan(spec).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let mut first = start(&first_plan, &cgroup, None);
    assert_eq!(first.report(), Report::Running);
    first.await_output("ready");
    let second_plan = plan_exec_into(spec, &request(script)).expect("a plan");
    let second = start(&second_plan, &cgroup, Some(&first.spawned.pidfd));
    let outcome = second.finish(&second_plan);
    cgroup.kill().expect("killed");
    assert_eq!(first.wait(), -9);
    outcome.success().to_owned()
}

#[test]
fn a_second_process_shares_root_user_namespaces_and_cgroup() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let spec = fixture.exec("echo mark > /tmp/mark; echo ready; sleep 600");
    let script = "cat /tmp/mark; id -u; pwd; ls -d /root 2>/dev/null; grep ^0: /proc/self/cgroup; \
                  test $$ != 1 && test $$ -lt 100 && echo small; \
                  grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status; \
                  ls /proc | grep -c '^[0-9]'";
    let output = second(&fixture, &spec, script);
    let expected = "mark\n65534\n/\n0::/\nsmall\nCapEff:\t0000000000000000\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\n";
    assert!(output.starts_with(expected), "{output}");
    // Both shells, sleep, ls and grep: nobody else's processes.
    let processes: u32 = output[expected.len()..].trim().parse().expect("a count");
    assert!(processes <= 6, "{output}");
}

#[test]
fn a_second_process_of_a_raw_task_is_just_a_process_beside_it() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let spec = fixture.raw_exec("echo ready; sleep 600");
    let output = second(&fixture, &spec, "pwd; grep ^0: /proc/self/cgroup");
    let expected = format!(
        "{}\n0::/{}/tasks/0e7f/web\n",
        fixture.layout().task.display(),
        fixture.hierarchy().base().display()
    );
    assert_eq!(output, expected);
}

#[test]
fn later_children_are_not_born_in_the_joined_namespace() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let spec = fixture.exec("echo ready; sleep 600");
    second(&fixture, &spec, "true");
    drop(fixture.fresh_cgroup("web"));
    let outcome = fixture.run(&fixture.raw_exec("readlink /proc/self/ns/pid"));
    let own = std::fs::read_link("/proc/self/ns/pid").expect("own namespace");
    assert_eq!(outcome.success().trim(), own.to_str().expect("utf-8"));
}

#[test]
fn a_first_process_without_a_handler_ignores_sigterm_and_one_with_it_does_not() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (script, ignores) in [
        ("echo ready; exec sleep 600", true),
        (
            "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done",
            false,
        ),
    ] {
        let plan = plan(&fixture.exec(script)).expect("a plan");
        let cgroup = fixture.fresh_cgroup("web");
        let mut task = start(&plan, &cgroup, None);
        task.await_output("ready");
        let pid = u32::try_from(task.spawned.pid.as_raw_nonzero().get()).expect("positive");
        assert_eq!(
            pid1_ignores(pid, SIGTERM).expect("state"),
            ignores,
            "{script}"
        );
        if ignores {
            cgroup.kill().expect("killed");
            assert_eq!(task.wait(), -9);
        } else {
            let signal = rustix::process::Signal::TERM;
            rustix::process::pidfd_send_signal(&task.spawned.pidfd, signal).expect("sent");
            assert_eq!(task.wait(), 3);
        }
    }
}
