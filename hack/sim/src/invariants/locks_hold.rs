//! A lock has one holder, lives at least as long as its holder was promised, and blocks others for
//! its LockDelay where it expired.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::{Command, Snapshot, VariableLock};
use protocol_model::UnixNanos;
use uuid::Uuid;

use super::{Invariant, Observation};
use crate::time::{Nanos, SECOND, wall};
use crate::world::World;
use crate::world::locks::key;

/// The promises to clients, by the ids of their locks.
#[derive(Debug, Default)]
pub(super) struct LocksHold {
    /// Until when a client believes in its lock.
    promised: BTreeMap<Uuid, Nanos>,
    /// Locks that their clients gave up.
    left: BTreeSet<Uuid>,
    /// The lock that is delayed, and until when: its delay counts from the proposal of its end.
    delayed: Option<(Uuid, UnixNanos)>,
}

impl Invariant for LocksHold {
    fn name(&self) -> &'static str {
        "locks_hold"
    }

    fn source(&self) -> &'static str {
        "docs/variables.md, Locks: one holder, for at least one TTL from each acknowledged request"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match *seen {
            Observation::LockHeld { id, until } => self.on_held(id, until, world.now),
            Observation::LockLeft { id } => {
                self.promised.remove(&id);
                self.left.insert(id);
                Ok(())
            }
            Observation::Applied {
                before,
                after,
                command: Command::VariableApply(_) | Command::VariableLocksExpire(_),
                ..
            } => self.on_applied(lock_of(before), lock_of(after), world),
            _ => Ok(()),
        }
    }
}

fn lock_of(snapshot: &Snapshot) -> Option<&VariableLock> {
    snapshot.variable(&key())?.lock.as_ref()
}

impl LocksHold {
    fn on_held(&mut self, id: Uuid, until: Nanos, now: Nanos) -> Result<(), String> {
        self.promised.retain(|_, until| *until > now);
        if until > now {
            self.promised.insert(id, until);
        }
        match self.promised.len() {
            0 | 1 => Ok(()),
            _ => Err(format!(
                "several clients hold the lock: {:?}",
                self.promised
            )),
        }
    }

    fn on_applied(
        &mut self,
        before: Option<&VariableLock>,
        after: Option<&VariableLock>,
        world: &World,
    ) -> Result<(), String> {
        let Some(before) = before else {
            return Ok(());
        };
        let id = before.id;
        let stays = after.filter(|lock| lock.id == id);
        if stays.is_some_and(|lock| lock.until == before.until) || self.left.contains(&id) {
            return Ok(());
        }
        if let Some(until) = self.promised.get(&id).filter(|until| **until > world.now) {
            let left = (until - world.now) / (SECOND / 10);
            return Err(format!(
                "lock {id} ends {left} tenths of a second too early"
            ));
        }
        if let Some(until) = stays.and_then(|lock| lock.until) {
            self.delayed = Some((id, until));
            return Ok(());
        }
        let now = wall(world.now, 0);
        match self.delayed.take() {
            Some((delayed, until)) if delayed == id && until <= now => Ok(()),
            other => Err(format!("lock {id} is free without its delay: {other:?}")),
        }
    }
}
