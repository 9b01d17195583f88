//! Custody by examples and by random histories.

use super::*;
use crate::protocol::{Lease, OsSignal, Refusal, StopMethod, UnixNanos};
use proptest::prelude::*;

const CODE_0: ExitStatus = ExitStatus::Code(0);

fn key(run_epoch: u64) -> TaskKey {
    TaskKey::new("alloc", "web", run_epoch).unwrap()
}

fn at(seconds: u64) -> Now {
    Now {
        boot: BootNanos(seconds * 1_000_000_000),
        wall: UnixNanos(seconds * 1_000_000_000),
    }
}

fn spawn(custody: &mut Custody, run_epoch: u64, now: Now) {
    custody
        .check_admission(&key(run_epoch), at(0).boot)
        .unwrap();
    let deadline = now.boot.plus_millis(10_000);
    custody.on_spawned(
        &key(run_epoch),
        "tasks/web".into(),
        Vec::new(),
        77,
        deadline,
    );
}

fn running(run_epoch: u64) -> Custody {
    let mut custody = Custody::new(RUNS_MAX);
    spawn(&mut custody, run_epoch, at(0));
    custody.on_program_running(&key(run_epoch), 5, at(0));
    custody
}

fn exit_of(effects: &[Effect]) -> Option<Exit> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send(Event::Exited { exit, .. }) => Some(*exit),
        _ => None,
    })
}

#[test]
fn a_run_epoch_not_above_the_highest_is_refused_even_after_acknowledgement() {
    let mut custody = running(7);
    let alive = custody.check_admission(&key(8), at(0).boot).unwrap_err();
    assert_eq!(alive, Refusal::EarlierRunAlive { run_epoch: 7 });
    custody.on_main_exit(&key(7), CODE_0, OomKill::No, Tree::Empty, at(1));
    for stale in [6, 7] {
        let refusal = custody
            .check_admission(&key(stale), at(0).boot)
            .unwrap_err();
        assert_eq!(refusal, Refusal::StaleEpoch { highest: 7 });
    }
    custody.acknowledge(&key(7)).unwrap();
    custody.check_admission(&key(7), at(0).boot).unwrap_err();
    custody.check_admission(&key(8), at(0).boot).unwrap();
    assert_eq!(custody.forget("alloc"), [Effect::RemoveRecord(key(7))]);
    custody.check_admission(&key(1), at(0).boot).unwrap();
}

#[test]
fn a_newer_run_may_start_before_the_outcome_of_the_older_is_acknowledged() {
    let mut custody = running(1);
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(1));
    spawn(&mut custody, 2, at(2));
    let effects = custody.acknowledge(&key(1)).unwrap();
    assert_eq!(
        effects,
        [Effect::RemoveRecord(key(1)), Effect::Release(key(1))]
    );
    assert!(custody.run(&key(2)).is_some());
}

#[test]
fn the_record_of_a_floor_goes_when_a_newer_run_replaces_it() {
    let mut custody = running(1);
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(1));
    let effects = custody.acknowledge(&key(1)).unwrap();
    assert_eq!(
        effects,
        [Effect::PersistFloor(key(1)), Effect::Release(key(1))]
    );
    let effects = custody.on_spawned(
        &key(2),
        "tasks/web".into(),
        Vec::new(),
        78,
        BootNanos(u64::MAX),
    );
    assert_eq!(effects, [Effect::RemoveRecord(key(1))]);
}

#[test]
fn an_exit_is_told_only_when_the_cgroup_is_empty() {
    let mut custody = running(1);
    let effects = custody.on_main_exit(
        &key(1),
        ExitStatus::Code(3),
        OomKill::No,
        Tree::Populated,
        at(1),
    );
    assert_eq!(
        effects,
        [
            Effect::Persist(key(1)),
            Effect::WatchTree(key(1)),
            Effect::KillTree(key(1))
        ],
        "the status first: it is told to us once"
    );
    let exit = exit_of(&custody.on_tree_empty(&key(1))).unwrap();
    assert_eq!(
        (exit.status, exit.remains),
        (ExitStatus::Code(3), Remains::Killed)
    );
    assert_eq!(custody.on_tree_empty(&key(1)), []);
}

#[test]
fn an_exit_is_told_without_survivors_that_do_not_end() {
    let mut custody = running(1);
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Populated, at(1));
    assert_eq!(custody.on_time(at(5)), []);
    assert_eq!(custody.next_deadline(), Some(at(6).boot));
    assert_eq!(
        exit_of(&custody.on_time(at(6))).unwrap().remains,
        Remains::Surviving
    );
    assert_eq!(custody.next_deadline(), None);
}

#[test]
fn a_kill_deadline_only_comes_nearer_and_is_the_cause_of_the_exit() {
    let mut custody = running(1);
    let stop = |custody: &mut Custody, millis, now| {
        custody
            .stop(&key(1), Delivery::Delivered, millis, now)
            .unwrap()
            .0
    };
    assert_eq!(stop(&mut custody, 10_000, at(0)), StopMethod::Signalled);
    assert_eq!(stop(&mut custody, 60_000, at(1)), StopMethod::Signalled);
    assert_eq!(custody.next_deadline(), Some(at(10).boot));
    assert_eq!(stop(&mut custody, 1_000, at(1)), StopMethod::Signalled);
    assert_eq!(custody.on_time(at(2)), [Effect::KillTree(key(1))]);
    assert_eq!(custody.on_time(at(3)), [], "killed once");
    let killed = ExitStatus::Signal {
        signal: OsSignal(9),
        core_dumped: false,
    };
    let effects = custody.on_main_exit(&key(1), killed, OomKill::No, Tree::Empty, at(3));
    assert_eq!(exit_of(&effects).unwrap().cause, ExitCause::KillDeadline);
}

#[test]
fn a_stop_signal_that_would_be_discarded_kills_at_once() {
    let mut custody = running(1);
    let (method, effects) = custody
        .stop(&key(1), Delivery::Discarded, 60_000, at(0))
        .unwrap();
    assert_eq!(method, StopMethod::KilledAtOnce);
    assert_eq!(effects, [Effect::KillTree(key(1))]);
    let effects = custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(0));
    assert_eq!(
        exit_of(&effects).unwrap().cause,
        ExitCause::SignalWouldBeDiscarded
    );
}

#[test]
fn a_start_that_fails_is_told_once_its_process_is_gone() {
    let mut custody = Custody::new(RUNS_MAX);
    spawn(&mut custody, 1, at(0));
    let failure = SpawnFailure {
        step_index: Some(3),
        step: "mount".into(),
        errno: 2,
        at: at(0).wall,
    };
    let killed = custody.on_start_failed(&key(1), failure.clone());
    assert_eq!(killed, [Effect::KillTree(key(1))]);
    let effects = custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(0));
    let event = Event::SpawnFailed {
        key: key(1),
        failure,
    };
    assert_eq!(effects.last(), Some(&Effect::Send(event)));
}

#[test]
fn a_start_that_hangs_is_killed_at_its_deadline() {
    let mut custody = Custody::new(RUNS_MAX);
    spawn(&mut custody, 1, at(0));
    assert_eq!(custody.on_time(at(9)), []);
    assert_eq!(custody.on_time(at(10)), [Effect::KillTree(key(1))]);
    let effects = custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(11));
    assert!(matches!(
        effects.last(),
        Some(Effect::Send(Event::SpawnFailed { .. }))
    ));
}

#[test]
fn only_ended_runs_can_be_acknowledged_and_a_repeat_is_harmless() {
    let mut custody = running(1);
    custody.acknowledge(&key(1)).unwrap_err();
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(1));
    custody.acknowledge(&key(1)).unwrap();
    assert_eq!(custody.acknowledge(&key(1)), Ok(Vec::new()));
    assert_eq!(custody.run_count(), 0);
}

#[test]
fn no_more_runs_are_accepted_than_can_be_held_until_some_are_acknowledged() {
    let mut custody = Custody::new(1);
    spawn(&mut custody, 1, at(0));
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(1));
    let other = TaskKey::new("alloc", "other", 1).unwrap();
    let refusal = custody.check_admission(&other, at(0).boot).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyRuns { runs: 1 });
    custody.acknowledge(&key(1)).unwrap();
    custody.check_admission(&other, at(0).boot).unwrap();
}

#[test]
fn floors_are_bounded_and_the_oldest_goes_first() {
    let mut custody = Custody::new(RUNS_MAX);
    let owner = |n: usize| TaskKey::new(format!("a{n}"), "t", 1).unwrap();
    for n in 0..FLOORS_MAX {
        assert_eq!(custody.raise_floor(&owner(n)), []);
    }
    assert_eq!(
        custody.raise_floor(&owner(FLOORS_MAX)),
        [Effect::RemoveRecord(owner(0))]
    );
    custody.check_admission(&owner(0), at(0).boot).unwrap();
    custody.check_admission(&owner(1), at(0).boot).unwrap_err();
}

fn lease(until_seconds: u64) -> Lease {
    Lease {
        alloc: "alloc".into(),
        until: at(until_seconds).boot,
    }
}

#[test]
fn a_lease_that_is_not_extended_kills_once_and_starts_nothing_more() {
    let mut custody = running(1);
    custody.set_lease(&lease(10), Some(at(10).boot));
    assert_eq!(custody.next_deadline(), Some(at(10).boot));
    assert_eq!(custody.on_time(at(9)), []);
    assert_eq!(custody.on_time(at(10)), [Effect::KillTree(key(1))]);
    assert_eq!(custody.on_time(at(11)), []);
    let effects = custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(11));
    assert_eq!(exit_of(&effects).unwrap().cause, ExitCause::LeaseExpired);
    let refusal = custody.check_admission(&key(2), at(12).boot);
    assert_eq!(refusal, Err(Refusal::LeaseExpired));
    custody.set_lease(&lease(20), None);
    custody.check_admission(&key(2), at(12).boot).unwrap();
}

#[test]
fn an_extended_lease_and_one_that_ended_kill_nothing() {
    let mut custody = running(1);
    custody.set_lease(&lease(10), Some(at(10).boot));
    custody.set_lease(&lease(100), None);
    assert_eq!(custody.on_time(at(50)), []);
    assert_eq!(
        custody.end_lease("alloc"),
        Some(Effect::RemoveLease("alloc".into()))
    );
    assert_eq!(custody.end_lease("alloc"), None);
    assert_eq!(custody.on_time(at(1_000)), []);
    assert_eq!(custody.next_deadline(), None);
}

#[test]
fn a_record_of_a_lease_is_written_first_when_it_is_behind_and_when_it_says_too_much() {
    let mut custody = running(1);
    assert_eq!(custody.lease_recording(&lease(10)), Recording::First);
    custody.set_lease(&lease(10), Some(at(10).boot));
    for (until, expected) in [
        (10, Recording::NotDue),
        (12, Recording::NotDue),
        (13, Recording::Due),
        (9, Recording::Due),
    ] {
        assert_eq!(custody.lease_recording(&lease(until)), expected, "{until}");
    }
    // Not written: the next one is still measured by what is there.
    custody.set_lease(&lease(13), None);
    assert_eq!(custody.lease_recording(&lease(13)), Recording::Due);
}

#[test]
fn an_allocation_is_forgotten_with_its_lease_but_not_while_it_runs() {
    let mut custody = running(1);
    custody.set_lease(&lease(10), Some(at(10).boot));
    assert_eq!(custody.forget("alloc"), []);
    custody.on_main_exit(&key(1), CODE_0, OomKill::No, Tree::Empty, at(1));
    custody.acknowledge(&key(1)).unwrap();
    assert_eq!(
        custody.forget("alloc"),
        [
            Effect::RemoveRecord(key(1)),
            Effect::RemoveLease("alloc".into())
        ]
    );
}

#[test]
fn leases_of_impossible_allocations_and_beyond_the_limit_are_refused() {
    let mut custody = Custody::new(1);
    let named = |alloc: String| Lease { alloc, ..lease(10) };
    let refusal = custody.check_leases(&[lease(1), named("../x".into())]);
    assert!(matches!(refusal, Err(Refusal::Lease { alloc, .. }) if alloc == "../x"));
    for number in 0..leases::LEASES_MAX {
        custody.set_lease(&named(format!("a-{number}")), None);
    }
    custody.check_leases(&[named("a-7".into())]).unwrap();
    let refusal = custody.check_leases(&[lease(1)]);
    assert!(matches!(refusal, Err(Refusal::TooManyLeases { .. })));
}

#[derive(Debug, Clone)]
enum Happening {
    Spawn(u64),
    Running(u64),
    StartFailed(u64),
    MainExit(u64, Tree),
    TreeEmpty(u64),
    Time,
    Stop(u64, Delivery),
    Kill(u64),
    Acknowledge(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let epoch = 0_u64..6;
    prop_oneof![
        epoch.clone().prop_map(Happening::Spawn),
        epoch.clone().prop_map(Happening::Running),
        epoch.clone().prop_map(Happening::StartFailed),
        (
            epoch.clone(),
            prop_oneof![Just(Tree::Empty), Just(Tree::Populated)]
        )
            .prop_map(|(epoch, tree)| Happening::MainExit(epoch, tree)),
        epoch.clone().prop_map(Happening::TreeEmpty),
        Just(Happening::Time),
        (
            epoch.clone(),
            prop_oneof![Just(Delivery::Delivered), Just(Delivery::Discarded)]
        )
            .prop_map(|(epoch, delivery)| Happening::Stop(epoch, delivery)),
        epoch.clone().prop_map(Happening::Kill),
        epoch.prop_map(Happening::Acknowledge),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_each_run_starts_once_ends_once_and_never_beside_another(
        happenings in proptest::collection::vec(happening(), 0..80),
    ) {
        let mut custody = Custody::new(RUNS_MAX);
        let (mut spawned, mut ended) = (Vec::new(), Vec::new());
        for (step, happening) in (1_u64..).zip(happenings) {
            let now = at(step * 2);
            let failure = SpawnFailure {
                step_index: None,
                step: String::new(),
                errno: 1,
                at: now.wall,
            };
            let effects = match happening {
                Happening::Spawn(epoch)
                    if custody
                        .check_admission(&key(epoch), now.boot)
                        .is_ok() =>
                {
                    prop_assert!(spawned.iter().all(|earlier| *earlier < epoch));
                    spawned.push(epoch);
                    spawn(&mut custody, epoch, now);
                    Vec::new()
                }
                Happening::Spawn(_) => Vec::new(),
                Happening::Running(epoch) => custody.on_program_running(&key(epoch), 1, now),
                Happening::StartFailed(epoch) => custody.on_start_failed(&key(epoch), failure),
                Happening::MainExit(epoch, tree) => {
                    custody.on_main_exit(&key(epoch), CODE_0, OomKill::No, tree, now)
                }
                Happening::TreeEmpty(epoch) => custody.on_tree_empty(&key(epoch)),
                Happening::Time => custody.on_time(now),
                Happening::Stop(epoch, delivery) => {
                    let stopped = custody.stop(&key(epoch), delivery, 1_000, now);
                    stopped.map_or_else(|_| Vec::new(), |done| done.1)
                }
                Happening::Kill(epoch) => custody.kill(&key(epoch)).unwrap_or_default(),
                Happening::Acknowledge(epoch) => {
                    custody.acknowledge(&key(epoch)).unwrap_or_default()
                }
            };
            for effect in effects {
                let Effect::Send(event) = effect else { continue };
                if let Event::Exited { key, .. } | Event::SpawnFailed { key, .. } = event {
                    prop_assert!(spawned.contains(&key.run_epoch()));
                    prop_assert!(!ended.contains(&key.run_epoch()), "an end is told once");
                    ended.push(key.run_epoch());
                }
            }
            let alive = custody.runs.values().filter(|run| !matches!(run.phase, Phase::Ended(_)));
            prop_assert!(alive.count() <= 1);
            prop_assert!(custody.floors.is_consistent());
        }
    }
}
