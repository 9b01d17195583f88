//! kill -9 of the daemon and restarts of the host, at every step.

use std::time::Duration;

use protocol_model::{AllocId, ClientStatus, RestartPolicy, Task, TaskRunState};

use super::fake_host::{FakeHost, FakeRun, Manners};
use crate::alloc_runner::RestartScope;
use crate::event::ExitStatus;
use crate::journal;
use crate::key::RunEpoch;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

const ALLOC: AllocId = AllocId::from_u128(1);

pub(super) fn durable(name: &str, attempts: u32) -> Task {
    Task {
        restart_policy: Some(RestartPolicy {
            attempts: Some(attempts),
            delay: Some(Duration::from_secs(1)),
            interval: Some(Duration::from_secs(3600)),
            mode: Some("fail".to_owned()),
            render_templates: None,
        }),
        ..task(name)
    }
}

#[test]
fn a_running_task_does_not_notice_a_new_daemon() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let before = host.live_run("main");
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert_eq!(host.live_run("main"), before);
    assert_eq!(host.task(1, "main").restarts, 0);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
}

#[test]
fn an_exit_that_nobody_saw_is_taken_from_keeper() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let run = host.live_run("main");
    host.exit(&run, ExitStatus::Code(7));
    host.restart_daemon(Boot::Same);
    host.run_for(1_000);
    let events = host.task(1, "main").events;
    assert!(
        events.iter().any(|event| event.exit_code == 7),
        "{events:?}"
    );
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    assert!(host.runs.is_empty(), "it is acknowledged");
}

#[test]
fn a_run_that_keeper_lost_counts_as_a_failure() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![durable("main", 1)])]);
    host.runs.clear();
    host.restart_daemon(Boot::Same);
    host.run_for(3_000);
    let state = host.task(1, "main");
    assert_eq!((state.state, state.restarts), (TaskRunState::Running, 1));
    assert!(
        state
            .events
            .iter()
            .any(|it| it.display_message.contains("unknown"))
    );
    host.runs.clear();
    host.restart_daemon(Boot::Same);
    host.run_for(3_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
}

#[test]
fn a_new_daemon_waits_the_rest_of_a_restart_s_delay_and_counts_on() {
    let patient = Task {
        restart_policy: Some(RestartPolicy {
            delay: Some(Duration::from_secs(20)),
            ..durable("main", 1).restart_policy.expect("it has one")
        }),
        ..task("main")
    };
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![patient])]);
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(5_000);
    for _ in 0..3 {
        host.restart_daemon(Boot::Same);
        host.run_for(4_000);
        assert!(host.live_runs().is_empty(), "it waits: 20 s and jitter");
    }
    host.run_for(8_001);
    let run = host.live_run("main");
    assert_eq!(run.epoch, RunEpoch(2));
    host.restart_daemon(Boot::Same);
    host.exit(&run, ExitStatus::Code(1));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed), "attempts = 1");
}

#[test]
fn an_end_that_was_asked_for_is_no_failure_to_a_new_daemon() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let run = host.live_run("main");
    host.manners = Manners::Ignores;
    host.stop(ALLOC);
    host.deliver();
    // It ends on its signal while nobody looks.
    host.exit(&run, ExitStatus::Signal(2));
    host.restart_daemon(Boot::Same);
    host.run_for(2_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert!(!host.task(1, "main").failed);
}

#[test]
fn a_restart_that_an_operator_was_told_of_comes_although_keeper_was_not_told() {
    for scope in [RestartScope::Running, RestartScope::All] {
        let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
        let run = host.live_run("main");
        host.manners = Manners::Ignores;
        let now = at(host.now);
        host.core.restart(ALLOC, scope, now).expect("it runs");
        host.drain();
        // The daemon was killed between its journal and keeper.
        host.runs
            .insert(run.clone(), FakeRun::Running { kill_at: None });
        host.manners = Manners::Ends;
        host.restart_daemon(Boot::Same);
        host.run_for(2_000);
        assert_eq!(host.live_run("main").epoch, run.epoch.next());
        assert!(!host.task(1, "main").failed);
    }
}

#[test]
fn a_restart_of_the_host_ends_the_delay_and_the_interval() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![durable("main", 1)])]);
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.deliver();
    host.restart_daemon(Boot::Another);
    host.deliver();
    host.run_for(500);
    let run = host.live_run("main");
    host.exit(&run, ExitStatus::Code(1));
    host.run_for(3_000);
    assert_eq!(host.live_run("main").epoch, RunEpoch(3));
}

#[test]
fn after_a_restart_of_the_host_nothing_starts_before_the_control_plane_spoke() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    host.online = false;
    host.restart_daemon(Boot::Another);
    host.run_for(60_000);
    assert!(host.live_runs().is_empty());
    host.online = true;
    host.run_for(30_000);
    assert_eq!(host.live_run("main").epoch, RunEpoch(2));
    assert!(
        !host.task(1, "main").failed,
        "a restart of the host is not its fault"
    );
}

#[test]
fn a_daemon_killed_on_its_way_up_after_a_restart_of_the_host_leaves_the_next_one_the_same() {
    let slow = Task {
        restart_policy: Some(RestartPolicy {
            delay: Some(Duration::from_secs(3600)),
            ..durable("slow", 2).restart_policy.expect("it has one")
        }),
        ..task("slow")
    };
    let jobs = || {
        vec![
            job_with_tasks("web", vec![task("main")]),
            job_with_tasks("late", vec![slow.clone()]),
        ]
    };
    for effects in 0.. {
        let mut host = FakeHost::with_jobs(jobs());
        // It waits for an hour of a clock that begins anew.
        host.exit(&host.live_run("slow"), ExitStatus::Code(1));
        host.run_for(1_000);
        host.online = false;
        host.disconnect();
        let more = host.restart_and_kill(Boot::Another, effects);
        host.restart_daemon(Boot::Same);
        host.run_for(60_000);
        assert!(host.live_runs().is_empty(), "killed after {effects}");
        host.online = true;
        host.run_for(30_000);
        let state = host.task(1, "main");
        assert_eq!(
            (state.state, state.failed, state.restarts),
            (TaskRunState::Running, false, 1),
            "killed after {effects}: {:?}",
            state.events
        );
        assert_eq!(host.live_run("slow").epoch, RunEpoch(2), "after {effects}");
        if !more {
            assert!(effects > 4, "it was killed somewhere in between");
            break;
        }
    }
}

#[test]
fn after_a_restart_of_the_host_what_was_stopped_meanwhile_does_not_run() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    host.online = false;
    host.disconnect();
    host.stop(ALLOC);
    host.restart_daemon(Boot::Another);
    host.online = true;
    host.log.clear();
    host.run_for(30_000);
    let started = ["directory", "prepare main", "start main"];
    assert!(
        host.log
            .iter()
            .all(|line| !started.contains(&line.as_str())),
        "{:?}",
        host.log
    );
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
}

#[test]
fn after_a_restart_of_the_host_what_was_forgotten_meanwhile_still_cleans_up() {
    let cleanup = Task {
        lifecycle: Some(protocol_model::TaskLifecycle {
            hook: "poststop".to_owned(),
            sidecar: false,
        }),
        ..task("cleanup")
    };
    let job = job_with_tasks("web", vec![task("main"), cleanup]);
    let mut host = FakeHost::with_jobs(vec![job]);
    host.purge(ALLOC);
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    host.exit(&host.live_run("cleanup"), ExitStatus::Code(0));
    host.run_for(1_000);
    assert_eq!(host.core.allocs().count(), 0);
}

#[test]
fn a_task_that_had_finished_never_runs_again() {
    let mut job = job_with_tasks("once", vec![durable("main", 3)]);
    job.job_type = protocol_model::JobType::Batch;
    let mut host = FakeHost::with_jobs(vec![job]);
    host.exit(&host.live_run("main"), ExitStatus::Code(0));
    host.deliver();
    for boot in [Boot::Same, Boot::Another] {
        host.log.clear();
        host.restart_daemon(boot);
        host.run_for(5_000);
        assert_eq!(host.log, ["retire"]);
        assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    }
}

#[test]
fn runs_of_nobody_are_killed_and_let_go() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let mut stray = host.live_run("main");
    stray.alloc = AllocId::from_u128(99);
    host.runs.insert(stray, FakeRun::Running { kill_at: None });
    host.restart_daemon(Boot::Same);
    host.run_for(1_000);
    assert_eq!(host.runs.len(), 1);
    assert_eq!(host.live_run("main").alloc, ALLOC);
}

#[test]
fn a_run_that_the_journal_does_not_know_is_gone_before_another_one_starts() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![durable("main", 2)])]);
    let mut unknown = host.live_run("main");
    host.runs.clear();
    unknown.epoch = RunEpoch(8);
    host.runs
        .insert(unknown.clone(), FakeRun::Running { kill_at: None });
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert!(host.live_run("main").epoch > unknown.epoch);
    assert_eq!(host.runs.len(), 1);
}

#[test]
fn the_snapshot_of_the_journal_brings_a_new_daemon_to_the_same_place() {
    let mut host = FakeHost::with_jobs(vec![
        job_with_tasks("web", vec![durable("main", 2), task("other")]),
        job_with_tasks("db", vec![task("main")]),
    ]);
    host.exit(&host.live_run("other"), ExitStatus::Code(1));
    host.run_for(2_000);
    host.purge(AllocId::from_u128(2));
    host.run_for(2_000);
    let decoded = host
        .journal
        .iter()
        .map(|bytes| journal::decode(bytes).expect("decodes"));
    let replayed = journal::replay(decoded);
    let snapshot = host.core.journal_snapshot();
    assert!(snapshot.len() < host.journal.len());
    assert_eq!(journal::replay(snapshot), replayed);
    assert_eq!(journal::replay(journal::compact(&replayed)), replayed);
}

#[test]
fn a_journal_that_is_cut_anywhere_still_brings_up_a_node() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![durable("main", 2)])]);
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(3_000);
    let whole = host.journal.clone();
    for length in 0..whole.len() {
        let records = whole[..length]
            .iter()
            .map(|bytes| journal::decode(bytes).expect("decodes"));
        let restored = journal::replay(records);
        for alloc in restored.allocs.values() {
            assert!(
                restored.specs.contains_key(&alloc.spec),
                "specifications come first"
            );
        }
    }
}
