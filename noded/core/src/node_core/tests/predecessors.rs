//! Successors on the node of their predecessors.

use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocId, AllocatedPort, ClientStatus, DeploymentId, Job, TaskLifecycle, UpdateStrategy,
};

use super::fake_host::{FakeHost, Manners};
use crate::event::ExitStatus;
use crate::task_runner::Boot;
use crate::test_support::{job_with_tasks, task};

/// A main task that is killed 5 s after its signal, where it ignores it.
fn job(name: &str) -> Job {
    job_with_tasks(name, vec![task("main")])
}

fn id(number: u128) -> AllocId {
    AllocId::from_u128(number)
}

/// Allocation `old` is being stopped, and will be killed in 5 s; `new` takes its place.
fn replacing(old: u128, new: u128) -> FakeHost {
    let mut host = FakeHost::new();
    host.submit_as(job("web"), old);
    host.run_for(3_000);
    host.manners = Manners::Ignores;
    host.stop(id(old));
    host.submit_after(job("web"), new, id(old));
    host.run_for(2_000);
    host
}

fn live(host: &FakeHost) -> Vec<u128> {
    let runs = host.live_runs().into_iter();
    runs.map(|run| run.alloc.0.as_u128()).collect()
}

#[test]
fn a_successor_is_pending_until_its_predecessor_has_ended() {
    let mut host = replacing(1, 2);
    assert_eq!(live(&host), [1]);
    assert_eq!(host.recorded(2), Some(ClientStatus::Pending), "accepted");
    let said = &host.recorded[&id(2)].client_description;
    assert_eq!(said, "Waiting for allocation 00000000 to end");
    host.run_for(4_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert_eq!(live(&host), [2]);
    assert_eq!(host.recorded(2), Some(ClientStatus::Running));
}

#[test]
fn a_new_daemon_knows_who_waits_whatever_their_ids() {
    for (old, new) in [(1, 2), (2, 1)] {
        let mut host = replacing(old, new);
        for _ in 0..3 {
            host.restart_daemon(Boot::Same);
            host.run_for(500);
            assert_eq!(live(&host), [old]);
        }
        host.run_for(4_000);
        assert_eq!(live(&host), [new]);
    }
}

#[test]
fn a_predecessor_that_ended_without_a_daemon_keeps_nobody_waiting() {
    let mut host = replacing(1, 2);
    host.without_daemon_for(10_000);
    host.restart_daemon(Boot::Same);
    host.run_for(1_000);
    assert_eq!(live(&host), [2]);
}

#[test]
fn a_predecessor_that_the_control_plane_forgets_is_waited_for() {
    let mut host = replacing(1, 2);
    host.purge(id(1));
    host.run_for(1_000);
    assert_eq!(live(&host), [1]);
    host.run_for(4_000);
    assert_eq!(live(&host), [2]);
    assert!(host.destroyed.contains(&id(1)));
}

#[test]
fn the_successor_of_one_that_never_began_waits_for_the_first() {
    for forgotten in [false, true] {
        let mut host = replacing(1, 2);
        host.stop(id(2));
        host.submit_after(job("web"), 3, id(2));
        host.run_for(500);
        assert_eq!(host.recorded(2), Some(ClientStatus::Complete));
        if forgotten {
            host.purge(id(2));
        }
        host.run_for(500);
        host.restart_daemon(Boot::Same);
        host.run_for(500);
        assert_eq!(live(&host), [1]);
        host.run_for(4_000);
        assert_eq!(live(&host), [3]);
        assert_eq!(host.destroyed.contains(&id(2)), forgotten);
    }
}

#[test]
fn a_predecessor_that_failed_is_waited_for_while_others_of_it_run() {
    let proxy = protocol_model::Task {
        lifecycle: Some(TaskLifecycle {
            hook: "prestart".to_owned(),
            sidecar: true,
        }),
        ..task("proxy")
    };
    let both = job_with_tasks("web", vec![proxy, task("main")]);
    let mut host = FakeHost::with_jobs(vec![both]);
    host.manners = Manners::Ignores;
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    host.submit_after(job("web"), 2, id(1));
    host.run_for(2_000);
    assert_eq!(live(&host), [1], "the sidecar is not dead yet");
    host.run_for(4_000);
    assert_eq!(live(&host), [2]);
}

#[test]
fn a_predecessor_on_another_node_is_not_waited_for() {
    let mut host = FakeHost::with_jobs(Vec::new());
    host.submit_after(job("web"), 2, id(1));
    host.run_for(1_000);
    assert_eq!(live(&host), [2]);
}

#[test]
fn the_port_of_one_that_ends_is_waited_for_and_no_other() {
    let on_port = |host: &mut FakeHost, number, value| {
        host.submit_as(job("web"), number);
        let (_, mut alloc) = host.desired[&id(number)].clone();
        let port = AllocatedPort {
            label: "http".to_owned(),
            value,
            ..AllocatedPort::default()
        };
        Arc::make_mut(&mut alloc.allocated_resources).shared.ports = vec![port];
        host.want(alloc);
    };
    let mut host = FakeHost::new();
    on_port(&mut host, 1, 8080);
    on_port(&mut host, 2, 8081);
    host.run_for(3_000);
    host.manners = Manners::Ignores;
    host.stop(id(1));
    on_port(&mut host, 3, 8080);
    on_port(&mut host, 4, 8082);
    host.run_for(2_000);
    assert_eq!(live(&host), [1, 2, 4]);
    host.run_for(4_000);
    assert_eq!(live(&host), [2, 3, 4]);
}

#[test]
fn the_time_to_become_healthy_begins_when_the_predecessor_has_ended() {
    let mut update = job("web");
    update.task_groups[0].update = Some(UpdateStrategy {
        health_check: Some("task_states".to_owned()),
        min_healthy_time: Some(Duration::from_secs(1)),
        healthy_deadline: Some(Duration::from_secs(2)),
        ..UpdateStrategy::default()
    });
    let mut host = FakeHost::with_jobs(vec![job("web")]);
    host.manners = Manners::Ignores;
    host.stop(id(1));
    host.submit_after(update, 2, id(1));
    let (_, mut alloc) = host.desired[&id(2)].clone();
    alloc.deployment_id = Some(DeploymentId::from_u128(3));
    host.want(alloc);
    host.run_for(4_000);
    assert_eq!(host.recorded[&id(2)].health, None, "it waits");
    host.run_for(4_000);
    let health = host.recorded[&id(2)].health;
    assert!(health.is_some_and(|health| health.healthy), "{health:?}");
}
