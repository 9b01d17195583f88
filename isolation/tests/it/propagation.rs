//! Mounts below a volume that are made after the start: who sees them.

use std::fs;
use std::path::{Path, PathBuf};

use isolation::{Access, Bind, Capabilities, Propagation, Root, SandboxSpec, SeccompProfile, plan};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::fixture::{Fixture, start};

/// A file system of its own whose mounts are shared, as the host's are under systemd.
struct SharedVolume(tempfile::TempDir);

impl SharedVolume {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        mount_tmpfs(directory.path());
        let flags = MountPropagationFlags::SHARED;
        rustix::mount::mount_change(directory.path(), flags).expect("shared");
        fs::create_dir(directory.path().join("sub")).expect("a directory");
        Self(directory)
    }

    fn sub(&self) -> PathBuf {
        self.0.path().join("sub")
    }

    /// As `/data` of a task that may mount.
    fn shown_to(&self, mut spec: SandboxSpec, propagation: Propagation) -> SandboxSpec {
        spec.capabilities = Capabilities::Keeper;
        spec.seccomp = SeccompProfile::None;
        let Root::ReadOnlyHostView { binds, .. } = &mut spec.root else {
            unreachable!()
        };
        binds.push(Bind {
            source: self.0.path().to_owned(),
            target: "/data".into(),
            access: Access::ReadWrite,
            propagation,
        });
        spec
    }
}

impl Drop for SharedVolume {
    fn drop(&mut self) {
        for path in [self.sub().as_path(), self.0.path()] {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        }
    }
}

fn mount_tmpfs(path: &Path) {
    rustix::mount::mount("none", path, "tmpfs", MountFlags::empty(), None).expect("mounted");
}

#[test]
fn a_mount_of_the_host_is_seen_where_the_volume_asks_for_it() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (propagation, expected) in [
        (Propagation::Private, "none\n"),
        (Propagation::HostToTask, "flag\n"),
        (Propagation::Bidirectional, "flag\n"),
    ] {
        let volume = SharedVolume::new();
        // The control waits a second in vain.
        let script = "echo ready; for n in $(seq 20); do [ -e /data/sub/flag ] && echo flag && \
                      exit; sleep 0.05; done; echo none";
        let spec = volume.shown_to(fixture.exec_as_root(script), propagation);
        let plan = plan(&spec).expect("a plan");
        let mut running = start(&plan, &fixture.fresh_cgroup("web"), None);
        running.await_output("ready\n");
        mount_tmpfs(&volume.sub());
        fs::write(volume.sub().join("flag"), "").expect("written");
        let outcome = running.finish(&plan);
        assert_eq!(outcome.success(), expected, "{propagation:?}");
    }
}

#[test]
fn a_mount_of_the_task_is_seen_only_where_it_goes_both_ways() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (propagation, expected) in [
        (Propagation::Private, false),
        (Propagation::HostToTask, false),
        (Propagation::Bidirectional, true),
    ] {
        let volume = SharedVolume::new();
        let script = "mount -t tmpfs none /data/sub && touch /data/sub/flag";
        let spec = volume.shown_to(fixture.exec_as_root(script), propagation);
        let plan = plan(&spec).expect("a plan");
        let running = start(&plan, &fixture.fresh_cgroup("web"), None);
        running.finish(&plan).success();
        let seen = volume.sub().join("flag").exists();
        assert_eq!(seen, expected, "{propagation:?}");
    }
}

#[test]
fn mounts_of_the_task_s_root_never_reach_the_host() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let volume = SharedVolume::new();
    let mounts = || {
        let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let own = fixture.layout().task.display().to_string();
        text.lines().filter(|line| line.contains(&own)).count()
    };
    let before = mounts();
    let spec = volume.shown_to(
        fixture.exec_as_root("echo ready; sleep 1"),
        Propagation::Bidirectional,
    );
    let plan = plan(&spec).expect("a plan");
    let mut running = start(&plan, &fixture.fresh_cgroup("web"), None);
    running.await_output("ready\n");
    assert_eq!(mounts(), before);
    let text = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let volume = volume.0.path().display().to_string();
    assert_eq!(text.lines().filter(|it| it.contains(&volume)).count(), 1);
    running.finish(&plan).success();
}
