//! Tasks of the raw_exec driver: the host as it is.

use std::fs;

use isolation::{Identity, SandboxSpec};

use crate::fixture::{Fixture, below};

#[test]
fn a_raw_task_sees_the_host_and_starts_in_its_directory() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let outcome =
        fixture.run(&fixture.raw_exec("pwd; id -u; readlink /proc/self/ns/mnt; ls -d /root"));
    let mount = fs::read_link("/proc/self/ns/mnt").expect("own namespace");
    let expected = format!(
        "{}\n0\n{}\n/root\n",
        fixture.layout().task.display(),
        mount.display()
    );
    assert_eq!(outcome.success(), expected);
}

#[test]
fn a_raw_task_finds_programs_in_its_local_directory_first() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let layout = fixture.layout();
    let program = below(&layout, "local/true");
    fs::write(&program, "#!/bin/sh\necho mine\n").expect("write");
    // Not executable yet: passed over.
    let spec = SandboxSpec::raw_exec(layout, "true");
    assert_eq!(fixture.run(&spec).success(), "");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).expect("mode");
    assert_eq!(fixture.run(&spec).success(), "mine\n");
}

#[test]
fn a_raw_task_as_another_user_has_no_powers_left() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let identity = Identity::User {
        uid: 65534,
        gid: 65534,
        groups: vec![65534],
    };
    let spec = SandboxSpec {
        identity,
        working_directory: "/".into(),
        ..fixture.raw_exec("id -G; cat /proc/self/status")
    };
    let outcome = fixture.run(&spec);
    assert_eq!(outcome.success().lines().next(), Some("65534"));
    assert_eq!(outcome.field("CapEff:"), "0000000000000000");
    assert_eq!(outcome.field("CapPrm:"), "0000000000000000");
}

#[test]
fn a_raw_task_is_in_its_cgroup_from_the_first_instruction() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let outcome = fixture.run(&fixture.raw_exec("grep ^0: /proc/self/cgroup"));
    let base = fixture.hierarchy().base().display().to_string();
    assert_eq!(outcome.success(), format!("0::/{base}/tasks/0e7f/web\n"));
}
