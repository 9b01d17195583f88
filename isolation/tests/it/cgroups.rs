//! The cgroup subtree, for real, with whatever controllers this host has.

use std::os::fd::AsFd;
use std::path::Path;

use isolation::cgroup::{
    CgroupError, CgroupLimits, Controller, Hierarchy, Patience, TaskPath, find_mount,
};
use isolation::enforcement::{CgroupMode, enforcement};
use isolation::{Report, plan};

use crate::fixture::{Fixture, start};

#[test]
fn a_task_tree_is_killed_whole_and_the_events_say_when_it_is_gone() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "for i in 1 2 3 4 5; do (sleep 600 & sleep 600) & done; echo ready; sleep 600";
    let plan = plan(&fixture.raw_exec(script)).expect("a plan");
    let cgroup = fixture.cgroup("web");
    assert!(!cgroup.populated().expect("events"));
    let mut task = start(&plan, &cgroup, None);
    task.await_output("ready");
    assert!(cgroup.populated().expect("events"));
    assert!(cgroup.procs().expect("procs").len() >= 2);

    let path = TaskPath::new("0e7f", "web").expect("names");
    let occupied = fixture.hierarchy().create_task(&path);
    assert!(
        matches!(occupied, Err(CgroupError::Occupied { .. })),
        "{occupied:?}"
    );
    let busy = fixture.hierarchy().remove_task(&path, Patience::None);
    assert!(
        matches!(
            busy.as_ref().map_err(Vec::as_slice),
            Err([CgroupError::Populated { processes, .. }]) if processes.contains("(sh)")
        ),
        "{busy:?}"
    );

    let events = cgroup.events().expect("events");
    cgroup.kill().expect("killed");
    assert_eq!(task.wait(), -9);
    assert!((0..100).any(|_| events.wait_empty(100).expect("events")));
    assert_eq!(cgroup.procs().expect("procs"), [0_u32; 0]);
    fixture
        .hierarchy()
        .remove_task(&path, Patience::None)
        .expect("removed");
    fixture
        .hierarchy()
        .remove_task(&path, Patience::None)
        .expect("removed already");
    assert!(fixture.hierarchy().tasks().expect("list").is_empty());
}

#[test]
fn removing_an_allocation_kills_what_lives_in_its_cgroups() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let script = "trap '' TERM; (setsid sleep 600 &); echo ready; sleep 600";
    let plan = plan(&fixture.raw_exec(script)).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let mut task = start(&plan, &cgroup, None);
    task.await_output("ready");
    // A task can make cgroups below its own.
    std::fs::create_dir(
        fixture
            .hierarchy()
            .mount()
            .path
            .join(cgroup.path())
            .join("own"),
    )
    .expect("made");
    let removed = fixture
        .hierarchy()
        .remove_alloc("0e7f", Patience::Milliseconds(5000));
    assert!(removed.is_ok(), "{removed:?}");
    assert_eq!(task.wait(), -9);
    assert!(fixture.hierarchy().tasks().expect("list").is_empty());
}

#[test]
fn a_frozen_task_makes_no_progress_until_it_is_thawed() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let plan = plan(&fixture.raw_exec("echo ready; while :; do :; done")).expect("a plan");
    let cgroup = fixture.cgroup("web");
    let mut task = start(&plan, &cgroup, None);
    task.await_output("ready");
    let usage = cgroup.stat_reader().expect("reader");
    cgroup.freeze().expect("freeze");
    while !cgroup.frozen().expect("events") {
        std::thread::yield_now();
    }
    let frozen = usage.read().expect("stats").cpu_usage_us;
    assert_eq!(usage.read().expect("stats").cpu_usage_us, frozen);
    cgroup.thaw().expect("thaw");
    while usage.read().expect("stats").cpu_usage_us == frozen {
        std::thread::yield_now();
    }
    cgroup.kill().expect("killed");
    assert_eq!(task.wait(), -9);
}

#[test]
fn limits_are_set_or_named_as_not_enforced() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let cgroup = fixture.cgroup("web");
    let limits = CgroupLimits {
        cpu_weight: Some(50),
        memory_max_bytes: Some(64 << 20),
        pids_max: Some(32),
        cpus: vec![0],
        ..CgroupLimits::default()
    };
    let unenforced = cgroup.apply_limits(&limits).expect("no refusal");
    let mount = find_mount().expect("mount").path;
    for (controller, file, value) in [
        (Controller::Cpu, "cpu.weight", "50\n"),
        (Controller::Memory, "memory.max", "67108864\n"),
        (Controller::Pids, "pids.max", "32\n"),
        (Controller::Cpuset, "cpuset.cpus", "0\n"),
    ] {
        let named = unenforced.iter().any(|one| one.limit == file);
        let there = fixture.hierarchy().controllers().contains(controller);
        assert_ne!(named, there, "{file}");
        let text = std::fs::read_to_string(mount.join(cgroup.path()).join(file));
        assert_eq!(text.ok().as_deref(), there.then_some(value), "{file}");
    }
}

#[test]
fn a_new_owner_finds_the_tasks_of_the_one_before() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let cgroup = fixture.cgroup("web");
    let plan = plan(&fixture.raw_exec("exec sleep 600")).expect("a plan");
    let task = start(&plan, &cgroup, None);
    assert_eq!(task.report(), Report::Running);

    let other = Hierarchy::open(fixture.hierarchy().base()).expect("same base");
    let path = TaskPath::new("0e7f", "web").expect("names");
    assert!(other.tasks().expect("list").iter().eq([&path]));
    let found = other.open_task(&path).expect("found");
    let pid = u32::try_from(task.spawned.pid.as_raw_nonzero().get()).expect("positive");
    assert_eq!(found.procs().expect("procs"), [pid]);
    found.kill().expect("killed");
    assert_eq!(task.wait(), -9);
}

#[test]
fn nested_cgroups_of_a_task_are_removed_with_it() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let cgroup = fixture.cgroup("web");
    let directory = find_mount().expect("mount").path.join(cgroup.path());
    std::fs::create_dir_all(directory.join("a/b/c")).expect("nested");
    std::fs::create_dir(directory.join("d")).expect("nested");
    let path = TaskPath::new("0e7f", "web").expect("names");
    fixture
        .hierarchy()
        .remove_task(&path, Patience::None)
        .expect("removed");
    assert!(!directory.exists());
    let gone = fixture.hierarchy().open_task(&path);
    assert!(matches!(gone, Err(CgroupError::Open { .. })), "{gone:?}");
    // The descriptor of a removed cgroup answers errors, not nonsense.
    assert!(matches!(cgroup.populated(), Err(CgroupError::Read { .. })));
    let plan = plan(&fixture.raw_exec("true")).expect("a plan");
    let null = std::fs::File::open("/dev/null").expect("null");
    let slots = isolation::Descriptors::new(null.as_fd(), null.as_fd(), null.as_fd());
    let refused = isolation::spawn(&plan, cgroup.as_fd(), slots);
    assert!(
        matches!(refused, Err(isolation::SpawnError::Clone(_))),
        "{refused:?}"
    );
}

#[test]
fn a_base_outside_the_mount_is_refused() {
    for base in ["", "/abs", "../up", "a/../b"] {
        let opened = Hierarchy::open(Path::new(base));
        assert!(
            matches!(
                opened,
                Err(CgroupError::Base { .. } | CgroupError::Mount(_))
            ),
            "{base}"
        );
    }
}

#[test]
fn the_host_is_described_as_it_is() {
    let facts = enforcement(Path::new("drover-test-none"));
    match &facts.cgroup {
        CgroupMode::Full { controllers, .. } => {
            assert!(controllers.contains(Controller::Memory));
        }
        CgroupMode::Hybrid {
            missing, reason, ..
        } => {
            assert!(!missing.is_empty());
            assert!(reason.contains(&missing.to_string()), "{reason}");
        }
        CgroupMode::None { reason } => assert!(!reason.is_empty()),
    }
    assert_eq!(facts.root, rustix::process::geteuid().is_root());
}
