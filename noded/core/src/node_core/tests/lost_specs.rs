//! The journal lost the record of a job specification.

use protocol_model::{AllocId, ClientStatus};

use super::fake_host::FakeHost;
use crate::event::ExitStatus;
use crate::journal;
use crate::task_runner::Boot;
use crate::test_support::{job_with_tasks, task};
use crate::update_batcher::AckedState;

const WEB: AllocId = AllocId::from_u128(1);

/// A host with a running allocation, whose daemon finds no specification in its journal and no
/// server.
fn cut_off(boot: Boot) -> FakeHost {
    let mut host = FakeHost::with_jobs(vec![job_with_tasks("web", vec![task("main")])]);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    host.online = false;
    host.disconnect();
    host.lose_specs();
    host.restart_daemon(boot);
    host.run_for(5_000);
    host
}

/// The server is there again.
fn go_online(host: &mut FakeHost) {
    host.online = true;
    host.run_for(60_000);
}

#[test]
fn a_lost_specification_is_asked_of_a_server_and_the_task_goes_on() {
    let mut host = cut_off(Boot::Same);
    let before = host.live_runs();
    assert_eq!(before.len(), 1, "it runs without a server, too");
    assert_eq!(host.core.allocs_without_spec().collect::<Vec<_>>(), [WEB]);
    assert_eq!(host.core.runs_without_spec(), before);
    go_online(&mut host);
    assert_eq!(host.core.allocs_without_spec().count(), 0);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    assert_eq!(host.task(1, "main").restarts, 0);
    assert_eq!(host.live_runs(), before);
    assert_eq!(host.core.watermark().index, host.index);
    // It is in the journal again.
    host.online = false;
    host.restart_daemon(Boot::Same);
    host.run_for(5_000);
    assert_eq!(host.status(1), ClientStatus::Running);
    go_online(&mut host);
    host.stop(WEB);
    host.run_for(5_000);
    assert_eq!(host.recorded(1), Some(ClientStatus::Complete));
}

#[test]
fn a_compacted_journal_keeps_an_allocation_without_specification() {
    let mut host = cut_off(Boot::Same);
    let before = host.live_runs();
    let snapshot = host.core.journal_snapshot();
    let allocs = journal::replay(snapshot.clone()).allocs;
    assert_eq!(allocs[&WEB].tasks.len(), 1);
    host.journal = snapshot
        .iter()
        .map(|record| journal::encode(record).expect("encodes"))
        .collect();
    host.restart_daemon(Boot::Same);
    go_online(&mut host);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    assert_eq!(host.live_runs(), before);
}

#[test]
fn an_end_without_specification_counts_when_the_specification_comes() {
    for restart in [false, true] {
        let mut host = cut_off(Boot::Same);
        let run = host.live_run("main");
        host.exit(&run, ExitStatus::Code(3));
        host.run_for(5_000);
        assert_eq!(host.runs.len(), 1, "keeper remembers the end");
        if restart {
            host.restart_daemon(Boot::Same);
        }
        go_online(&mut host);
        assert!(host.task(1, "main").failed);
        assert_eq!(host.recorded(1), Some(ClientStatus::Failed));
        assert!(host.runs.is_empty(), "keeper may forget it");
    }
}

#[test]
fn a_booted_host_asks_for_a_lost_specification_too() {
    let mut host = cut_off(Boot::Another);
    assert_eq!(host.live_runs(), []);
    go_online(&mut host);
    assert_eq!(host.recorded(1), Some(ClientStatus::Running));
    assert_eq!(host.live_runs().len(), 1);
}

#[test]
fn an_allocation_that_was_purged_is_killed_without_its_specification() {
    for restart in [false, true] {
        let mut host = cut_off(Boot::Same);
        host.purge(WEB);
        go_online(&mut host);
        if restart {
            host.restart_daemon(Boot::Same);
            host.run_for(5_000);
        }
        assert_eq!(host.live_runs(), []);
        assert!(host.destroyed.contains(&WEB));
        assert_eq!(host.core.allocs_without_spec().count(), 0);
        let left = journal::replay(host.core.journal_snapshot()).allocs;
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_running_allocation_without_specification_is_not_reported_as_pending() {
    let host = cut_off(Boot::Same);
    let lost = &host.core.lost_specs[&WEB];
    let reported = |client_status| {
        let acknowledged = AckedState {
            client_status,
            ..AckedState::default()
        };
        lost.report(Some(&acknowledged)).client_status
    };
    assert_eq!(reported(ClientStatus::Pending), ClientStatus::Running);
    assert_eq!(reported(ClientStatus::Failed), ClientStatus::Failed);
}
