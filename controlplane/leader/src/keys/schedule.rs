//! When root keys are rotated.
//!
//! ```text
//!  active since ──── half of the threshold ────► the next key is prepublished
//!               ──── the whole threshold ──────► the next key is active
//! ```

use std::time::Duration;

use controlplane_state::{RootKey, RootKeyState, Snapshot};
use protocol_model::UnixNanos;

/// The shortest pause between two looks.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// The life of root keys, as the operator wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootKeyConfig {
    /// The age at which the active key is replaced.
    pub rotation_threshold: Duration,
    /// The time between two looks at the keys.
    pub gc_interval: Duration,
    /// How long an inactive key that nothing needs is kept.
    pub gc_threshold: Duration,
}

/// The time since which a key is in its state.
pub(super) fn in_state_since(key: &RootKey) -> UnixNanos {
    match key.state_time.is_zero() {
        true => key.create_time,
        false => key.state_time,
    }
}

/// The prepublished key that becomes active first.
pub(super) fn first_prepublished(snapshot: &Snapshot) -> Option<&RootKey> {
    let keys = snapshot.root_keys().map(AsRef::as_ref);
    let prepublished = keys.filter(|key: &&RootKey| key.state == RootKeyState::Prepublished);
    prepublished.min_by_key(|key| (key.publish_time, key.number))
}

/// When the next key is prepublished, as long as none is.
pub(super) fn prepublish_due(active: &RootKey, config: RootKeyConfig) -> UnixNanos {
    in_state_since(active).saturating_add(config.rotation_threshold / 2)
}

/// When another key becomes active; `None` before the first one is made.
pub fn next_rotation(snapshot: &Snapshot, config: RootKeyConfig) -> Option<UnixNanos> {
    if let Some(first) = first_prepublished(snapshot) {
        return Some(first.publish_time);
    }
    let active = snapshot.active_root_key()?;
    Some(in_state_since(active).saturating_add(config.rotation_threshold))
}

/// The time until the keys are to be looked at again, if none changes before.
pub fn next_look(snapshot: &Snapshot, config: RootKeyConfig, now: UnixNanos) -> Duration {
    let active = snapshot.active_root_key();
    let due = match first_prepublished(snapshot) {
        Some(first) => Some(first.publish_time),
        None => active.map(|active| prepublish_due(active, config)),
    };
    let wait = due.map_or(config.gc_interval, |due| due.saturating_since(now));
    wait.min(config.gc_interval).max(LOOK_MIN)
}
