//! The session's consequences: what the control plane must come to know, and what must not happen.

use std::sync::Arc;
use std::time::Duration;

use protocol_model::{AllocId, ClientStatus, SpecHash};

use super::crashes::durable;
use super::fake_host::FakeHost;
use crate::effect::Effect;
use crate::event::{DesiredAlloc, Event, ExitStatus, SessionEvent, WatchDelta};
use crate::journal;
use crate::test_support::{alloc_of, job_with_tasks, task};

#[test]
fn a_short_cut_is_resumed_and_what_happened_meanwhile_is_told() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let epoch = host.core.session().live_epoch();
    host.disconnect();
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(10_000);
    assert_eq!(host.core.session().live_epoch(), epoch);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
}

#[test]
fn a_server_that_takes_a_session_over_is_told_what_is_not_in_the_log() {
    let jobs = ["web", "db"].map(|name| job_with_tasks(name, vec![task("main")]));
    let mut host = FakeHost::with_jobs(jobs.to_vec());
    host.exit(&host.live_run("main"), ExitStatus::Code(0));
    host.run_for(10_000);
    let told = |host: &FakeHost| {
        let lines = host.log.iter();
        lines.filter(|line| line.starts_with("detail:")).count()
    };
    assert_eq!(told(&host), 0, "the server that was told everything");
    let before = host.journal.len();
    host.disconnect();
    host.run_for(10_000);
    let live = [1, 2].map(|number| host.status(number) == ClientStatus::Running);
    assert_eq!(told(&host), live.iter().filter(|live| **live).count());
    assert!(told(&host) > 0, "{:?}", host.log);
    // Nothing of what it knows was told again: the map moves the watermark, and that is all.
    assert_eq!(host.journal.len(), before + 1);
}

#[test]
fn typical_updates_gather_for_as_long_as_the_servers_say_in_their_answers_to_heartbeats() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let seconds = Duration::from_secs;
    // As the Welcome said.
    assert_eq!(host.core.batcher.typical_interval(), seconds(1));
    for (said, obeyed) in [
        (seconds(7), seconds(7)),
        (Duration::ZERO, seconds(7)),
        (seconds(60), seconds(10)),
        (seconds(2), seconds(2)),
    ] {
        host.typical_interval = said;
        host.run_for(1_000);
        assert_eq!(host.core.batcher.typical_interval(), obeyed, "{said:?}");
    }
}

#[test]
fn a_control_plane_that_takes_in_no_reports_keeps_no_task_waiting() {
    let once = job_with_tasks("once", vec![task("once")]);
    let jobs = vec![job_with_tasks("web", vec![durable("main", 5)]), once];
    let mut host = FakeHost::with_jobs(jobs);
    let (recorded, first) = (host.recorded.clone(), host.live_run("main").epoch);
    host.slow = true;
    // Starts, restarts and ends, over more than one batch that is given up.
    host.submit(job_with_tasks("late", vec![task("late")]));
    host.exit(&host.live_run("once"), ExitStatus::Code(0));
    for restarts in 1..=5 {
        host.exit(&host.live_run("main"), ExitStatus::Code(1));
        host.run_for(6_000);
        assert_eq!(host.live_run("main").epoch.0, first.0 + restarts);
    }
    host.exit(&host.live_run("main"), ExitStatus::Code(1));
    host.run_for(6_000);
    assert_eq!(host.status(1), ClientStatus::Failed);
    assert_eq!(host.status(3), ClientStatus::Running);
    assert_eq!(host.core.batcher.entry_count(), 3);
    assert_eq!(host.recorded, recorded);
    let given_up = "disconnect: no answer within the limit while the answer to a status batch";
    let lines = host.log.iter().filter(|line| line.as_str() == given_up);
    assert!(lines.count() > 1, "{:?}", host.log);
    host.slow = false;
    host.run_for(20_000);
    for (number, status) in [(1, ClientStatus::Failed), (3, ClientStatus::Running)] {
        assert_eq!(host.recorded(number), Some(status));
    }
    assert_eq!(host.core.batcher.depth(), 0);
}

#[test]
fn a_broken_chain_ends_the_connection_and_the_next_map_heals_it() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let attempt = host.core.session().attempt();
    let delta = WatchDelta {
        previous_index: host.index + 5,
        index: host.index + 6,
        specs: Vec::new(),
        changed: Vec::new(),
        removed: vec![AllocId::from_u128(1)],
    };
    let event = SessionEvent::WatchDelta(delta);
    host.core.on_event(
        Event::Session { attempt, event },
        crate::test_support::at(host.now),
    );
    host.drain();
    assert!(
        host.log.iter().any(|line| line.contains("no chain")),
        "{:?}",
        host.log
    );
    host.run_for(5_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    host.submit(job_with_tasks("db", vec![task("main")]));
    host.run_for(1_000);
    assert_eq!(host.status(2), ClientStatus::Running);
}

/// The stop comes before the change that moves the watermark: the host asserts that it is durable.
#[test]
fn a_stop_that_came_earlier_than_its_acknowledgement_is_durable_by_then() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    host.online = false;
    host.disconnect();
    host.stop(AllocId::from_u128(1));
    host.submit(job_with_tasks("db", vec![task("main")]));
    host.online = true;
    host.run_for(30_000);
    assert_eq!(host.acked_index, host.index);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert_eq!(host.recorded(2), Some(ClientStatus::Running));
}

#[test]
fn an_allocation_without_its_job_changes_nothing() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let (attempt, before) = (host.core.session().attempt(), host.journal.len());
    let alloc = alloc_of(&job_with_tasks("x", Vec::new()), AllocId::from_u128(50));
    let changed = vec![DesiredAlloc {
        root_key: 0,
        version: host.index + 1,
        spec: SpecHash([99; 32]),
        alloc,
    }];
    let delta = WatchDelta {
        previous_index: host.index,
        index: host.index + 1,
        specs: Vec::new(),
        changed,
        removed: vec![AllocId::from_u128(1)],
    };
    let event = SessionEvent::WatchDelta(delta);
    host.core.on_event(
        Event::Session { attempt, event },
        crate::test_support::at(host.now),
    );
    host.drain();
    assert_eq!(host.journal.len(), before);
    assert!(
        host.log.iter().any(|line| line.starts_with("disconnect")),
        "{:?}",
        host.log
    );
    assert_eq!(host.status(1), ClientStatus::Running);
}

#[test]
fn an_allocation_that_cannot_be_run_is_reported_failed() {
    let mut host = FakeHost::with_jobs(Vec::new());
    let mut job = job_with_tasks("web", vec![task("main")]);
    job.task_groups[0].name = "another".to_owned();
    host.submit(job);
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    assert_eq!(host.acked_index, host.index);
    host.restart_daemon(crate::task_runner::Boot::Same);
    host.run_for(1_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
    host.purge(AllocId::from_u128(1));
    host.run_for(1_000);
    let records = host
        .journal
        .iter()
        .map(|bytes| journal::decode(bytes).expect("decodes"));
    assert!(journal::replay(records).allocs.is_empty());
}

#[test]
fn desired_state_before_the_own_sync_is_not_acted_on() {
    let mut host = FakeHost::new();
    host.core.on_timeout(crate::test_support::at(0));
    let attempt = host.core.session().attempt();
    let job = Arc::new(job_with_tasks("web", vec![task("main")]));
    let hash = SpecHash([1; 32]);
    let delta = WatchDelta {
        previous_index: 1,
        index: 2,
        specs: vec![(hash, Arc::clone(&job))],
        changed: vec![DesiredAlloc {
            root_key: 0,
            version: 2,
            spec: hash,
            alloc: alloc_of(&job, AllocId::from_u128(1)),
        }],
        removed: Vec::new(),
    };
    let event = SessionEvent::WatchDelta(delta);
    host.core.on_event(
        Event::Session { attempt, event },
        crate::test_support::at(0),
    );
    let effects: Vec<Effect> = std::iter::from_fn(|| host.core.poll_effect())
        .map(|issued| issued.effect)
        .collect();
    assert!(
        effects
            .iter()
            .any(|it| matches!(it, Effect::Disconnect { .. })),
        "{effects:?}"
    );
    assert_eq!(host.core.allocs().count(), 0);
}
