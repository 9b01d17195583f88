//! Hosts that boot while they are cut off.

use std::time::Duration;

use protocol_model::{AllocId, ClientStatus, DisconnectStrategy, Job, JobType};

use super::fake_host::FakeHost;
use crate::task_runner::Boot;
use crate::test_support::{job_with_tasks, task};

/// Tolerated on a silent node for ten minutes.
fn tolerated() -> Job {
    let mut job = job_with_tasks("tolerated", vec![task("main")]);
    job.task_groups[0].disconnect = Some(DisconnectStrategy {
        lost_after: Some(Duration::from_secs(600)),
        ..DisconnectStrategy::default()
    });
    job
}

#[test]
fn hole_10_a_host_that_boots_while_it_is_cut_off_starts_what_is_still_tolerated() {
    let plain = job_with_tasks("plain", vec![task("main")]);
    let mut host = FakeHost::with_jobs(vec![tolerated(), plain]);
    host.run_for(300_000);
    host.online = false;
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_eq!(
        host.status(2),
        ClientStatus::Pending,
        "it is elsewhere by now"
    );
}

#[test]
fn a_host_that_boots_starts_what_is_waited_for_as_long_as_it_takes_unless_it_stops_itself() {
    let waits = |name, stop_on_client_after| {
        let mut job = job_with_tasks(name, vec![task("main")]);
        job.task_groups[0].disconnect = Some(DisconnectStrategy {
            replace: Some(false),
            stop_on_client_after,
            ..DisconnectStrategy::default()
        });
        job
    };
    let leased = Some(Duration::from_secs(60));
    let mut host = FakeHost::with_jobs(vec![waits("waits", None), waits("leased", leased)]);
    host.run_for(60_000);
    host.online = false;
    host.disconnect();
    host.run_for(1_000_000);
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_ne!(host.status(2), ClientStatus::Running);
}

#[test]
fn identities_outlive_a_boot_where_the_group_may_start_cut_off() {
    let with = |name, disconnect| {
        let mut job = job_with_tasks(name, vec![task("main")]);
        job.task_groups[0].disconnect = disconnect;
        job
    };
    let waits = |stop_on_client_after| {
        Some(DisconnectStrategy {
            replace: Some(false),
            stop_on_client_after,
            ..DisconnectStrategy::default()
        })
    };
    let leased = waits(Some(Duration::from_secs(60)));
    let mut system = with("system", None);
    system.job_type = JobType::System;
    let jobs = vec![
        tolerated(),
        with("plain", None),
        with("waits", waits(None)),
        with("leased", leased),
        system,
    ];
    let host = FakeHost::with_jobs(jobs);
    let may = |number| {
        let runner = host.core.alloc(AllocId::from_u128(number));
        runner.expect("it is here").spec().may_start_cut_off()
    };
    assert_eq!([1, 2, 3, 4, 5].map(may), [true, false, true, false, true]);
}

#[test]
fn a_host_that_boots_beyond_the_window_or_was_never_heard_waits_for_a_word() {
    let mut host = FakeHost::with_jobs(vec![tolerated()]);
    host.run_for(60_000);
    host.online = false;
    host.disconnect();
    host.run_for(601_000);
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    assert_eq!(host.live_runs(), Vec::new());
    host.online = true;
    host.run_for(30_000);
    assert_eq!(host.live_runs().len(), 1);
}
