//! One task: start, end, restart, stop.

use std::time::Duration;

use protocol_model::{AllocId, ClientStatus, RestartPolicy, Task, TaskEventKind, TaskRunState};

use super::fake_host::{FakeHost, Luck, Manners};
use crate::alloc_runner::{CommandError, RestartScope, SignalScope};
use crate::event::{Event, Exit, ExitStatus, RunEvent};
use crate::key::RunEpoch;
use crate::test_support::{at, job_with_tasks, task};

const ALLOC: AllocId = AllocId::from_u128(1);

fn restarting(attempts: u32) -> Task {
    Task {
        restart_policy: Some(RestartPolicy {
            attempts: Some(attempts),
            delay: Some(Duration::from_secs(4)),
            interval: Some(Duration::from_secs(600)),
            mode: Some("fail".to_owned()),
            render_templates: None,
        }),
        ..task("main")
    }
}

fn kinds(host: &FakeHost) -> Vec<TaskEventKind> {
    host.task(1, "main")
        .events
        .iter()
        .map(|event| event.kind)
        .collect()
}

#[test]
fn a_job_that_is_wanted_runs_and_the_control_plane_hears_of_it() {
    let host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    assert_eq!(host.log, ["directory", "prepare main", "start main"]);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    assert_eq!(host.acked_index, host.index);
    use TaskEventKind::{Received, Started, TaskSetup};
    assert_eq!(kinds(&host), [Received, TaskSetup, Started]);
    assert!(host.task(1, "main").started_at.is_some());
}

#[test]
fn a_start_is_heard_of_within_the_urgent_delay() {
    let mut host = FakeHost::with_jobs(Vec::new());
    host.submit(job_with_tasks("web", vec![task("main")]));
    host.run_for(10);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
}

#[test]
fn a_failing_task_restarts_within_its_policy_and_then_fails_the_allocation() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![restarting(1)])]);
    host.exit(&host.live_run("main"), ExitStatus::Code(3));
    host.deliver();
    assert_eq!(host.status(1), ClientStatus::Pending);
    host.run_for(5_001);
    let run = host.live_run("main");
    assert_eq!(run.epoch, RunEpoch(2));
    assert_eq!(host.task(1, "main").restarts, 1);
    host.exit(&run, ExitStatus::Signal(11));
    host.run_for(2_000);
    let state = host.task(1, "main");
    assert!(state.failed && state.state == TaskRunState::Dead && state.finished_at.is_some());
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    let terminated = state
        .events
        .iter()
        .rfind(|it| it.kind == TaskEventKind::Terminated);
    let terminated = terminated.expect("it is told");
    assert_eq!((terminated.exit_code, terminated.signal), (139, 11));
    assert_eq!(
        state.events.last().map(|it| it.kind),
        Some(TaskEventKind::NotRestarting)
    );
}

#[test]
fn a_batch_task_that_ends_well_is_complete() {
    let mut job = job_with_tasks("once", vec![restarting(3)]);
    job.job_type = protocol_model::JobType::Batch;
    let mut host = FakeHost::with_jobs(vec![job]);
    host.exit(&host.live_run("main"), ExitStatus::Code(0));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert!(host.runs.is_empty(), "keeper may forget it");
}

#[test]
fn preparing_and_starting_may_fail_and_count_as_failures() {
    for luck in [Luck::PrepareFails, Luck::StartFails] {
        let mut host = FakeHost::new();
        host.luck = luck;
        host.submit(job_with_tasks("web", vec![restarting(2)]));
        host.run_for(20_000);
        assert_eq!(host.task(1, "main").restarts, 2, "{luck:?}");
        assert_eq!(host.recorded(1), Some(ClientStatus::Failed), "{luck:?}");
        assert!(host.runs.is_empty());
    }
}

#[test]
fn a_driver_that_is_not_here_fails_at_once() {
    let unknown = Task {
        driver: "qemu".to_owned(),
        ..restarting(9)
    };
    let host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![unknown])]);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    let events = host.task(1, "main").events;
    assert!(
        events
            .iter()
            .any(|it| it.display_message.contains("\"qemu\"")),
        "{events:?}"
    );
}

#[test]
fn a_stop_waits_signals_and_is_complete() {
    let patient = Task {
        shutdown_delay: Duration::from_secs(2),
        kill_signal: "SIGTERM".to_owned(),
        ..restarting(2)
    };
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![patient])]);
    host.log.clear();
    host.stop(ALLOC);
    host.run_for(1_900);
    assert!(
        host.log.is_empty(),
        "shutdown_delay is waited for: {:?}",
        host.log
    );
    assert_eq!(host.status(1), ClientStatus::Running);
    host.run_for(200);
    assert_eq!(host.log, ["stop main SIGTERM", "retire"]);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    use TaskEventKind::{Killed, Killing, ShutdownDelay, Terminated};
    assert_eq!(
        kinds(&host)[3..],
        [ShutdownDelay, Killing, Terminated, Killed]
    );
    assert_eq!(host.acked_index, host.index);
}

#[test]
fn the_group_may_have_a_shutdown_delay_too() {
    let mut job = job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].shutdown_delay = Some(Duration::from_secs(3));
    let mut host = FakeHost::with_jobs(vec![job]);
    host.stop(ALLOC);
    host.run_for(2_900);
    assert_eq!(host.status(1), ClientStatus::Running);
    host.run_for(200);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_task_that_ignores_its_signal_is_killed_at_its_deadline() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    host.manners = Manners::Ignores;
    host.stop(ALLOC);
    host.run_for(4_900);
    assert_eq!(host.status(1), ClientStatus::Running);
    host.run_for(200);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_kill_timeout_is_cut_at_what_the_node_allows() {
    let slow = Task {
        kill_timeout: Some(Duration::from_secs(3600)),
        ..task("main")
    };
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![slow])]);
    host.manners = Manners::Ignores;
    host.stop(ALLOC);
    host.run_for(30_100);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_stop_that_comes_before_anything_ran_touches_nothing() {
    let mut host = FakeHost::with_jobs(Vec::new());
    host.online = false;
    host.disconnect();
    host.submit(job_with_tasks("web", vec![task("main")]));
    host.stop(ALLOC);
    host.online = true;
    host.run_for(20_000);
    assert!(
        host.log.iter().all(|line| !line.starts_with("directory")),
        "{:?}",
        host.log
    );
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
}

#[test]
fn an_exit_of_an_earlier_run_changes_nothing() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![restarting(2)])]);
    let first = host.live_run("main");
    host.exit(&first, ExitStatus::Code(1));
    host.run_for(6_000);
    let before = host.task(1, "main");
    let status = ExitStatus::Code(9);
    let exit = Exit {
        status,
        oom_killed: false,
        signal_discarded: false,
        lease_expired: false,
        at: at(0).wall,
    };
    let event = Event::Run {
        run: first,
        event: RunEvent::Exited(exit),
    };
    host.core.on_event(event, at(host.now));
    host.deliver();
    assert_eq!(host.task(1, "main"), before);
    assert_eq!(host.live_run("main").epoch, RunEpoch(2));
}

#[test]
fn operators_restart_and_signal_what_runs() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![restarting(1)])]);
    let now = at(host.now);
    host.core
        .restart(ALLOC, RestartScope::Running, now)
        .expect("it runs");
    let again = host
        .core
        .restart(ALLOC, RestartScope::Task("main".to_owned()), now);
    assert!(
        matches!(again, Err(CommandError::Task { .. })),
        "it is being stopped: {again:?}"
    );
    host.deliver();
    let state = host.task(1, "main");
    assert_eq!((state.state, state.restarts), (TaskRunState::Running, 1));
    assert_eq!(host.live_run("main").epoch, RunEpoch(2));
    host.log.clear();
    host.core
        .signal(ALLOC, SignalScope::Running, "SIGHUP", now)
        .expect("it runs");
    host.drain();
    assert_eq!(host.log, ["signal main SIGHUP"]);
    let unknown = host
        .core
        .signal(ALLOC, SignalScope::Task("x".to_owned()), "SIGHUP", now);
    assert_eq!(
        unknown,
        Err(CommandError::UnknownTask {
            task: "x".to_owned()
        })
    );
    // A restart that was asked for is no failure: the one attempt is still there.
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(6_000);
    assert_eq!(host.live_run("main").epoch, RunEpoch(3));
    host.stop(ALLOC);
    host.run_for(100);
    let late = host.core.restart(ALLOC, RestartScope::All, at(host.now));
    assert_eq!(late, Err(CommandError::AllocStopping));
    let other = AllocId::from_u128(9);
    let nobody = host.core.restart(other, RestartScope::All, at(host.now));
    assert_eq!(nobody, Err(CommandError::UnknownAlloc { alloc: other }));
}

#[test]
fn a_kill_wins_over_a_restart_that_is_under_way() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![restarting(1)])]);
    host.manners = Manners::Ignores;
    host.core
        .restart(ALLOC, RestartScope::Running, at(host.now))
        .expect("it runs");
    host.stop(ALLOC);
    host.run_for(6_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert!(host.live_runs().is_empty());
}
