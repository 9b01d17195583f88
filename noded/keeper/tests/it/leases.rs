//! Leases: what keeper does by itself when nobody extends them.

use crate::support::{Conversation, key, place, request, shell, wait_until};
use noded_keeper::client::Connection;
use noded_keeper::protocol::{BootNanos, ExitCause, Lease, Refusal, Request, Response, TaskPhase};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// Given to what runs already: however slow the host, nothing has to happen within it.
const SHORT: Duration = Duration::from_millis(200);

/// For a lease that is replaced at once, and must not be over before.
const MEDIUM: Duration = Duration::from_secs(2);

pub(crate) fn lease(alloc: &str, from_now: Duration) -> Lease {
    let now = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap();
    Lease {
        alloc: alloc.into(),
        until: BootNanos(u64::try_from((now + from_now).as_nanos()).unwrap()),
    }
}

pub(crate) fn extend(noded: &mut Connection, leases: Vec<Lease>) {
    let answer = noded.ask(&Request::ExtendLeases { leases });
    assert_eq!(answer, Response::Accepted);
}

#[test]
fn an_allocation_whose_lease_nobody_extends_ends_and_no_other_does() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let (leased, free) = (key("leased", "web", 1), key("free", "web", 1));
    let script = "trap '' TERM; sleep 1000 & sleep 1000";
    noded.start(request(&free, &cgroups.task("free")), &shell(script));
    extend(&mut noded, vec![lease("leased", HOUR)]);
    noded.start(request(&leased, &cgroups.task("leased")), &shell(script));
    extend(&mut noded, vec![lease("leased", SHORT)]);
    let exit = noded.exit(&leased);
    assert_eq!(exit.cause, ExitCause::LeaseExpired);
    assert!(!cgroups.is_populated("leased"));
    assert!(cgroups.is_populated("free"));
    let late = request(&key("leased", "web", 2), "leased");
    let late = noded.spawn(late, &shell("exit 0"));
    assert_eq!(late, Response::Refused(Refusal::LeaseExpired));
    // The control plane is back, and says so.
    extend(&mut noded, vec![lease("leased", HOUR)]);
    let again = request(&key("leased", "web", 2), &cgroups.task("again"));
    noded.start(again, &shell("exec sleep 1000"));
}

#[test]
fn without_noded_the_lease_still_counts() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let leased = key("leased", "web", 1);
    extend(&mut noded, vec![lease("leased", HOUR)]);
    let spawn = request(&leased, &cgroups.task("leased"));
    noded.start(spawn, &shell("exec sleep 1000"));
    extend(&mut noded, vec![lease("leased", SHORT)]);
    drop(noded);
    wait_until("keeper ends it by itself", || {
        !cgroups.is_populated("leased")
    });
    let mut noded = scene.connect();
    let mut end = None;
    wait_until("its end is on the list", || {
        end = noded.list().remove(&leased);
        matches!(end, Some(TaskPhase::Exited(_)))
    });
    assert!(matches!(end, Some(TaskPhase::Exited(exit)) if exit.cause == ExitCause::LeaseExpired));
}

#[test]
fn an_extended_lease_and_an_ended_one_let_tasks_go_on() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    let first = [lease("extended", MEDIUM), lease("ended", MEDIUM)];
    extend(&mut noded, first.to_vec());
    extend(&mut noded, vec![lease("extended", HOUR)]);
    let ended = Request::EndLease {
        alloc: "ended".into(),
    };
    for _ in 0..2 {
        assert_eq!(noded.ask(&ended), Response::Accepted);
    }
    for alloc in ["extended", "ended"] {
        let spawn = request(&key(alloc, "web", 1), &cgroups.task(alloc));
        noded.start(spawn, &shell("exec sleep 1000"));
    }
    wait_until("the first leases are over", || {
        first
            .iter()
            .all(|first| lease("", Duration::ZERO).until > first.until)
    });
    // Whatever was due is done with the answer.
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 2 });
    assert_eq!(noded.ask(&Request::Ping), Response::Pong { runs: 2 });
    for alloc in ["extended", "ended"] {
        assert!(cgroups.is_populated(alloc), "{alloc}");
    }
}

#[test]
fn a_lease_outlives_the_keeper_that_held_it() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let leased = key("leased", "web", 1);
    extend(&mut noded, vec![lease("leased", HOUR)]);
    let spawn = request(&leased, &cgroups.task("leased"));
    noded.start(spawn, &shell("exec sleep 1000"));
    extend(&mut noded, vec![lease("leased", SHORT)]);
    keeper.kill();
    let _next = scene.keeper(&cgroups);
    wait_until("the next keeper ends it", || {
        !cgroups.is_populated("leased")
    });
}

#[test]
fn a_lease_whose_record_is_damaged_has_run_out() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (keeper, mut noded) = scene.serve(&cgroups);
    let leased = key("leased", "web", 1);
    extend(&mut noded, vec![lease("leased", HOUR)]);
    let spawn = request(&leased, &cgroups.task("leased"));
    noded.start(spawn, &shell("exec sleep 1000"));
    keeper.kill();
    let record = scene.paths.records_directory().join("lease:leased");
    std::fs::write(&record, b"nothing").unwrap();
    let _next = scene.keeper(&cgroups);
    wait_until("nobody knows that it has not run out", || {
        !cgroups.is_populated("leased")
    });
}

#[test]
fn a_lease_that_cannot_be_recorded_is_not_granted() {
    let Some((cgroups, scene)) = place() else {
        return;
    };
    let (_keeper, mut noded) = scene.serve(&cgroups);
    // What a rename cannot replace.
    let blocked = scene.paths.records_directory().join("lease:blocked");
    std::fs::create_dir(&blocked).unwrap();
    let leases = vec![lease("fine", HOUR), lease("blocked", HOUR)];
    let answer = noded.ask(&Request::ExtendLeases { leases });
    let Response::Refused(Refusal::Lease { alloc, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(alloc, "blocked");
    let fine = scene.paths.records_directory().join("lease:fine");
    assert!(!fine.exists(), "all or none");
}
