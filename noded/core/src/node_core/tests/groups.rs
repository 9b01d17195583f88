//! Groups: lifecycle, lead task, failures, health, removal.

use std::time::Duration;

use protocol_model::{
    AllocId, ClientStatus, DeploymentId, Job, JobType, RestartPolicy, Task, TaskEventKind,
    TaskLifecycle, TaskRunState, UpdateStrategy,
};
use protocol_wire::report::JudgedFor;

use super::fake_host::{FakeHost, Manners};
use crate::DiskRelief;
use crate::alloc_runner::{CommandError, RestartScope};
use crate::event::ExitStatus;
use crate::lifecycle::Stage;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

const ALLOC: AllocId = AllocId::from_u128(1);

fn with_hook(name: &str, hook: &str, sidecar: bool) -> Task {
    Task {
        lifecycle: Some(TaskLifecycle {
            hook: hook.to_owned(),
            sidecar,
        }),
        ..task(name)
    }
}

fn everyone() -> Job {
    let tasks = vec![
        with_hook("init", "prestart", false),
        with_hook("proxy", "prestart", true),
        task("main"),
        with_hook("announce", "poststart", false),
        with_hook("watcher", "poststart", true),
        with_hook("cleanup", "poststop", false),
    ];
    job_with_tasks("web", tasks)
}

fn starts(host: &FakeHost) -> Vec<String> {
    let started = host
        .log
        .iter()
        .filter_map(|line| line.strip_prefix("start "));
    started.map(str::to_owned).collect()
}

fn kind_of_last(host: &FakeHost, task: &str, kind: TaskEventKind) -> bool {
    host.task(1, task)
        .events
        .iter()
        .any(|event| event.kind == kind)
}

#[test]
fn tasks_of_every_lifecycle_run_in_their_order() {
    let mut host = FakeHost::with_jobs(vec![everyone()]);
    assert_eq!(starts(&host), ["init", "proxy"]);
    host.exit(&host.live_run("init"), ExitStatus::Code(0));
    host.deliver();
    assert_eq!(starts(&host)[2..], ["main", "announce", "watcher"]);
    host.exit(&host.live_run("announce"), ExitStatus::Code(0));
    host.deliver();
    assert_eq!(
        host.core.alloc(ALLOC).map(|it| it.stage()),
        Some(Stage::WaitAlloc)
    );
    host.stop(ALLOC);
    host.deliver();
    let stops = host.log.iter().filter(|line| line.starts_with("stop"));
    let stops: Vec<&String> = stops.collect();
    assert_eq!(stops[0], "stop main SIGINT", "sidecars end last: {stops:?}");
    assert_eq!(stops.len(), 3);
    assert_eq!(starts(&host)[5..], ["cleanup"]);
    assert_eq!(host.status(1), ClientStatus::Running);
    host.exit(&host.live_run("cleanup"), ExitStatus::Code(0));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
}

#[test]
fn the_end_of_the_lead_task_ends_the_others() {
    let lead = Task {
        leader: true,
        ..task("lead")
    };
    let mut job = job_with_tasks("web", vec![lead, task("other")]);
    job.job_type = protocol_model::JobType::Batch;
    let mut host = FakeHost::with_jobs(vec![job]);
    host.exit(&host.live_run("lead"), ExitStatus::Code(0));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert!(kind_of_last(&host, "other", TaskEventKind::LeaderDead));
    assert!(!host.task(1, "other").failed);
}

#[test]
fn nothing_starts_again_while_the_group_is_being_stopped() {
    let lead = Task {
        leader: true,
        ..task("lead")
    };
    let policy = RestartPolicy {
        attempts: Some(5),
        delay: Some(Duration::from_secs(1)),
        interval: Some(Duration::from_secs(600)),
        ..RestartPolicy::default()
    };
    let other = Task {
        restart_policy: Some(policy),
        ..task("other")
    };
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![lead, other])]);
    host.manners = Manners::Ignores;
    host.exit(&host.live_run("other"), ExitStatus::Code(1));
    host.deliver();
    host.stop(ALLOC);
    host.log.clear();
    // The delay of the other one is over long before the lead task is killed.
    host.run_for(10_000);
    assert_eq!(host.log, ["stop lead SIGINT", "retire"]);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_shutdown_delay_that_has_begun_ends_when_somebody_says_so() {
    let long = Duration::from_secs(600);
    for (of_group, of_task) in [(Some(long), Duration::ZERO), (None, long)] {
        let patient = Task {
            shutdown_delay: of_task,
            ..task("main")
        };
        let mut job = job_with_tasks("web", vec![patient]);
        job.task_groups[0].shutdown_delay = of_group;
        let mut host = FakeHost::with_jobs(vec![job]);
        host.stop(ALLOC);
        host.run_for(60_000);
        assert_eq!(host.status(1), ClientStatus::Running, "it waits");
        let (_, mut alloc) = host.desired[&ALLOC].clone();
        alloc.desired_transition.no_shutdown_delay = Some(true);
        host.want(alloc);
        host.run_for(1_000);
        assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    }
}

#[test]
fn a_failed_task_ends_its_siblings() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("one"), task("two")])]);
    host.exit(&host.live_run("one"), ExitStatus::Code(1));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    assert!(kind_of_last(&host, "two", TaskEventKind::SiblingFailed));
    assert!(host.live_runs().is_empty());
}

#[test]
fn when_the_main_tasks_are_done_sidecars_end() {
    let mut job = job_with_tasks(
        "once",
        vec![with_hook("proxy", "prestart", true), task("main")],
    );
    job.job_type = protocol_model::JobType::Batch;
    let mut host = FakeHost::with_jobs(vec![job]);
    host.exit(&host.live_run("main"), ExitStatus::Code(0));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert!(kind_of_last(&host, "proxy", TaskEventKind::MainTasksDead));
}

#[test]
fn a_failed_prestart_task_fails_the_allocation_before_its_main_task_starts() {
    let tasks = vec![with_hook("init", "prestart", false), task("main")];
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", tasks)]);
    host.exit(&host.live_run("init"), ExitStatus::Code(1));
    host.run_for(1_000);
    assert_eq!(starts(&host), ["init"]);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    assert_eq!(host.task(1, "main").state, TaskRunState::Dead);
}

#[test]
fn a_restart_of_all_tasks_runs_finished_ones_again_and_in_order() {
    let tasks = vec![with_hook("init", "prestart", false), task("main")];
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", tasks)]);
    host.exit(&host.live_run("init"), ExitStatus::Code(0));
    host.deliver();
    assert_eq!(starts(&host), ["init", "main"]);
    host.core
        .restart(ALLOC, RestartScope::All, at(host.now))
        .expect("it runs");
    host.deliver();
    assert_eq!(starts(&host), ["init", "main", "init"]);
    assert_eq!(host.live_runs().len(), 1, "main waits for init");
    host.exit(&host.live_run("init"), ExitStatus::Code(0));
    host.deliver();
    assert_eq!(starts(&host), ["init", "main", "init", "main"]);
    assert_eq!(host.status(1), ClientStatus::Running);
}

/// What a restart of all tasks is answered once these tasks have ended with 0, one after the other.
fn restart_all_after(job: &Job, ended: &[&str], manners: Manners) -> Result<(), CommandError> {
    let job = Job {
        job_type: JobType::Batch,
        ..job.clone()
    };
    let mut host = FakeHost::with_jobs(vec![job]);
    host.manners = manners;
    for task in ended {
        host.exit(&host.live_run(task), ExitStatus::Code(0));
        host.deliver();
    }
    let before = starts(&host);
    let answer = host.core.restart(ALLOC, RestartScope::All, at(host.now));
    host.run_for(60_000);
    let began_anew = starts(&host)[before.len()..].first() == before.first();
    assert_eq!(answer.is_ok(), began_anew, "{ended:?}: {:?}", host.log);
    answer
}

#[test]
fn all_tasks_are_restarted_in_every_phase_before_the_end() {
    let everyone = everyone();
    let up_to: [&[&str]; 3] = [&[], &["init"], &["init", "announce"]];
    for ended in up_to {
        assert_eq!(restart_all_after(&everyone, ended, Manners::Ends), Ok(()));
    }
    let refused = Err(CommandError::AllocStopping);
    let main_ended = ["init", "announce", "main"];
    // Sidecars are being stopped; the poststop task runs; nothing runs.
    let sidecars = restart_all_after(&everyone, &main_ended, Manners::Ignores);
    assert_eq!(sidecars, refused);
    let poststop = restart_all_after(&everyone, &main_ended, Manners::Ends);
    assert_eq!(poststop, refused);
    let all = ["init", "announce", "main", "cleanup"];
    assert_eq!(restart_all_after(&everyone, &all, Manners::Ends), refused);
}

#[test]
fn finished_main_tasks_do_not_run_again_while_a_poststop_task_runs() {
    let tasks = vec![task("main"), with_hook("cleanup", "poststop", false)];
    let job = job_with_tasks("once", tasks);
    let main_runs = restart_all_after(&job, &[], Manners::Ends);
    assert_eq!(main_runs, Ok(()));
    let poststop_runs = restart_all_after(&job, &["main"], Manners::Ends);
    assert_eq!(poststop_runs, Err(CommandError::AllocStopping));
}

#[test]
fn health_is_urgent_news_for_a_deployment() {
    let mut job = job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].update = Some(UpdateStrategy {
        health_check: Some("task_states".to_owned()),
        min_healthy_time: Some(Duration::from_secs(10)),
        healthy_deadline: Some(Duration::from_secs(60)),
        ..UpdateStrategy::default()
    });
    let mut host = FakeHost::new();
    host.submit(job);
    let (_, mut alloc) = host.desired[&ALLOC].clone();
    alloc.deployment_id = Some(DeploymentId::from_u128(3));
    host.want(alloc);
    host.run_for(10_000);
    assert_eq!(host.recorded[&ALLOC].health, None);
    host.run_for(3_000);
    assert!(
        host.recorded[&ALLOC]
            .health
            .is_some_and(|health| health.healthy)
    );
}

#[test]
fn an_allocation_that_joins_another_deployment_is_healthy_anew() {
    let mut job = job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].update = Some(UpdateStrategy {
        health_check: Some("task_states".to_owned()),
        min_healthy_time: Some(Duration::from_secs(1)),
        healthy_deadline: Some(Duration::from_secs(60)),
        ..UpdateStrategy::default()
    });
    let mut host = FakeHost::new();
    host.submit(job);
    let (_, mut alloc) = host.desired[&ALLOC].clone();
    let mut decided = Vec::new();
    for deployment in [3, 4] {
        alloc.deployment_id = Some(DeploymentId::from_u128(deployment));
        host.want(alloc.clone());
        host.run_for(5_000);
        let health = host.recorded[&ALLOC].health.expect("decided");
        assert!(health.healthy);
        decided.push(health.at);
    }
    assert!(decided[0] < decided[1], "{decided:?}");
}

#[test]
fn a_new_daemon_does_not_pass_off_the_health_for_one_deployment_as_that_for_the_next() {
    let mut job = job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].update = Some(UpdateStrategy {
        health_check: Some("task_states".to_owned()),
        min_healthy_time: Some(Duration::from_secs(10)),
        healthy_deadline: Some(Duration::from_secs(60)),
        ..UpdateStrategy::default()
    });
    let mut host = FakeHost::new();
    host.submit(job);
    let (_, mut alloc) = host.desired[&ALLOC].clone();
    let mut join = |host: &mut FakeHost, deployment| {
        alloc.deployment_id = Some(DeploymentId::from_u128(deployment));
        host.want(alloc.clone());
        host.deliver();
    };
    let judged = |host: &FakeHost| host.recorded[&ALLOC].health.map(|health| health.judged_for);
    let of = |deployment| Some(JudgedFor::Deployment(DeploymentId::from_u128(deployment)));
    join(&mut host, 3);
    host.run_for(15_000);
    assert_eq!(judged(&host), of(3));
    join(&mut host, 4);
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert_eq!(judged(&host), None, "it is watched anew");
    host.run_for(10_000);
    assert_eq!(judged(&host), of(4));
}

#[test]
fn what_the_control_plane_forgets_is_stopped_and_destroyed() {
    let mut host = FakeHost::with_jobs(vec![
        job_with_tasks("web", vec![task("main")]),
        job_with_tasks("db", vec![task("main")]),
    ]);
    host.purge(ALLOC);
    host.run_for(1_000);
    assert_eq!(host.destroyed.iter().copied().collect::<Vec<_>>(), [ALLOC]);
    assert!(host.core.alloc(ALLOC).is_none());
    assert_eq!(host.status(2), ClientStatus::Running);
    assert_eq!(host.acked_index, host.index);
}

#[test]
fn ended_allocations_are_kept_until_there_are_too_many() {
    let mut host = FakeHost::with_jobs(Vec::new());
    for _ in 0..53 {
        let mut job = job_with_tasks("once", vec![task("main")]);
        job.job_type = protocol_model::JobType::Batch;
        host.submit(job);
        host.run_for(100);
        host.exit(&host.live_run("main"), ExitStatus::Code(0));
        host.run_for(100);
    }
    host.run_for(2_000);
    let oldest: Vec<AllocId> = (1..=3).map(AllocId::from_u128).collect();
    assert_eq!(host.destroyed.iter().copied().collect::<Vec<_>>(), oldest);
    host.core.collect_garbage(at(host.now));
    host.deliver();
    assert_eq!(host.core.allocs().count(), 0);
}

#[test]
fn a_full_disk_takes_the_oldest_ended_allocation_one_at_a_time() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    assert_eq!(
        host.core.on_disk_full(at(host.now)),
        DiskRelief::NothingToRemove,
        "what runs stays"
    );
    for number in 2..=3 {
        let mut job = job_with_tasks("once", vec![task("main")]);
        job.job_type = protocol_model::JobType::Batch;
        let id = host.submit(job);
        host.run_for(100);
        let run = host.live_runs().into_iter().find(|run| run.alloc == id);
        host.exit(&run.expect("it runs"), ExitStatus::Code(0));
        host.run_for(2_000);
        assert_eq!(id, AllocId::from_u128(number));
    }
    let oldest = AllocId::from_u128(2);
    assert_eq!(
        host.core.on_disk_full(at(host.now)),
        DiskRelief::Begun(oldest)
    );
    assert_eq!(host.core.on_disk_full(at(host.now)), DiskRelief::UnderWay);
    host.deliver();
    assert!(host.core.alloc(oldest).is_none());
    assert_eq!(
        host.core.on_disk_full(at(host.now)),
        DiskRelief::Begun(AllocId::from_u128(3))
    );
    host.deliver();
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn secrets_go_when_the_last_task_is_dead_and_come_back_with_a_new_life() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    assert!(!host.log.contains(&"retire".to_owned()));
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(1_000);
    assert_eq!(host.log.last().map(String::as_str), Some("retire"));
    host.restart_daemon(Boot::Same);
    let retired = |host: &FakeHost| host.log.iter().filter(|it| *it == "retire").count();
    assert_eq!(
        retired(&host),
        2,
        "an earlier daemon may not have come to it"
    );
    host.run_for(10_000);
    assert_eq!(retired(&host), 2);
    assert!(host.destroyed.is_empty());
}

#[test]
fn an_ended_allocation_goes_only_when_its_last_word_is_recorded() {
    let tasks = vec![with_hook("proxy", "prestart", true), task("main")];
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", tasks)]);
    host.run_for(2_000);
    host.manners = Manners::Ignores;
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(2_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    // The control plane has its status; that the sidecar has ended, too, is not recorded yet.
    host.slow = true;
    host.run_for(4_000);
    assert!(host.core.alloc(ALLOC).expect("it is here").all_dead());
    let relief = host.core.on_disk_full(at(host.now));
    assert_eq!(relief, DiskRelief::NothingToRemove);
    host.slow = false;
    host.run_for(20_000);
    let relief = host.core.on_disk_full(at(host.now));
    assert_eq!(relief, DiskRelief::Begun(ALLOC));
}
