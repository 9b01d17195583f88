//! Groups that stop themselves when nobody hears their node.

use std::time::Duration;

use protocol_model::{
    AllocId, ClientStatus, DisconnectStrategy, Job, RestartPolicy, TaskLifecycle,
};

use super::fake_host::{FakeHost, Luck, Manners};
use crate::event::ExitStatus;
use crate::key::RunKey;
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

const ID: AllocId = AllocId::from_u128(1);

/// Runs for 30 s without a word of the control plane, and is killed 5 s later.
fn leased() -> Job {
    let mut job = job_with_tasks("leased", vec![task("main")]);
    job.task_groups[0].disconnect = Some(DisconnectStrategy {
        stop_on_client_after: Some(Duration::from_secs(30)),
        ..DisconnectStrategy::default()
    });
    job.task_groups[0].tasks[0].restart_policy = Some(RestartPolicy {
        attempts: Some(10),
        interval: Some(Duration::from_secs(3600)),
        delay: Some(Duration::from_secs(1)),
        ..RestartPolicy::default()
    });
    job
}

/// It has run for a minute.
fn host() -> FakeHost {
    let mut host = FakeHost::with_jobs(vec![leased(), job_with_tasks("free", vec![task("main")])]);
    host.run_for(60_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    host
}

/// As [`leased`], with something to do afterwards that is tried as often as it takes.
fn with_poststop() -> Job {
    let mut job = leased();
    let mut after = task("after");
    after.lifecycle = Some(TaskLifecycle {
        hook: "poststop".to_owned(),
        sidecar: false,
    });
    after.restart_policy = job.task_groups[0].tasks[0].restart_policy.clone();
    job.task_groups[0].tasks.push(after);
    job
}

fn host_with(job: Job) -> FakeHost {
    let mut host = FakeHost::with_jobs(vec![job]);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    host
}

fn run_of(host: &FakeHost, id: AllocId) -> Option<RunKey> {
    host.live_runs().into_iter().find(|run| run.alloc == id)
}

fn stops_of_main(host: &FakeHost) -> usize {
    let lines = host.log.iter();
    lines.filter(|line| line.starts_with("stop main")).count()
}

/// The same group, in need of no lease.
fn free() -> Job {
    let mut job = leased();
    job.task_groups[0].disconnect = None;
    job
}

fn cut_off(host: &mut FakeHost) {
    host.online = false;
    host.disconnect();
}

#[test]
fn a_lease_that_runs_out_stops_its_group_and_no_other() {
    let mut host = host();
    cut_off(&mut host);
    host.run_for(29_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    host.run_for(2_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.status(2), ClientStatus::Running);
    assert_eq!(host.leases.get(&ID), None, "keeper need not hold it");
}

#[test]
fn keeper_holds_the_lease_before_anything_starts_and_it_follows_what_is_confirmed() {
    // The fake keeper checks that nothing of a leased group starts without.
    let mut host = host();
    let until = |host: &FakeHost| host.leases[&ID].as_millis();
    assert!(
        until(&host) >= u128::from(host.now) + 34_000,
        "{}",
        until(&host)
    );
    let before = until(&host);
    host.run_for(10_000);
    assert!(until(&host) >= before + 9_000);
    assert_eq!(host.leases.len(), 1);
}

#[test]
fn a_task_that_ignores_its_signal_is_gone_when_the_lease_and_its_kill_timeout_are_over() {
    let mut host = host();
    host.manners = Manners::Ignores;
    cut_off(&mut host);
    host.run_for(31_000);
    assert_eq!(host.live_runs().len(), 2);
    host.run_for(5_000);
    assert_eq!(host.live_runs().len(), 1);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn what_keeper_ended_while_no_daemon_lived_is_over_and_is_no_failure() {
    let mut host = host();
    cut_off(&mut host);
    host.without_daemon_for(60_000);
    assert_eq!(host.live_runs().len(), 1, "keeper ended it by itself");
    host.restart_daemon(Boot::Same);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.live_runs().len(), 1, "it is not started again");
    // Nor when the control plane is back and has not decided anything yet.
    host.online = true;
    host.run_for(30_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert_eq!(host.live_runs().len(), 1);
}

#[test]
fn what_keeper_ends_while_the_daemon_lives_is_over_too() {
    let mut host = host();
    cut_off(&mut host);
    // The daemon hangs.
    host.without_daemon_for(60_000);
    host.deliver();
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.live_runs().len(), 1);
}

#[test]
fn a_restart_of_the_daemon_neither_lengthens_a_lease_nor_ends_what_is_well() {
    let mut host = host();
    cut_off(&mut host);
    host.run_for(10_000);
    host.restart_daemon(Boot::Same);
    host.run_for(14_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    // A task that fails meanwhile is started again: its lease is open.
    let run = run_of(&host, ID).expect("it runs");
    host.exit(&run, ExitStatus::Code(1));
    host.run_for(1_500);
    assert_eq!(host.live_runs().len(), 2);
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_daemon_that_is_restarted_while_the_servers_are_there_ends_nothing() {
    let mut host = host();
    for _ in 0..20 {
        host.run_for(3_000);
        host.restart_daemon(Boot::Same);
    }
    host.run_for(60_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_eq!(host.task(1, "main").restarts, 0);
}

#[test]
fn after_a_reboot_nothing_leased_starts_before_a_server_says_so() {
    let mut host = host();
    host.online = false;
    host.restart_daemon(Boot::Another);
    host.run_for(120_000);
    assert_eq!(host.live_runs(), Vec::new());
    host.online = true;
    host.run_for(30_000);
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn tasks_that_an_operator_starts_again_have_a_lease_again() {
    let mut host = host();
    let run = run_of(&host, ID).expect("it runs");
    host.exit(&run, ExitStatus::Code(0));
    host.run_for(5_000);
    cut_off(&mut host);
    host.run_for(5_000);
    let scope = crate::alloc_runner::RestartScope::All;
    let now = at(host.now);
    host.core.restart(ID, scope, now).expect("it makes sense");
    host.drain();
    host.run_for(31_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn what_comes_right_after_a_long_silence_waits_for_a_fresh_word_and_runs() {
    let mut host = host();
    cut_off(&mut host);
    host.run_for(120_000);
    host.online = true;
    let id = host.submit(leased());
    host.run_for(20_000);
    assert_eq!(host.core.alloc(id).map(|it| it.all_dead()), Some(false));
    assert_eq!(host.status(3), ClientStatus::Running);
}

#[test]
fn a_batch_job_that_its_node_stops_by_itself_has_not_run_to_its_end() {
    let mut job = leased();
    job.job_type = protocol_model::JobType::Batch;
    let mut host = FakeHost::with_jobs(vec![job]);
    host.run_for(10_000);
    cut_off(&mut host);
    host.run_for(31_000);
    assert_eq!(host.status(1), ClientStatus::Failed);
}

#[test]
fn a_lease_that_cannot_be_recorded_ends_none_of_those_that_keeper_holds() {
    let mut host = host();
    let id = AllocId::from_u128(3);
    host.unrecordable.insert(id);
    assert_eq!(host.submit(leased()), id);
    host.run_for(120_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_eq!(host.status(3), ClientStatus::Pending);
    // Until there is room.
    host.unrecordable.clear();
    host.run_for(10_000);
    assert_eq!(host.status(3), ClientStatus::Running);
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn a_poststop_task_that_no_lease_is_left_for_keeps_no_group_from_its_end() {
    let mut host = host_with(with_poststop());
    cut_off(&mut host);
    host.without_daemon_for(60_000);
    host.restart_daemon(Boot::Same);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.live_runs(), Vec::new());
}

#[test]
fn a_host_that_boots_when_a_lease_is_over_ends_the_group_poststop_task_and_all() {
    let mut host = host_with(with_poststop());
    host.manners = Manners::Ignores;
    cut_off(&mut host);
    host.run_for(31_000);
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
}

#[test]
fn a_poststop_task_runs_in_what_is_left_of_the_lease() {
    let mut host = host_with(with_poststop());
    cut_off(&mut host);
    host.run_for(31_000);
    assert_eq!(host.live_run("after").alloc, ID);
    host.restart_daemon(Boot::Same);
    host.run_for(2_000);
    let run = host.live_run("after");
    host.exit(&run, ExitStatus::Code(0));
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert!(!host.task(1, "after").failed);
}

#[test]
fn a_poststop_task_is_not_begun_when_keeper_ended_the_main_task() {
    let mut host = host_with(with_poststop());
    cut_off(&mut host);
    // The daemon hangs.
    host.without_daemon_for(60_000);
    host.deliver();
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.task(1, "after").restarts, 0);
    assert_eq!(host.task(1, "after").started_at, None);
}

#[test]
fn a_poststop_task_that_keeper_refuses_for_want_of_a_lease_is_not_tried_again() {
    let mut host = host_with(with_poststop());
    host.luck = Luck::StartFails;
    cut_off(&mut host);
    host.run_for(32_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(host.task(1, "after").restarts, 1);
}

#[test]
fn a_lease_that_runs_out_waits_for_no_shutdown_delay() {
    let mut job = leased();
    job.task_groups[0].shutdown_delay = Some(Duration::from_secs(20));
    job.task_groups[0].tasks[0].shutdown_delay = Duration::from_secs(20);
    let mut host = host_with(job);
    cut_off(&mut host);
    host.run_for(31_000);
    assert_eq!(host.status(1), ClientStatus::Complete);
    assert_eq!(stops_of_main(&host), 1, "asked to end before it was killed");
}

#[test]
fn a_lease_that_keeper_did_not_take_after_a_reboot_starts_nothing_under_the_next_daemon() {
    let mut host = host();
    host.unrecordable.insert(ID);
    host.restart_daemon(Boot::Another);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Pending);
    // The journal has runs of it, and a confirmation. The fake keeper checks the rest.
    host.restart_daemon(Boot::Same);
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Pending);
    host.unrecordable.clear();
    host.run_for(10_000);
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn a_lease_that_keeper_does_not_hold_ends_no_other_after_a_restart_of_the_daemon() {
    let mut host = host();
    let without = AllocId::from_u128(3);
    host.submit(free());
    host.run_for(5_000);
    host.unrecordable.insert(without);
    host.update_in_place(without, leased());
    host.run_for(5_000);
    host.restart_daemon(Boot::Same);
    host.run_for(120_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_eq!(host.task(1, "main").restarts, 0);
    assert_eq!(host.status(3), ClientStatus::Running, "it is heard");
    // It runs, but nothing of it is begun without one.
    let run = run_of(&host, without).expect("it runs");
    host.exit(&run, ExitStatus::Code(1));
    host.run_for(10_000);
    assert_eq!(host.status(3), ClientStatus::Pending);
    host.unrecordable.clear();
    host.run_for(10_000);
    assert_eq!(host.status(3), ClientStatus::Running);
}

#[test]
fn a_group_that_came_to_need_a_lease_while_it_ran_ends_in_time_without_keeper() {
    for restarted in [false, true] {
        let mut host = host_with(free());
        host.unrecordable.insert(ID);
        host.update_in_place(ID, leased());
        host.run_for(60_000);
        assert_eq!(host.leases.get(&ID), None);
        assert_eq!(host.status(1), ClientStatus::Running);
        cut_off(&mut host);
        if restarted {
            host.restart_daemon(Boot::Same);
        }
        host.run_for(25_000);
        assert_eq!(host.status(1), ClientStatus::Running);
        host.run_for(6_000);
        assert_eq!(host.status(1), ClientStatus::Complete);
        assert_eq!(stops_of_main(&host), 1);
    }
}

#[test]
fn a_group_that_comes_to_need_a_lease_right_after_a_long_silence_runs_on() {
    for unrecordable in [false, true] {
        let mut host = host_with(free());
        if unrecordable {
            host.unrecordable.insert(ID);
        }
        cut_off(&mut host);
        host.run_for(120_000);
        // The news is faster than the answer to the first heartbeat.
        host.update_in_place(ID, leased());
        host.online = true;
        host.run_for(60_000);
        assert_eq!(host.status(1), ClientStatus::Running);
        assert_eq!(host.task(1, "main").restarts, 0);
        assert_eq!(host.leases.contains_key(&ID), !unrecordable);
    }
}

#[test]
fn a_lease_that_an_update_took_away_ends_nothing_under_the_next_daemon() {
    let mut host = host();
    let held = host.leases[&ID];
    host.update_in_place(ID, free());
    host.deliver();
    // The daemon was killed before it had said so to keeper.
    host.leases.insert(ID, held);
    host.restart_daemon(Boot::Same);
    host.run_for(60_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    assert_eq!(host.task(1, "main").restarts, 0);
    assert_eq!(host.leases.get(&ID), None);
}

#[test]
fn a_poststop_task_has_what_is_left_of_the_lease_also_under_the_next_daemon() {
    let mut host = host_with(with_poststop());
    cut_off(&mut host);
    host.run_for(10_000);
    host.without_daemon_for(22_000);
    host.restart_daemon(Boot::Same);
    host.run_for(500);
    assert_eq!(host.live_run("after").alloc, ID);
    host.run_for(10_000);
    assert_eq!(host.live_runs(), Vec::new(), "keeper ended it");
}

#[test]
fn the_end_of_a_lease_ends_the_shutdown_delay_of_a_group_that_is_being_stopped() {
    let long = Duration::from_secs(600);
    for (of_group, of_task) in [(Some(long), Duration::ZERO), (None, long)] {
        let mut job = leased();
        job.task_groups[0].shutdown_delay = of_group;
        job.task_groups[0].tasks[0].shutdown_delay = of_task;
        let mut host = host_with(job);
        host.stop(ID);
        host.run_for(5_000);
        assert_eq!(host.status(1), ClientStatus::Running, "it waits");
        cut_off(&mut host);
        host.run_for(31_000);
        assert_eq!(host.status(1), ClientStatus::Complete);
        assert_eq!(stops_of_main(&host), 1, "asked to end before it was killed");
    }
}

#[test]
fn a_lease_that_is_too_short_to_be_kept_starts_nothing_and_disturbs_nobody() {
    // Servers of earlier releases took jobs like this one.
    for millis in [0, 1, 100] {
        let mut host = host();
        let mut short = leased();
        if let Some(disconnect) = &mut short.task_groups[0].disconnect {
            disconnect.stop_on_client_after = Some(Duration::from_millis(millis));
        }
        host.confirmed_behind = Duration::from_millis(500);
        let id = host.submit(short);
        host.run_for(60_000);
        assert_eq!(run_of(&host, id), None);
        assert_eq!(host.status(1), ClientStatus::Running);
        host.restart_daemon(Boot::Same);
        host.run_for(60_000);
        assert_eq!(run_of(&host, id), None);
        assert_eq!(host.status(1), ClientStatus::Running);
        assert_eq!(host.task(1, "main").restarts, 0);
    }
}
