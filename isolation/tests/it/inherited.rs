//! What a task inherits is set, not inherited: one program prints all of it, and both drivers
//! must print the same, whatever this process is like.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;

use isolation::{Resource, ResourceLimit, SandboxSpec, Terminal};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use crate::fixture::Fixture;

/// Prints everything that a process could have by inheritance.
const PROBE: &str = r"
    cat /proc/self/status | grep -E '^(SigBlk|SigIgn|SigCgt):'
    echo umask $(umask)
    echo soft $(ulimit -Sn)
    echo core $(ulimit -Sc)
    echo nice $(nice)
    echo oom $(cat /proc/self/oom_score_adj)
    set -- $(cat /proc/$$/stat); echo leader $(($1 == $5)) $(($1 == $6)) tty $7 policy ${41}
    echo cwd $(readlink /proc/$$/cwd)
    for fd in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 30 40 50; do
        test -e /proc/$$/fd/$fd && echo fd $fd; done
    env
";

fn probe(spec: SandboxSpec) -> SandboxSpec {
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let core = ResourceLimit {
        resource: Resource::CoreBytes,
        soft: Some(0),
        hard: Some(0),
    };
    let mut spec = SandboxSpec {
        env,
        umask: 0o027,
        nice: 3,
        oom_score_adj: 250,
        ..spec
    };
    spec.resource_limits.push(core);
    spec
}

#[test]
fn both_drivers_start_programs_in_the_same_clean_state() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    // A Rust program ignores SIGPIPE; block something, and hold a descriptor without the mark.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGUSR1);
    let before = blocked
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .expect("mask");
    let leaking = File::open("/etc/passwd").expect("file");
    rustix::io::fcntl_setfd(&leaking, rustix::io::FdFlags::empty()).expect("no mark");
    assert!(leaking.as_raw_fd() > 2);

    let expected = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n\
                    SigCgt:\t0000000000000000\numask 0027\nsoft 1024\ncore 0\nnice 3\noom 250\n\
                    leader 1 1 tty 0 policy 0\n";
    for spec in [fixture.exec(PROBE), fixture.raw_exec(PROBE)] {
        let directory = spec.working_directory.display().to_string();
        let expected = format!("{expected}cwd {directory}\nfd 0\nfd 1\nfd 2\n");
        let outcome = fixture.run(&probe(spec));
        let (state, env) = outcome
            .success()
            .split_at(expected.len().min(outcome.output.len()));
        assert_eq!(state, expected, "{outcome:?}");
        // dash itself adds PWD.
        let mut env: Vec<&str> = env.lines().collect();
        env.sort_unstable();
        assert_eq!(env, ["PATH=/usr/bin:/bin", &format!("PWD={directory}")]);
    }
    before.thread_set_mask().expect("mask");
    drop(leaking);
}

/// Prints the serial number of the session keyring (keyctl(2), KEYCTL_GET_KEYRING_ID).
const KEYRING: &str = "import ctypes, platform; \
                       call = 250 if platform.machine() == 'x86_64' else 219; \
                       print(ctypes.CDLL(None).syscall(call, 0, -3, 0))";

#[test]
fn a_task_has_a_session_keyring_of_its_own() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let own = std::process::Command::new("/usr/bin/python3")
        .args(["-c", KEYRING])
        .output();
    let Ok(own) = own else {
        eprintln!("skipped: needs python3");
        return;
    };
    let own = String::from_utf8_lossy(&own.stdout).trim().to_owned();
    let mut spec = fixture.raw_exec("");
    spec.command = "/usr/bin/python3".to_owned();
    spec.args = vec!["-c".to_owned(), KEYRING.to_owned()];
    let outcome = fixture.run(&spec);
    let its = outcome.success().trim();
    if [own.as_str(), its].contains(&"-1") {
        eprintln!("skipped: needs a kernel with keyrings");
        return;
    }
    assert_ne!(its, own);
}

#[test]
fn a_soft_limit_above_the_hosts_hard_limit_is_lowered_to_it() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut spec = fixture.raw_exec("ulimit -Sn; ulimit -Hn");
    let nearly_all = Some(u64::MAX - 1);
    spec.resource_limits = vec![ResourceLimit {
        resource: Resource::OpenFiles,
        soft: nearly_all,
        hard: None,
    }];
    let outcome = fixture.run(&spec);
    let limits: Vec<&str> = outcome.success().lines().collect();
    assert_eq!(limits[0], limits[1]);
}

#[test]
fn a_terminal_becomes_the_sessions_own() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let spec = SandboxSpec {
        terminal: Terminal::StandardInput,
        ..fixture.raw_exec("tty; set -- $(cat /proc/$$/stat); test $7 != 0 && echo controlled")
    };
    let pty = nix::pty::openpty(None, None).expect("pty");
    let plan = isolation::plan(&spec).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let slave = std::os::fd::AsFd::as_fd(&pty.slave);
    let descriptors = isolation::Descriptors::new(slave, slave, slave);
    let spawned =
        isolation::spawn(&plan, std::os::fd::AsFd::as_fd(&cgroup), descriptors).expect("child");
    drop(pty.slave);
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    // The last close of the other side reads as EIO.
    while let Ok(count) = rustix::io::read(&pty.master, &mut buffer) {
        text.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        text.starts_with("/dev/pts/") && text.contains("controlled"),
        "{text:?}"
    );
    let id = rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&spawned.pidfd));
    let status = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED);
    assert_eq!(
        status
            .expect("wait")
            .and_then(|status| status.exit_status()),
        Some(0)
    );
}

#[test]
fn a_task_starts_on_the_processors_that_it_is_given() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let allowed = |spec: &SandboxSpec| {
        let outcome = fixture.run(spec);
        outcome.success().trim().to_owned()
    };
    let script = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
    let all = allowed(&fixture.exec(script));
    let first: u16 = all
        .split([',', '-'])
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number");
    for spec in [fixture.exec(script), fixture.raw_exec(script)] {
        let spec = SandboxSpec {
            processors: vec![first],
            ..spec
        };
        assert_eq!(allowed(&spec), first.to_string());
    }
    if all == first.to_string() {
        eprintln!("skipped: needs more than one processor");
    }
    // No host has this one.
    let spec = SandboxSpec {
        processors: vec![u16::MAX],
        ..fixture.exec("true")
    };
    let failure = fixture.run(&spec).failure.expect("a failed step");
    assert!(failure.contains("(processors: [65535])"), "{failure}");
}
