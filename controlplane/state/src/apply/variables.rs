//! Variables: written, deleted, locked and released.
//!
//! ```text
//!  order of the checks: path ─► lock ─► index (cas) ─► namespace ─► seal ─► quota ─► limits
//! ```

use std::sync::Arc;

use uuid::Uuid;

use super::draft::Draft;
use crate::access::Sealed;
use crate::applied::{Outcome, Refusal, Signal, VariableChanged, VariableRefusal};
use crate::command::{
    AcquiredItems, VARIABLE_LOCKS_EXPIRE_MAX, VariableApply, VariableChange, VariableLocksExpire,
};
use crate::variable::{
    LOCK_TTL_MAX, VARIABLE_LOCKS_MAX, VARIABLES_MAX, Variable, VariableKey, VariableLock,
    check_variable_path,
};

impl From<VariableRefusal> for Refusal {
    fn from(refusal: VariableRefusal) -> Self {
        Self::Variable(refusal)
    }
}

impl Draft {
    pub(crate) fn variable_apply(&mut self, command: VariableApply) -> Result<Outcome, Refusal> {
        let VariableApply {
            key,
            cas,
            lock_id,
            change,
        } = command;
        check_variable_path(&key.path).map_err(VariableRefusal::InvalidPath)?;
        let before = self.tables.variable(&key).map(Arc::clone);
        let before = before.as_deref();
        check_lock(before, lock_id, &change)?;
        check_index(before, cas)?;
        match change {
            VariableChange::Write(sealed) => {
                let lock = before.and_then(|before| before.lock.clone());
                self.write_variable(key, before, sealed, lock)
            }
            VariableChange::Acquire {
                sealed,
                items,
                lock,
            } => self.acquire_variable(key, before, (sealed, items), &lock),
            VariableChange::Release => self.release_variable(before),
            VariableChange::Delete => Ok(self.delete_variable(&key, before)),
        }
    }

    fn acquire_variable(
        &mut self,
        key: VariableKey,
        before: Option<&Variable>,
        (sealed, items): (Sealed, AcquiredItems),
        lock: &VariableLock,
    ) -> Result<Outcome, Refusal> {
        check_times(lock)?;
        // A lock that is there is the caller's own.
        let held = before.and_then(|before| before.lock.clone());
        if held.is_none() && self.tables.variables.locked.len() >= VARIABLE_LOCKS_MAX {
            return Err(VariableRefusal::TooManyLocks.into());
        }
        let lock = held.unwrap_or_else(|| VariableLock {
            until: None,
            ..lock.clone()
        });
        let kept = before.filter(|_| items == AcquiredItems::Kept);
        let Some(before) = kept else {
            return self.write_variable(key, before, sealed, Some(lock));
        };
        Ok(self.change_variable(Variable {
            lock: Some(lock),
            ..before.clone()
        }))
    }

    fn release_variable(&mut self, before: Option<&Variable>) -> Result<Outcome, Refusal> {
        let before = before.ok_or(VariableRefusal::NotFound)?;
        Ok(self.change_variable(Variable {
            lock: None,
            ..before.clone()
        }))
    }

    fn delete_variable(&mut self, key: &VariableKey, before: Option<&Variable>) -> Outcome {
        let Some(before) = before else {
            return Outcome::NoOp;
        };
        if before.lock.is_some() {
            self.signal(Signal::VariableLockChanged(key.clone()));
        }
        self.tables.remove_variable(key);
        Outcome::Done
    }

    fn write_variable(
        &mut self,
        key: VariableKey,
        before: Option<&Variable>,
        sealed: Sealed,
        lock: Option<VariableLock>,
    ) -> Result<Outcome, Refusal> {
        let Some(namespace) = self.tables.namespace(&key.namespace) else {
            return Err(Refusal::UnknownNamespace(key.namespace));
        };
        let max = namespace.variables_bytes_limit();
        self.take_variable_seal(&sealed)?;
        let variable = Variable {
            key,
            sealed,
            create_time: before.map_or(self.now, |before| before.create_time),
            modify_time: self.now,
            create_index: before.map_or(self.index, |before| before.create_index),
            modify_index: self.index,
            lock,
        };
        let size = |variable: &Variable| variable.size();
        let (old, new) = (before.map_or(0, size), variable.size());
        let namespace = &variable.key.namespace;
        let bytes = self.tables.variable_tally(namespace).bytes - old + new;
        // A namespace whose limit was lowered still takes what makes it smaller.
        if bytes > max && new > old {
            let namespace = namespace.clone();
            return Err(VariableRefusal::Quota {
                namespace,
                bytes,
                max,
            }
            .into());
        }
        if before.is_none() && self.tables.variables.rows.len() >= VARIABLES_MAX {
            return Err(VariableRefusal::TooMany.into());
        }
        Ok(self.change_variable(variable))
    }

    /// Puts a changed variable, as the outcome tells it.
    fn change_variable(&mut self, variable: Variable) -> Outcome {
        let variable = Variable {
            modify_time: self.now,
            modify_index: self.index,
            ..variable
        };
        let before = self.tables.variable(&variable.key);
        let lock_before = before.and_then(|before| before.lock.as_ref());
        if lock_before != variable.lock.as_ref() {
            self.signal(Signal::VariableLockChanged(variable.key.clone()));
        }
        let changed = VariableChanged {
            create_time: variable.create_time,
            modify_time: variable.modify_time,
            create_index: variable.create_index,
            modify_index: variable.modify_index,
            lock: variable.lock.clone(),
        };
        self.tables.put_variable(variable);
        Outcome::VariableChanged(Box::new(changed))
    }

    pub(crate) fn variable_locks_expire(
        &mut self,
        command: VariableLocksExpire,
    ) -> Result<Outcome, Refusal> {
        let VariableLocksExpire { locks } = command;
        if locks.len() > VARIABLE_LOCKS_EXPIRE_MAX {
            return Err(Refusal::malformed("too many locks expire in one command"));
        }
        let mut outcome = Outcome::NoOp;
        for (key, id) in locks {
            if self.expire_lock(&key, id) {
                outcome = Outcome::Done;
            }
        }
        Ok(outcome)
    }

    /// Begins the delay of a lock, or ends it. Whether anything changed.
    fn expire_lock(&mut self, key: &VariableKey, id: Uuid) -> bool {
        let Some(before) = self.tables.variable(key).map(Arc::clone) else {
            return false;
        };
        let Some(lock) = before.lock.clone().filter(|lock| lock.id == id) else {
            return false;
        };
        match lock.until {
            None if !lock.delay.is_zero() => {
                let until = Some(self.now.saturating_add(lock.delay));
                let lock = Some(VariableLock { until, ..lock });
                // It still shows, and blocks: nothing that readers wait for.
                self.tables.put_variable_unseen(Variable {
                    lock,
                    ..Variable::clone(&before)
                });
                self.signal(Signal::VariableLockChanged(key.clone()));
            }
            Some(until) if until > self.now => return false,
            None | Some(_) => {
                self.change_variable(Variable {
                    lock: None,
                    ..Variable::clone(&before)
                });
            }
        }
        true
    }
}

/// Whether the caller may change the variable as far as locks go.
fn check_lock(
    before: Option<&Variable>,
    shown: Option<Uuid>,
    change: &VariableChange,
) -> Result<(), VariableRefusal> {
    let held = before.and_then(|before| before.lock.as_ref());
    match (before, held, shown) {
        (None, _, Some(_)) => Err(VariableRefusal::NotFound),
        (Some(_), None, Some(_)) => Err(VariableRefusal::NotLocked),
        (Some(_), Some(held), Some(shown)) if held.id == shown => Ok(()),
        (Some(_), Some(_), _) if matches!(change, VariableChange::Release) => {
            Err(VariableRefusal::AnotherLock)
        }
        (Some(_), Some(_), _) => Err(VariableRefusal::Locked),
        (None, _, None) | (Some(_), None, None) => match change {
            VariableChange::Release => Err(VariableRefusal::NotLocked),
            _ => Ok(()),
        },
    }
}

fn check_index(before: Option<&Variable>, cas: Option<u64>) -> Result<(), VariableRefusal> {
    let found = before.map_or(0, |before| before.modify_index);
    match cas {
        Some(wanted) if wanted != found => Err(VariableRefusal::Conflict { wanted, found }),
        _ => Ok(()),
    }
}

fn check_times(lock: &VariableLock) -> Result<(), VariableRefusal> {
    if lock.delay > LOCK_TTL_MAX {
        return Err(VariableRefusal::LockDelay);
    }
    if !lock.has_valid_times() {
        return Err(VariableRefusal::LockTtl);
    }
    Ok(())
}
