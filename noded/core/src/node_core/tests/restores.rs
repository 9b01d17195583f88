//! The control plane is restored from a snapshot: nothing is stopped that it does not know, and
//! what it knows goes on.

use protocol_model::{AllocId, ClientStatus};

use super::fake_host::FakeHost;
use crate::journal::{self, JournalRecord};
use crate::task_runner::Boot;
use crate::test_support::{at, job_with_tasks, task};

const SAVED: AllocId = AllocId::from_u128(1);
const LATER: AllocId = AllocId::from_u128(2);

/// A host with two running allocations, of which the restored control plane knows one.
fn restored() -> FakeHost {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let saved = host.desired.clone();
    host.submit(job_with_tasks("db", vec![task("other")]));
    host.run_for(3_000);
    host.restore(saved);
    host
}

fn foreign(host: &FakeHost) -> Vec<AllocId> {
    host.core.foreign_allocs().collect()
}

#[test]
fn what_the_new_incarnation_does_not_know_goes_on_and_so_does_what_it_knows() {
    let mut host = restored();
    let before = host.live_runs();
    assert_eq!(before.len(), 2);
    host.run_for(10_000);
    assert_eq!(host.live_runs(), before, "the same runs");
    assert_eq!(foreign(&host), [LATER]);
    let watermark = host.core.watermark();
    assert_eq!(watermark.index, host.index, "the watch is followed");
    assert_eq!(host.acked_index, host.index);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    assert_eq!(host.task(1, "main").restarts, 0);
}

#[test]
fn a_new_daemon_does_not_forget_what_is_foreign() {
    let mut host = restored();
    let before = host.live_runs();
    for _ in 0..3 {
        host.run_for(5_000);
        host.restart_daemon(Boot::Same);
    }
    host.run_for(5_000);
    assert_eq!(host.live_runs(), before);
    assert_eq!(foreign(&host), [LATER]);
}

#[test]
fn a_daemon_killed_before_it_heard_of_the_restore_stops_nothing() {
    let mut host = restored();
    let before = host.live_runs();
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert_eq!(host.live_runs(), before);
    assert_eq!(foreign(&host), [LATER]);
}

#[test]
fn the_new_incarnation_is_obeyed_about_what_it_knows() {
    let mut host = restored();
    host.run_for(5_000);
    host.stop(SAVED);
    host.run_for(5_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
    assert_eq!(host.live_runs().len(), 1, "the foreign one");
    host.submit_as(job_with_tasks("new", vec![task("third")]), 3);
    host.run_for(5_000);
    assert_eq!(host.status(3), ClientStatus::Running);
}

#[test]
fn only_an_operator_releases_what_is_foreign() {
    let mut host = restored();
    host.run_for(5_000);
    host.core.release_foreign(at(host.now));
    host.drain();
    host.run_for(5_000);
    let left: Vec<AllocId> = host.live_runs().iter().map(|run| run.alloc).collect();
    assert_eq!(left, [SAVED]);
    assert!(host.destroyed.contains(&LATER));
    assert_eq!(foreign(&host), []);
    host.restart_daemon(Boot::Same);
    assert_eq!(foreign(&host), []);
}

#[test]
fn a_second_restore_that_knows_it_takes_a_foreign_allocation_back() {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    let early = host.desired.clone();
    host.submit(job_with_tasks("db", vec![task("other")]));
    host.run_for(3_000);
    let late = host.desired.clone();
    let before = host.live_runs();
    host.restore(early);
    host.run_for(5_000);
    assert_eq!(foreign(&host), [LATER]);
    host.restore(late);
    host.run_for(5_000);
    assert_eq!(foreign(&host), []);
    assert_eq!(host.live_runs(), before);
    let snapshot = host.core.journal_snapshot();
    let names_foreign = |record: &JournalRecord| matches!(record, JournalRecord::Foreign { .. });
    assert!(!snapshot.iter().any(names_foreign));
    assert_eq!(journal::replay(snapshot).allocs.len(), 2);
}
