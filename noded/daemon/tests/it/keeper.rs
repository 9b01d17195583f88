//! noded and the keeper that it finds: another build of it, and leases.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noded_daemon::keeper_link::{self, KeeperNews};
use noded_keeper::client::{Launch, Starter};
use noded_keeper::lock::holder;
use noded_keeper::paths::RuntimePaths;
use noded_keeper::protocol::{BootNanos, Event, ExitCause, Lease};
use protocol_model::{AllocId, ClientStatus, Job};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::sync::mpsc;

use crate::fake_server::PATIENCE;
use crate::jobs::{alloc, is, job, sh};
use crate::scene::{Scene, can_run};

const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done";
/// The beginning of every state that keeper hands over, before the digit of its version.
const STATE: &[u8] = b"drover keeper state, version ";

fn paths(scene: &Scene) -> RuntimePaths {
    RuntimePaths::new(scene.directory.path().join("run"))
}

/// The programs that keeper and pump run, and keeper's process id.
fn programs(scene: &Scene) -> (i32, PathBuf, PathBuf) {
    let pid = |lock: PathBuf| holder(&lock).unwrap().expect("it runs").as_raw_pid();
    let program = |pid: i32| std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let keeper = pid(paths(scene).keeper_lock());
    let pump = pid(paths(scene).pump_lock());
    (keeper, program(keeper), program(pump))
}

async fn run_counter(scene: &Scene, number: u128) -> AllocId {
    let job = job("counter", "raw_exec", &sh(COUNTER), json!({}));
    let alloc = alloc(&job, number);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    id
}

async fn restart(scene: &mut Scene) {
    let synced = scene.server.known().synced.len();
    assert!(scene.stop());
    scene.start();
    scene
        .server
        .until("another sync", |known| known.synced.len() > synced)
        .await;
}

/// The log goes on, and nothing is missing or there twice.
async fn counts_on(scene: &Scene, id: AllocId) {
    let before = scene.server.logs(id, "main", false).await.lines().count();
    let mut output = String::new();
    let end = tokio::time::Instant::now() + PATIENCE;
    while output.lines().count() < before + 20 {
        assert!(tokio::time::Instant::now() < end, "it counts no more");
        output = scene.server.logs(id, "main", false).await;
    }
    // The last line may still be on its way.
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for (number, line) in (1..).zip(whole.lines()) {
        assert_eq!(line, number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_package_is_in_force_after_a_restart_of_noded_and_no_task_notices() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let id = run_counter(&scene, 40).await;
    let (pid, ..) = programs(&scene);
    let own = std::fs::read(scene.keeper()).unwrap();
    for release in ["next", "after next"] {
        scene.install_keeper(&[&own, release.as_bytes()].concat());
        restart(&mut scene).await;
        let keeper = scene.keeper();
        assert_eq!(programs(&scene), (pid, keeper.clone(), keeper));
        counts_on(&scene, id).await;
    }
    assert!(scene.log().contains("keeper was upgraded"));
    scene.server.forget(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_cannot_become_the_other_build_goes_on_and_noded_says_so() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let id = run_counter(&scene, 41).await;
    let (pid, old, _) = programs(&scene);
    let mut other = std::fs::read(scene.keeper()).unwrap();
    for place in 0..other.len() - STATE.len() {
        if other[place..].starts_with(STATE)
            && let version @ (b'1' | b'2') = &mut other[place + STATE.len()]
        {
            *version += 7;
        }
    }
    scene.install_keeper(&other);
    restart(&mut scene).await;
    let (keeper, program, pump) = programs(&scene);
    assert_eq!((keeper, program), (pid, old));
    assert_eq!(pump, scene.keeper(), "pump has no state to hand over");
    counts_on(&scene, id).await;
    let log = scene.log();
    assert!(log.contains("was not upgraded"), "{log}");
    assert!(log.contains("no state of version 8 or 9"), "{log}");
    scene.server.forget(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_reach_keeper_which_ends_what_nobody_extends() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let id = run_counter(&scene, 42).await;
    // keeper has one client: the link of this test takes noded's place.
    assert!(scene.stop());
    let launch = Launch {
        starter: Starter::Client,
        program: scene.keeper(),
        paths: paths(&scene),
        cgroup_base: scene.cgroup_path().join("tasks"),
        supervisor_cgroup: Some(scene.cgroup_path().join("supervisor")),
    };
    let opened = keeper_link::open(&launch).await.unwrap();
    assert_eq!(opened.listing.len(), 1);
    let (news, mut heard) = mpsc::channel(16);
    let keeper = keeper_link::start(launch, opened, news);
    let lease = |from_now: Duration| {
        let now = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap();
        let until = BootNanos(u64::try_from((now + from_now).as_nanos()).unwrap());
        let alloc = id.to_string();
        Lease { alloc, until }
    };
    let hour = Duration::from_secs(3600);
    // More than one request takes.
    let mut leases = vec![lease(hour); 600];
    for (number, lease) in leases.iter_mut().enumerate().skip(1) {
        lease.alloc = AllocId::from_u128(1000 + number as u128).to_string();
    }
    keeper.extend_leases(&leases).await.unwrap();
    keeper.end_lease(id.to_string()).await.unwrap();
    counts_alone(&scene, id);
    keeper
        .extend_leases(&[lease(Duration::ZERO)])
        .await
        .unwrap();
    let exit = loop {
        let news = tokio::time::timeout(PATIENCE, heard.recv()).await;
        match news.expect("keeper ends it").expect("the link lives") {
            KeeperNews::Event(Event::Exited { exit, .. }) => break exit,
            KeeperNews::Event(_) | KeeperNews::Relisted(_) => {}
        }
    };
    assert_eq!(exit.cause, ExitCause::LeaseExpired);
    // Noded finds the end on keeper's list. It is no failure of the task's.
    drop(keeper);
    scene.start();
    scene
        .server
        .until("over", |known| is(known, id, ClientStatus::Complete))
        .await;
    scene.server.forget(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_stops_itself_is_ended_by_keeper_although_noded_is_dead() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let free = run_counter(&scene, 43).await;
    // It does not care for signals.
    let script = format!("trap '' INT TERM; {COUNTER}");
    let mut job = Job::clone(&job("leased", "raw_exec", &sh(&script), json!({})));
    job.task_groups[0].stop_after_client_disconnect = Some(Duration::from_secs(5));
    let alloc = alloc(&job, 44);
    let id = alloc.id;
    scene.server.want(alloc, &Arc::new(job));
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    // The cgroup of its run goes with its last process.
    let cgroup = scene.cgroup_path().join("tasks").join(id.to_string());
    let lives = || {
        let events = std::fs::read_to_string(cgroup.join("cgroup.events"));
        events.is_ok_and(|text| text.contains("populated 1"))
    };
    scene.kill();
    assert!(lives());
    counts_alone(&scene, id);
    let end = std::time::Instant::now() + PATIENCE;
    while lives() {
        assert!(std::time::Instant::now() < end, "keeper does not end it");
        std::thread::sleep(Duration::from_millis(20));
    }
    counts_alone(&scene, free);
    scene.start();
    scene
        .server
        .until("over", |known| is(known, id, ClientStatus::Complete))
        .await;
    counts_on(&scene, free).await;
    scene.server.forget(id);
    scene.server.forget(free);
}

/// The same as [`counts_on`] where no noded can be asked.
fn counts_alone(scene: &Scene, id: AllocId) {
    let path = scene.alloc_path(id).join("alloc/logs/main.stdout.0");
    let length = || std::fs::metadata(&path).unwrap().len();
    let (before, end) = (length(), std::time::Instant::now() + PATIENCE);
    while length() == before {
        assert!(std::time::Instant::now() < end, "it counts no more");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// kill -9 of noded, then of keeper.
fn kill_both(scene: &mut Scene) {
    let (keeper, ..) = programs(scene);
    scene.kill();
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while holder(&paths(scene).keeper_lock()).unwrap().is_some() {
        assert!(std::time::Instant::now() < end, "keeper does not die");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Keeper's record of the run of an allocation's only task.
fn record_of(scene: &Scene, id: AllocId) -> PathBuf {
    let records = std::fs::read_dir(paths(scene).records_directory()).unwrap();
    let name = format!("{id}.main.");
    let mut found = records.map(|entry| entry.unwrap().path()).filter(|path| {
        let file = path.file_name().unwrap().to_str().unwrap();
        file.starts_with(&name)
    });
    found.next().expect("it has a record")
}

/// The cgroups of an allocation's runs that hold processes.
fn populated_runs(scene: &Scene, id: AllocId) -> usize {
    let alloc = scene.cgroup_path().join("tasks").join(id.to_string());
    let runs = std::fs::read_dir(alloc).into_iter().flatten().flatten();
    let is_populated = |path: PathBuf| {
        let events = std::fs::read_to_string(path.join("cgroup.events"));
        events.is_ok_and(|text| text.contains("populated 1"))
    };
    runs.filter(|run| is_populated(run.path())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_keeper_record_is_damaged_never_runs_twice() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let id = run_counter(&scene, 45).await;
    kill_both(&mut scene);
    assert_eq!(populated_runs(&scene, id), 1, "the task outlives both");
    std::fs::write(record_of(&scene, id), "damaged").unwrap();
    scene.start();
    scene
        .server
        .until("failed", |known| is(known, id, ClientStatus::Failed))
        .await;
    assert_eq!(populated_runs(&scene, id), 0);
    scene.server.forget(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn end_custody_refuses_recorded_tasks_and_kills_what_has_no_record() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    let id = run_counter(&scene, 46).await;
    kill_both(&mut scene);
    let (ended, said) = scene.end_custody();
    assert!(!ended, "a task is never taken along");
    assert!(said.contains("1 of its tasks do"), "{said}");
    assert!(said.contains(&id.to_string()), "{said}");
    assert_eq!(populated_runs(&scene, id), 1);
    std::fs::remove_file(record_of(&scene, id)).unwrap();
    let (ended, said) = scene.end_custody();
    assert!(ended, "{said}");
    assert!(!scene.cgroup_path().exists());
}
