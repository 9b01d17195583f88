//! Tasks of the exec driver, for real: what they see, what they cannot do.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::symlink;

use isolation::{
    Access, Bind, Descriptors, Network, Propagation, Root, SandboxSpec, Slot, SpawnError,
};

use crate::fixture::{Fixture, below, start_with};

#[test]
fn a_task_is_pid_1_as_nobody_in_its_own_directory() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let outcome = fixture.run(&fixture.exec("echo pid $$; id -u; id -g; pwd; hostname"));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    assert_eq!(
        outcome.success(),
        format!("pid 1\n65534\n65534\n/\n{host}\n")
    );
}

#[test]
fn a_task_finds_its_directories_and_what_it_writes_stays() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let layout = fixture.layout();
    fs::write(
        below(&layout, "local/hello.sh"),
        "#!/bin/sh\necho hello from local\n",
    )
    .expect("write");
    let script = "sh local/hello.sh; echo a > /alloc/a; echo l > /local/l; echo s > /secrets/s; \
                  echo t > /tmp/t; echo r > /r; ls -A /private";
    let outcome = fixture.run(&fixture.exec(script));
    assert_eq!(outcome.success(), "hello from local\n");
    assert_eq!(
        fs::read_to_string(layout.shared.join("a")).expect("shared file"),
        "a\n"
    );
    for (path, content) in [
        ("local/l", "l\n"),
        ("secrets/s", "s\n"),
        ("tmp/t", "t\n"),
        ("r", "r\n"),
    ] {
        assert_eq!(
            fs::read_to_string(below(&layout, path)).expect(path),
            content
        );
    }
}

#[test]
fn the_host_is_visible_in_parts_and_never_writable() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "for d in /usr /etc /bin /sys /proc/sys/kernel; do \
                    touch $d/drover-test 2>/dev/null && echo wrote $d; done; \
                  echo x 2>/dev/null > /proc/sysrq-trigger && echo sysrq; \
                  ls -d /root /home /var /work /boot 2>/dev/null; \
                  ls /usr/bin/env; head -c 1 /etc/passwd | wc -c";
    let outcome = fixture.run(&fixture.exec_as_root(script));
    assert_eq!(outcome.success(), "/usr/bin/env\n1\n");
}

#[test]
fn kernel_files_that_tell_about_others_are_masked() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug; do \
                    if [ -e $f ]; then wc -c < $f; fi; done; \
                  for d in /sys/firmware /proc/acpi /proc/scsi; do \
                    if [ -e $d ]; then ls -A $d; fi; done; \
                  ls /proc | grep -c '^[0-9]'";
    let outcome = fixture.run(&fixture.exec_as_root(script));
    let lines: Vec<&str> = outcome.success().lines().collect();
    let (processes, masked) = lines.split_last().expect("lines");
    assert!(masked.iter().all(|line| *line == "0"), "{outcome:?}");
    // The shell, ls and grep.
    assert!(
        processes.parse::<u32>().is_ok_and(|count| count <= 4),
        "{outcome:?}"
    );
}

#[test]
fn devices_are_few_and_work() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "ls /dev | tr '\\n' ' '; echo x > /dev/null; head -c 4 /dev/zero | wc -c; \
                  head -c 8 /dev/urandom | wc -c; echo s > /dev/shm/s; cat /dev/shm/s; \
                  test -e /dev/vda && echo disk; cat < /dev/fd/0 | wc -c";
    let outcome = fixture.run(&fixture.exec(script));
    let expected = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero \
                    4\n8\ns\n0\n";
    assert_eq!(outcome.success(), expected);
}

#[test]
fn powers_are_those_of_the_plan_and_no_more() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let default = format!("{:016x}", isolation::CapabilitySet::TASK_DEFAULT.bits());
    let none = "0000000000000000";
    for (spec, held) in [
        (fixture.exec("cat /proc/self/status"), none),
        (fixture.exec_as_root("cat /proc/self/status"), &*default),
    ] {
        let outcome = fixture.run(&spec);
        outcome.success();
        assert_eq!(outcome.field("CapBnd:"), default);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(outcome.field(set), held, "{set}");
        }
        assert_eq!(outcome.field("NoNewPrivs:"), "1");
        assert_eq!(outcome.field("Seccomp:"), "2");
    }
}

#[test]
fn an_ordinary_user_reads_no_file_of_root() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "test -e /etc/shadow && echo there; cat /etc/shadow 2>/dev/null || echo refused";
    let outcome = fixture.run(&fixture.exec(script));
    assert_eq!(outcome.success(), "there\nrefused\n");
}

#[test]
fn refused_system_calls_fail_without_harm() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "unshare -m true 2>/dev/null && echo unshared; \
                  unshare -U true 2>/dev/null && echo user; \
                  mount -t tmpfs x /tmp 2>/dev/null && echo mounted; \
                  chroot / /bin/true && echo chroot; echo alive";
    let outcome = fixture.run(&fixture.exec_as_root(script));
    assert_eq!(outcome.success(), "chroot\nalive\n");
}

#[test]
fn the_cgroup_namespace_begins_at_the_task() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "grep ^0: /proc/self/cgroup; cat /sys/fs/cgroup/cgroup.procs; \
                  mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; true";
    let outcome = fixture.run(&fixture.exec_as_root(script));
    let mut lines = outcome.success().lines();
    assert_eq!(lines.next(), Some("0::/"));
    assert_eq!(lines.next(), Some("1"), "the shell is there: {outcome:?}");
    assert!(!outcome.output.contains("made"));
}

#[test]
fn ipc_and_host_name_are_the_tasks_own() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let before = rustix::system::uname().nodename().to_owned();
    let mut spec = fixture.exec("hostname; readlink /proc/self/ns/ipc");
    spec.hostname = Some("web-7".to_owned());
    let outcome = fixture.run(&spec);
    let ipc = fs::read_link("/proc/self/ns/ipc").expect("own namespace");
    let mut lines = outcome.success().lines();
    assert_eq!(lines.next(), Some("web-7"));
    assert_ne!(lines.next().map(Into::into), Some(ipc));
    assert_eq!(rustix::system::uname().nodename(), before.as_c_str());
}

#[test]
fn a_task_may_share_processes_and_ipc_with_the_host() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut spec = fixture.exec("test $$ != 1 && readlink /proc/self/ns/ipc; ls -d /proc/1 /root");
    spec.namespaces.remove(&isolation::Namespace::Pid);
    spec.namespaces.remove(&isolation::Namespace::Ipc);
    let outcome = fixture.run(&spec);
    let ipc = fs::read_link("/proc/self/ns/ipc").expect("own namespace");
    let lines: Vec<&str> = outcome.output.lines().collect();
    assert!(lines.contains(&ipc.to_str().expect("utf-8")), "{outcome:?}");
    assert!(lines.contains(&"/proc/1"), "{outcome:?}");
    assert!(
        !lines.contains(&"/root"),
        "still a root of its own: {outcome:?}"
    );
}

#[test]
fn a_task_lives_in_the_network_that_was_passed_or_named() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let namespace = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a network");
        File::open("/proc/thread-self/ns/net").expect("its descriptor")
    })
    .join()
    .expect("joined");
    let inside = format!(
        "net:[{}]\n",
        rustix::fs::fstat(&namespace).expect("stat").st_ino
    );

    let mut spec = fixture.exec("readlink /proc/self/ns/net; cat /sys/class/net/lo/flags");
    spec.network =
        Network::Path(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()).into());
    // Its loopback is down, and sysfs shows that network and not the host's.
    assert_eq!(fixture.run(&spec).success(), format!("{inside}0x8\n"));

    spec.network = Network::Descriptor;
    let plan = isolation::plan(&spec).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let null = File::open("/dev/null").expect("null");
    let slots = Descriptors::new(null.as_fd(), null.as_fd(), null.as_fd());
    let refused = isolation::spawn(&plan, cgroup.as_fd(), slots);
    let missing = matches!(
        refused,
        Err(SpawnError::MissingDescriptor {
            slot: Slot::Network
        })
    );
    assert!(missing, "{refused:?}");
    let running = start_with(&plan, &cgroup, None, Some(namespace.as_fd()));
    assert_eq!(running.finish(&plan).success(), format!("{inside}0x8\n"));
}

#[test]
fn volumes_are_shown_where_the_job_wants_them() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let volume = tempfile::tempdir().expect("volume");
    fs::write(volume.path().join("f"), "data\n").expect("write");
    let mut spec = fixture.exec_as_root(
        "cat /srv/in/f; touch /srv/in/new 2>/dev/null && echo wrote; cat /etc/one; touch /srv/out/n",
    );
    let Root::ReadOnlyHostView { binds, .. } = &mut spec.root else {
        unreachable!()
    };
    let bind = |source: std::path::PathBuf, target: &str, access| Bind {
        source,
        target: target.into(),
        access,
        propagation: Propagation::Private,
    };
    binds.push(bind(volume.path().to_owned(), "/srv/in", Access::ReadOnly));
    binds.push(bind(
        volume.path().to_owned(),
        "/srv/out",
        Access::ReadWrite,
    ));
    binds.push(bind(volume.path().join("f"), "/one", Access::ReadOnly));
    spec.args[1] = spec.args[1].replace("/etc/one", "/one");
    let outcome = fixture.run(&spec);
    assert_eq!(outcome.success(), "data\ndata\n");
    assert!(volume.path().join("n").exists());
}

#[test]
fn masked_places_are_empty_whatever_shows_them() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let volume = tempfile::tempdir().expect("volume");
    fs::create_dir(volume.path().join("dir")).expect("directory");
    for name in ["dir/f", "key", "open"] {
        fs::write(volume.path().join(name), "data\n").expect("write");
    }
    let mut spec = fixture.exec_as_root(
        "ls -A /in/dir; wc -c </in/key; cat /in/open; wc -c </etc/passwd; \
         umount /in/dir 2>/dev/null && echo bare; echo x 2>/dev/null >/in/dir/new && echo wrote; true",
    );
    let Root::ReadOnlyHostView { binds, masked, .. } = &mut spec.root else {
        unreachable!()
    };
    binds.push(Bind {
        source: volume.path().to_owned(),
        target: "/in".into(),
        access: Access::ReadWrite,
        propagation: Propagation::Private,
    });
    masked.extend(["/in/dir", "/in/key", "/etc/passwd", "/in/missing"].map(Into::into));
    assert_eq!(fixture.run(&spec).success(), "0\ndata\n0\n");
}

#[test]
fn a_missing_volume_is_named_in_the_failure() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut spec = fixture.exec("true");
    let Root::ReadOnlyHostView { binds, .. } = &mut spec.root else {
        unreachable!()
    };
    binds.push(Bind {
        source: "/no/such/volume".into(),
        target: "/data".into(),
        access: Access::ReadOnly,
        propagation: Propagation::Private,
    });
    let outcome = fixture.run(&spec);
    let failure = outcome.failure.expect("a failed step");
    assert!(
        failure.contains("(bind: /no/such/volume at /data, read-only): No such file"),
        "{failure}"
    );
    assert_eq!(outcome.status, 127);
}

#[test]
fn a_symlink_planted_by_an_earlier_run_is_never_followed() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let layout = fixture.layout();
    let victim = tempfile::tempdir().expect("victim");
    for place in ["proc", "dev", "usr", "alloc"] {
        // A run before may have made the directory; it is empty outside of that run.
        let _absent = fs::remove_dir(below(&layout, place));
        symlink(victim.path(), below(&layout, place)).expect("planted");
        let outcome = fixture.run(&fixture.exec("echo ran"));
        let failure = outcome
            .failure
            .unwrap_or_else(|| panic!("{place} was followed"));
        assert!(failure.contains(&format!("/{place}")), "{failure}");
        assert_eq!(outcome.output, "");
        fs::remove_file(below(&layout, place)).expect("removed");
    }
    assert_eq!(fs::read_dir(victim.path()).expect("victim").count(), 0);
    assert_eq!(fixture.run(&fixture.exec("echo ran")).success(), "ran\n");
}

#[test]
fn a_second_run_in_the_same_directory_works() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for _ in 0..2 {
        assert_eq!(fixture.run(&fixture.exec("echo ran")).success(), "ran\n");
    }
}

#[test]
fn a_start_leaves_no_mount_on_the_host() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.run(&fixture.exec("true")).success();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let directory = fixture.layout().task;
    assert!(
        !mounts.contains(directory.to_str().expect("utf-8")),
        "{mounts}"
    );
}

#[test]
fn a_program_that_is_not_there_is_named_with_all_places() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut spec = SandboxSpec {
        command: "no-such-program".to_owned(),
        ..fixture.exec("")
    };
    spec.env.insert("PATH".to_owned(), "/usr/bin".to_owned());
    let failure = fixture.run(&spec).failure.expect("no program");
    assert_eq!(
        failure,
        "cannot execute /local/no-such-program or /no-such-program or /usr/bin/no-such-program: \
         No such file or directory (os error 2)"
    );
}
