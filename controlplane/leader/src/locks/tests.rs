//! Locks under renewals, lost entries, elections and silence.

use controlplane_state::command::{
    AcquiredItems, RootKeyUpsert, Rotation, VariableApply, VariableChange,
};
use controlplane_state::{Command, Outcome, RootKey, RootKeyState, Sealed};
use hack_testkit::World;
use proptest::prelude::*;
use protocol_model::UnixNanos;

use super::*;

const TTL: Duration = Duration::from_secs(10);
const DELAY: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    world: World,
    part: Locks,
    started: UnixNanos,
}

fn key() -> VariableKey {
    VariableKey::new("default", "app")
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn root_key() -> RootKey {
    RootKey {
        id: id(1),
        number: 0,
        kek_id: [7; 8],
        wrapped: vec![1],
        public_ed25519: vec![2; 32],
        public_rsa: vec![3],
        state: RootKeyState::Active,
        create_time: UnixNanos::ZERO,
        state_time: UnixNanos::ZERO,
        publish_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    }
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        let key = root_key();
        let made = RootKeyUpsert {
            key,
            replaces: None,
            rotation: Rotation::default(),
        };
        world.apply(made.into());
        let started = world.now();
        let part = Locks::default();
        Self {
            world,
            part,
            started,
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic: self.world.now().saturating_since(self.started),
            wall: self.world.now(),
        }
    }

    fn apply(&mut self, command: Command) -> Outcome {
        let applied = self.world.apply(command);
        let snapshot = self.world.snapshot();
        let told = Applied {
            index: applied.index,
            signals: &applied.signals,
            snapshot: &snapshot,
        };
        let now = self.now();
        self.part.on_applied(told, now);
        applied.outcome
    }

    fn acquire(&mut self, number: u128) -> bool {
        let change = VariableChange::Acquire {
            sealed: Sealed {
                key: 1,
                nonce: [1; 12],
                bytes: vec![1; 20],
            },
            items: AcquiredItems::Kept,
            lock: VariableLock {
                id: id(number),
                ttl: TTL,
                delay: DELAY,
                until: None,
            },
        };
        let outcome = self.apply(
            VariableApply {
                key: key(),
                cas: None,
                lock_id: None,
                change,
            }
            .into(),
        );
        matches!(outcome, Outcome::VariableChanged(_))
    }

    fn release(&mut self, number: u128) -> bool {
        let release = VariableApply {
            key: key(),
            cas: None,
            lock_id: Some(id(number)),
            change: VariableChange::Release,
        };
        matches!(self.apply(release.into()), Outcome::VariableChanged(_))
    }

    fn renew(&mut self, number: u128) -> Result<(), VariableRefusal> {
        let now = self.now();
        let snapshot = self.world.snapshot();
        self.part.renew(&key(), id(number), &snapshot, now)
    }

    fn poll(&mut self) -> Option<Command> {
        let now = self.now();
        let snapshot = self.world.snapshot();
        let mut ids = || EvalId::from_u128(1);
        let Effect::Command(command) = self.part.poll(&snapshot, &mut ids, now)?;
        Some(command)
    }

    /// Lets time pass, and carries out what is due, each at its time.
    fn pass(&mut self, span: Duration) {
        let end = self.now().monotonic + span;
        while let Some(due) = self.part.poll_timeout().filter(|due| *due <= end) {
            let passed = self.now().monotonic;
            self.world.wait(due.saturating_sub(passed));
            if let Some(command) = self.poll() {
                self.apply(command);
            }
        }
        let passed = self.now().monotonic;
        self.world.wait(end.saturating_sub(passed));
    }

    fn elect(&mut self) {
        self.part = Locks::of(&self.world.snapshot(), self.now());
    }
}

#[test]
fn a_lock_without_renewals_is_held_for_two_ttls_and_then_delayed() {
    let mut scene = Scene::new();
    assert_eq!(scene.part.poll_timeout(), None);
    assert!(scene.acquire(1));
    scene.pass(2 * TTL - SECOND);
    assert_eq!(scene.renew(1), Ok(()));
    scene.pass(2 * TTL - SECOND);
    assert!(!scene.acquire(2));
    scene.pass(2 * SECOND);
    // Delayed: it still blocks, and its holder comes too late.
    assert_eq!(scene.renew(1), Err(VariableRefusal::AnotherLock));
    assert!(!scene.acquire(2));
    scene.pass(DELAY);
    assert!(scene.acquire(2));
    assert_eq!(scene.renew(1), Err(VariableRefusal::AnotherLock));
}

#[test]
fn a_renewal_without_a_lock_says_why() {
    let mut scene = Scene::new();
    assert_eq!(scene.renew(1), Err(VariableRefusal::NotFound));
    assert!(scene.acquire(1));
    assert_eq!(scene.renew(2), Err(VariableRefusal::AnotherLock));
    assert!(scene.release(1));
    assert_eq!(scene.renew(1), Err(VariableRefusal::NotLocked));
    assert_eq!(scene.part.poll_timeout(), None);
}

#[test]
fn a_new_leader_gives_a_lock_its_whole_time_and_keeps_a_delay() {
    let mut scene = Scene::new();
    assert!(scene.acquire(1));
    scene.pass(2 * TTL - SECOND);
    scene.elect();
    scene.pass(2 * TTL - SECOND);
    assert_eq!(scene.renew(1), Ok(()));
    scene.pass(2 * TTL);
    let delay = scene.now().monotonic;
    scene.pass(DELAY / 2);
    scene.elect();
    let due = scene.part.poll_timeout().expect("its delay ends");
    assert!(due <= delay + DELAY, "{due:?}");
    scene.pass(DELAY);
    assert!(scene.acquire(2));
}

#[test]
fn a_leader_that_received_nothing_gives_the_time_once_more() {
    let mut scene = Scene::new();
    assert!(scene.acquire(1));
    scene.world.wait(2 * TTL + SECOND);
    let now = scene.now();
    scene.part.on_unheard(SECOND, now);
    assert_eq!(scene.poll(), None);
    assert_eq!(scene.renew(1), Ok(()));
    scene.pass(2 * TTL + SECOND);
    assert_eq!(scene.renew(1), Err(VariableRefusal::AnotherLock));
}

#[test]
fn a_lock_is_not_renewed_once_its_end_was_proposed() {
    let mut scene = Scene::new();
    assert!(scene.acquire(1));
    scene.world.wait(2 * TTL);
    let late = scene.poll().expect("it ends");
    // The majority is gone for a moment, with the entry on its way.
    let now = scene.now();
    scene.part.on_unheard(SECOND, now);
    assert_eq!(scene.renew(1), Err(VariableRefusal::AnotherLock));
    scene.world.wait(PAUSE);
    assert_eq!(scene.poll(), Some(late.clone()), "it is proposed once more");
    scene.apply(late);
    scene.pass(DELAY);
    assert!(scene.acquire(2));
}

#[test]
fn an_end_that_did_not_get_into_the_log_is_tried_again() {
    let mut scene = Scene::new();
    assert!(scene.acquire(1));
    scene.world.wait(2 * TTL);
    let lost = scene.poll().expect("it ends");
    assert_eq!(scene.poll(), None, "other parts have their turn");
    // It is decided: the entry may be in the log by now.
    assert_eq!(scene.renew(1), Err(VariableRefusal::AnotherLock));
    scene.world.wait(PAUSE);
    assert_eq!(scene.poll(), Some(lost));
}

/// A holder believes in its lock until one TTL after the sending of its last renewal that was
/// acknowledged. A holder that was asleep may renew later, and believes the acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Holder {
    number: u128,
    until: Duration,
}

proptest! {
    #[test]
    fn two_holders_never_believe_in_one_lock_at_a_time(
        steps in prop::collection::vec((0u8..10, 0u64..25_000), 1..200)
    ) {
        let mut scene = Scene::new();
        let mut holders: Vec<Holder> = Vec::new();
        // Ends that the leader proposed and that are not committed yet.
        let mut late: Vec<Command> = Vec::new();
        let mut next = 0;
        for (kind, how) in steps {
            let span = Duration::from_millis(how);
            match kind {
                0 | 1 => scene.pass(span),
                // Time during which no server leads, or the leader's loop stands still.
                2 => scene.world.wait(span),
                3 => {
                    // A new leader has applied what was committed of the log before.
                    for command in late.drain(..).filter(|_| how.is_multiple_of(2)) {
                        scene.apply(command);
                    }
                    scene.elect();
                }
                4 => {
                    let now = scene.now();
                    scene.part.on_unheard(SECOND, now);
                }
                5 => {
                    next += 1;
                    let sent = scene.now().monotonic;
                    if scene.acquire(next) {
                        holders.push(Holder { number: next, until: sent + TTL });
                    }
                }
                6 => late.extend(scene.poll()),
                7 => {
                    for command in late.drain(..) {
                        scene.apply(command);
                    }
                }
                _ => {
                    let back = usize::from(how.is_multiple_of(3));
                    if let Some(holder) = holders.iter_mut().rev().nth(back) {
                        // The request is under way for a while.
                        let sent = scene.now().monotonic;
                        scene.world.wait(span / 10);
                        if scene.renew(holder.number).is_ok() {
                            holder.until = sent + TTL;
                        }
                    }
                }
            }
            let now = scene.now().monotonic;
            let believing = holders.iter().filter(|holder| holder.until > now);
            prop_assert!(believing.count() <= 1, "{:?}", holders);
        }
    }
}
