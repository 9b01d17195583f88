//! Locks on variables: which of them expire, and which renewals count.
//!
//! ```text
//!  acquired ──► held ── 2 x TTL without a renewal ──► ending ──► delayed ── at `until` ──► free
//!                ▲ │ renewed: no entry of the log        the entry is applied
//!                └─┘
//! ```
//!
//! The deadlines of held locks are kept here alone, by the monotonic clock. A new leader gives each
//! lock its whole time anew, so that no lock is ever shorter than its holder was promised. A leader
//! that has proposed the end of a lock takes no renewal of it any more: the entry may be committed
//! late. The end of a delay is in the state, by the state's time: an election does not forget it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controlplane_state::command::{VARIABLE_LOCKS_EXPIRE_MAX, VariableLocksExpire};
use controlplane_state::{Signal, Snapshot, VariableKey, VariableLock, VariableRefusal};
use protocol_model::EvalId;
use uuid::Uuid;

use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// The pause after an entry: other parts have their turn, and a failed one is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two looks at a delay: the wall clock may jump.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub struct Locks {
    followed: BTreeMap<VariableKey, Followed>,
    /// When to look at each of them, by the monotonic clock.
    due: BTreeSet<(Duration, VariableKey)>,
    /// When the leader last received nothing from a majority: renewals could not come then.
    unheard: Option<Duration>,
    /// Nothing is proposed before this time.
    paused_until: Duration,
}

/// A lock of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Followed {
    lock: VariableLock,
    /// When it is looked at next.
    due: Duration,
    /// Its end was proposed, and may be in the log.
    is_ending: bool,
}

/// The time that a lock has without a renewal.
fn whole_time(lock: &VariableLock) -> Duration {
    lock.ttl.saturating_mul(2)
}

impl Locks {
    /// Follows every lock of the state; those that are held have their whole time.
    pub fn of(snapshot: &Snapshot, now: Now) -> Self {
        let mut locks = Self::default();
        for variable in snapshot.locked_variables() {
            locks.follow(&variable.key, variable.lock.as_ref(), snapshot, now);
        }
        locks
    }

    /// Takes a renewal by the holder of `id`.
    ///
    /// # Errors
    /// Where the caller does not hold the lock, or its time is over.
    pub fn renew(
        &mut self,
        key: &VariableKey,
        id: Uuid,
        snapshot: &Snapshot,
        now: Now,
    ) -> Result<(), VariableRefusal> {
        let variable = snapshot.variable(key).ok_or(VariableRefusal::NotFound)?;
        let lock = variable.lock.as_ref().ok_or(VariableRefusal::NotLocked)?;
        if lock.id != id || lock.until.is_some() {
            return Err(VariableRefusal::AnotherLock);
        }
        // An acquisition may be in the state before this part is told.
        if self.followed.get(key).is_none_or(|it| it.lock.id != id) {
            self.follow(key, Some(lock), snapshot, now);
        }
        match self.deadline(key) {
            Some(deadline) if deadline > now.monotonic => {
                self.look_at(key, now.monotonic + whole_time(lock));
                Ok(())
            }
            _ => Err(VariableRefusal::AnotherLock),
        }
    }

    /// The time at which a held lock expires; `None` once its end was proposed.
    fn deadline(&self, key: &VariableKey) -> Option<Duration> {
        let followed = self.followed.get(key).filter(|it| !it.is_ending)?;
        let given = self.unheard.map(|since| since + whole_time(&followed.lock));
        Some(followed.due.max(given.unwrap_or_default()))
    }

    fn follow(
        &mut self,
        key: &VariableKey,
        lock: Option<&VariableLock>,
        snapshot: &Snapshot,
        now: Now,
    ) {
        let Some(lock) = lock else {
            self.forget(key);
            return;
        };
        let known = self.followed.get(key).map(|it| &it.lock);
        if known == Some(lock) {
            return;
        }
        self.forget(key);
        let wait = match lock.until {
            None => whole_time(lock),
            Some(until) => until.saturating_since(snapshot.now().max(now.wall)),
        };
        let due = now.monotonic + wait;
        let followed = Followed {
            lock: lock.clone(),
            due,
            is_ending: false,
        };
        self.followed.insert(key.clone(), followed);
        self.due.insert((due, key.clone()));
    }

    fn forget(&mut self, key: &VariableKey) {
        if let Some(followed) = self.followed.remove(key) {
            self.due.remove(&(followed.due, key.clone()));
        }
    }

    fn look_at(&mut self, key: &VariableKey, due: Duration) {
        if let Some(followed) = self.followed.get_mut(key) {
            self.due.remove(&(followed.due, key.clone()));
            followed.due = due;
            self.due.insert((due, key.clone()));
        }
    }

    /// Whether a lock is over; if not, it is looked at later.
    fn is_over(&mut self, key: &VariableKey, snapshot: &Snapshot, now: Now) -> Option<Uuid> {
        let lock = self.followed.get(key)?.lock.clone();
        let later = match lock.until {
            None => self
                .deadline(key)
                .filter(|deadline| *deadline > now.monotonic),
            // The entry is stamped with the wall clock, which may be behind the monotonic one.
            Some(until) => {
                let left = until.saturating_since(snapshot.now().max(now.wall));
                (!left.is_zero()).then(|| now.monotonic + left.min(LOOK_EVERY))
            }
        };
        match later {
            Some(later) => {
                self.look_at(key, later);
                None
            }
            None => {
                let followed = self.followed.get_mut(key)?;
                followed.is_ending = true;
                Some(followed.lock.id)
            }
        }
    }
}

impl LeaderPart for Locks {
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        for signal in applied.signals {
            let Signal::VariableLockChanged(key) = signal else {
                continue;
            };
            let variable = applied.snapshot.variable(key);
            let lock = variable.and_then(|variable| variable.lock.as_ref());
            self.follow(key, lock, applied.snapshot, now);
        }
    }

    fn on_unheard(&mut self, _: Duration, now: Now) {
        self.unheard = Some(now.monotonic);
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        if now.monotonic < self.poll_timeout()? {
            return None;
        }
        let mut locks = Vec::new();
        let due: Vec<VariableKey> = self
            .due
            .iter()
            .take_while(|(due, _)| *due <= now.monotonic)
            .map(|(_, key)| key.clone())
            .take(VARIABLE_LOCKS_EXPIRE_MAX)
            .collect();
        for key in due {
            if let Some(id) = self.is_over(&key, snapshot, now) {
                locks.push((key, id));
            }
        }
        if locks.is_empty() {
            return None;
        }
        self.paused_until = now.monotonic + PAUSE;
        Some(Effect::Command(VariableLocksExpire { locks }.into()))
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let (due, _) = self.due.first()?;
        Some((*due).max(self.paused_until))
    }
}

#[cfg(test)]
mod tests;
