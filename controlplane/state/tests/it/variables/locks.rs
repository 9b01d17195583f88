//! Locks: acquired, shown by their holders, delayed, and free again.

use controlplane_state::{LOCK_TTL_MAX, Signal};

use super::*;
use crate::harness::has_signal;

fn held(command: VariableApply, number: u128) -> VariableApply {
    VariableApply {
        lock_id: Some(Uuid::from_u128(number)),
        ..command
    }
}

fn release(path: &str, number: u128) -> VariableApply {
    held(change(path, VariableChange::Release), number)
}

fn lock_of(cluster: &Harness, path: &str) -> Option<VariableLock> {
    row(cluster, path).and_then(|row| row.lock)
}

#[test]
fn a_held_variable_is_changed_by_its_holder_alone() {
    let mut cluster = cluster();
    let acquired = changed(&mut cluster, acquire("app", 1));
    assert_eq!(acquired.lock, Some(lock(1)));
    for other in [
        write("app", 1),
        change("app", VariableChange::Delete),
        acquire("app", 2),
        held(write("app", 1), 2),
        held(acquire("app", 3), 2),
    ] {
        assert_eq!(refused(&mut cluster, other), VariableRefusal::Locked);
    }
    let written = changed(&mut cluster, held(write("app", 5), 1));
    assert_eq!(written.lock, Some(lock(1)));
    // The holder's own acquisition keeps the lock and its times.
    let again = changed(&mut cluster, held(acquire("app", 4), 1));
    assert_eq!(again.lock, Some(lock(1)));
    let another = refused(&mut cluster, release("app", 2));
    assert_eq!(another, VariableRefusal::AnotherLock);
    let released = changed(&mut cluster, release("app", 1));
    assert_eq!(released.lock, None);
    assert_eq!(released.modify_index, cluster.index);
    changed(&mut cluster, write("app", 1));
}

#[test]
fn an_acquisition_without_items_keeps_those_that_are_there() {
    let mut cluster = cluster();
    changed(&mut cluster, acquire("new", 1));
    let empty = row(&cluster, "new").expect("it was made");
    assert_eq!(empty.sealed, sealed_bytes(20));
    changed(&mut cluster, write("old", 33));
    changed(&mut cluster, acquire("old", 2));
    let kept = row(&cluster, "old").expect("it is there");
    assert_eq!(kept.sealed, sealed_bytes(33));
    let with_items = VariableChange::Acquire {
        sealed: sealed_bytes(44),
        items: AcquiredItems::Written,
        lock: lock(3),
    };
    changed(&mut cluster, write("other", 33));
    changed(&mut cluster, change("other", with_items));
    let written = row(&cluster, "other").expect("it is there");
    assert_eq!(written.sealed, sealed_bytes(44));
}

#[test]
fn a_lock_that_is_shown_has_to_exist() {
    let mut cluster = cluster();
    let absent = refused(&mut cluster, release("app", 1));
    assert_eq!(absent, VariableRefusal::NotFound);
    let absent = refused(&mut cluster, held(write("app", 1), 1));
    assert_eq!(absent, VariableRefusal::NotFound);
    changed(&mut cluster, write("app", 1));
    let free = refused(&mut cluster, held(write("app", 1), 1));
    assert_eq!(free, VariableRefusal::NotLocked);
    let free = refused(&mut cluster, release("app", 1));
    assert_eq!(free, VariableRefusal::NotLocked);
}

#[test]
fn an_expired_lock_blocks_until_its_delay_is_over() {
    let mut cluster = cluster();
    let acquired = changed(&mut cluster, acquire("app", 1));
    assert_eq!(expire(&mut cluster, "app", 2), Outcome::NoOp);
    assert_eq!(lock_of(&cluster, "app"), Some(lock(1)));
    assert_eq!(expire(&mut cluster, "app", 1), Outcome::Done);
    let until = cluster.now.saturating_add(Duration::from_secs(5));
    let delayed = lock_of(&cluster, "app").expect("it still shows");
    assert_eq!(delayed.until, Some(until));
    let index = row(&cluster, "app").expect("there").modify_index;
    assert_eq!(index, acquired.modify_index, "nothing that readers see");
    let other = refused(&mut cluster, acquire("app", 2));
    assert_eq!(other, VariableRefusal::Locked);
    // Its holder may write.
    changed(&mut cluster, held(write("app", 3), 1));
    while cluster.now.saturating_add(Duration::from_secs(1)) < until {
        assert_eq!(expire(&mut cluster, "app", 1), Outcome::NoOp);
    }
    assert_eq!(expire(&mut cluster, "app", 1), Outcome::Done);
    let freed = row(&cluster, "app").expect("there");
    assert_eq!((freed.lock, freed.modify_index), (None, cluster.index));
    changed(&mut cluster, acquire("app", 2));
}

#[test]
fn a_lock_without_a_delay_is_free_as_soon_as_it_expires() {
    let mut cluster = cluster();
    let undelayed = VariableLock {
        delay: Duration::ZERO,
        ..lock(1)
    };
    let acquire = VariableChange::Acquire {
        sealed: sealed_bytes(1),
        items: AcquiredItems::Written,
        lock: undelayed,
    };
    changed(&mut cluster, change("app", acquire));
    assert_eq!(expire(&mut cluster, "app", 1), Outcome::Done);
    assert_eq!(lock_of(&cluster, "app"), None);
}

#[test]
fn the_times_of_a_lock_have_limits() {
    let mut cluster = cluster();
    let second = Duration::from_secs(1);
    let with = |ttl, delay| {
        let acquire = VariableChange::Acquire {
            sealed: sealed_bytes(1),
            items: AcquiredItems::Written,
            lock: VariableLock {
                ttl,
                delay,
                ..lock(1)
            },
        };
        change("app", acquire)
    };
    for ttl in [9 * second, LOCK_TTL_MAX + second] {
        let refusal = refused(&mut cluster, with(ttl, second));
        assert_eq!(
            refusal.to_string(),
            "TTL must be between 10 seconds and 24 hours"
        );
    }
    let refusal = refused(&mut cluster, with(LOCK_TTL_MAX, LOCK_TTL_MAX + second));
    assert_eq!(refusal, VariableRefusal::LockDelay);
    changed(&mut cluster, with(LOCK_TTL_MAX, LOCK_TTL_MAX));
}

#[test]
fn every_change_of_a_lock_is_told_to_the_leader() {
    let mut cluster = cluster();
    let told = |cluster: &mut Harness, command: Command| {
        let applied = cluster.apply(command);
        let signal = Signal::VariableLockChanged(key("app"));
        has_signal(&applied, |it| *it == signal)
    };
    let expire = || {
        let locks = vec![(key("app"), Uuid::from_u128(1))];
        Command::from(VariableLocksExpire { locks })
    };
    assert!(told(&mut cluster, acquire("app", 1).into()));
    assert!(!told(&mut cluster, held(write("app", 1), 1).into()));
    assert!(told(&mut cluster, expire()));
    assert!(told(&mut cluster, release("app", 1).into()));
    assert!(!told(&mut cluster, write("app", 1).into()));
    assert!(told(&mut cluster, acquire("app", 1).into()));
    let delete = held(change("app", VariableChange::Delete), 1);
    assert!(told(&mut cluster, delete.into()));
}
