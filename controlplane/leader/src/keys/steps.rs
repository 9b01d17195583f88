//! The steps that are due.

use std::time::Duration;

use controlplane_state::command::{AllocsResign, KeyRemoval, RESIGN_ALLOCS_MAX, RootKeyChange};
use controlplane_state::{RootKey, RootKeyState, Snapshot};
use protocol_model::{Job, Task, UnixNanos};

use super::schedule::{RootKeyConfig, first_prepublished, in_state_since, prepublish_due};

/// Values that one key seals: with random nonces of 96 bits, 2^31 of them collide with a
/// probability below 2^-34 (NIST SP 800-38D, section 8.3).
pub const SEALS_MAX: u64 = 1 << 31;

/// One thing to do with one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyStep {
    /// Make a root key.
    Make {
        /// The number of the active key.
        replaces: u32,
        /// The time from which the new key signs; `None` = it takes the active key's place at once.
        publish_time: Option<UnixNanos>,
    },
    /// Put this change into the log.
    Change(RootKeyChange),
    /// Seal the secrets of tokens and auth methods anew that this key sealed.
    RekeyTokens {
        /// Its number.
        number: u32,
    },
    /// Seal the values of variables anew that this key sealed.
    RekeyVariables {
        /// Its number.
        number: u32,
    },
    /// Move allocations to the active key: [`next_resign`], until there is none.
    Resign {
        /// The number of the active key.
        number: u32,
    },
    /// Wrap this key with the key-encryption key that wraps new ones.
    Rewrap {
        /// Its number.
        number: u32,
    },
}

/// The steps that are due, by key: at most one that changes its state for each. `wrapping` is the
/// id of the key-encryption key that every root key is to be wrapped with; `None` where any may.
///
/// There is nothing to do before the first key, which a leader makes in its own way.
pub fn steps(
    snapshot: &Snapshot,
    config: RootKeyConfig,
    wrapping: Option<[u8; 8]>,
    now: UnixNanos,
) -> Vec<KeyStep> {
    let now = now.max(snapshot.now());
    let Some(active) = snapshot.active_root_key() else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    steps.extend(rotation(snapshot, active, config, now));
    if must_resign(snapshot) {
        let number = active.number;
        steps.push(KeyStep::Resign { number });
    }
    let ttl_max = std::cell::OnceCell::new();
    for key in snapshot.root_keys() {
        let number = key.number;
        if wrapping.is_some_and(|wrapping| wrapping != key.kek_id) {
            steps.push(KeyStep::Rewrap { number });
        }
        let sealed = snapshot.sealed_with(number);
        let is_old = matches!(key.state, RootKeyState::Rekeying | RootKeyState::Inactive);
        if is_old && sealed.tokens + sealed.methods > 0 {
            steps.push(KeyStep::RekeyTokens { number });
        }
        match key.state {
            RootKeyState::Active | RootKeyState::Prepublished => {}
            RootKeyState::Rekeying if sealed.variables > 0 => {
                steps.push(KeyStep::RekeyVariables { number });
            }
            RootKeyState::Rekeying => {
                steps.push(KeyStep::Change(RootKeyChange::EndRekey { number }));
            }
            RootKeyState::Inactive if snapshot.needs_root_key(number) => {}
            RootKeyState::Inactive => {
                let ttl_max = *ttl_max.get_or_init(|| longest_ttl(snapshot));
                let kept = config.gc_threshold.saturating_add(ttl_max);
                if in_state_since(key).saturating_add(kept) <= now {
                    let rule = KeyRemoval::Unused;
                    let remove = RootKeyChange::Remove { number, rule };
                    steps.push(KeyStep::Change(remove));
                }
            }
        }
    }
    steps
}

/// Whether a live allocation has no key, or one that was removed; also before identities begin.
fn must_resign(snapshot: &Snapshot) -> bool {
    let is_known = |number| snapshot.root_key(number).is_some();
    !snapshot.identities_begun() || !snapshot.keys_of_live_allocs().all(is_known)
}

/// The next entry that moves allocations to the active key; `None` where all live ones have a key
/// that is there. It scans all allocations.
pub fn next_resign(snapshot: &Snapshot) -> Option<AllocsResign> {
    let key = snapshot.active_root_key()?.number;
    if !must_resign(snapshot) {
        return None;
    }
    let moving = snapshot.live_allocs_not_of_key(key);
    let moving = moving.filter(|(_, key)| snapshot.root_key(*key).is_none());
    let allocs = moving.map(|(id, _)| id).take(RESIGN_ALLOCS_MAX).collect();
    Some(AllocsResign { key, allocs })
}

/// The step that brings the next active key.
fn rotation(
    snapshot: &Snapshot,
    active: &RootKey,
    config: RootKeyConfig,
    now: UnixNanos,
) -> Option<KeyStep> {
    let replaces = active.number;
    if let Some(first) = first_prepublished(snapshot) {
        let number = first.number;
        let is_due = first.publish_time <= now;
        return is_due.then_some(KeyStep::Change(RootKeyChange::Activate { number }));
    }
    if active.seals >= SEALS_MAX {
        return Some(KeyStep::Make {
            replaces,
            publish_time: None,
        });
    }
    // For the other half of the threshold, also where the first one was over long ago: relying
    // parties have to see a key before it signs.
    let publish_time = now.saturating_add(config.rotation_threshold / 2);
    let is_due = prepublish_due(active, config) <= now;
    is_due.then_some(KeyStep::Make {
        replaces,
        publish_time: Some(publish_time),
    })
}

/// The longest life of an identity that a specification of the state asks for: one that was signed
/// just before its key became inactive is valid for as long.
fn longest_ttl(snapshot: &Snapshot) -> Duration {
    let ttl = |task: &Task| {
        let identities = task.identity.iter().chain(&task.identities);
        identities.map(|identity| identity.ttl).max()
    };
    let of_job = |job: &Job| {
        let tasks = job.task_groups.iter().flat_map(|group| &group.tasks);
        tasks.filter_map(ttl).max()
    };
    let specs = snapshot.specs().filter_map(|job| of_job(job));
    specs.max().unwrap_or_default()
}
