//! Root keys of a run: how they age, and what operators and users want of them.

use std::time::Duration;

use controlplane_leader::keys::RootKeyConfig;

use crate::rng::Rng;

/// Variables that are written.
pub const VARIABLES: u32 = 8;
/// The longest time to a publish time.
const PUBLISH_S_MAX: u64 = 8;

/// A wish about keys, or about a value that they seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyWish {
    /// Write a variable.
    Write { variable: u32, value: u32 },
    /// Delete a variable.
    Delete { variable: u32 },
    /// Another key becomes active; with `full` values of variables move to it.
    Rotate { full: bool },
    /// Another key becomes active later.
    Prepublish { after: Duration },
    /// Remove one of the keys, also a used one where that is forced.
    Remove { pick: u32, force: bool },
}

/// The life of keys in a run: in one of two a rotation by age comes every few seconds.
pub fn config(rng: &mut Rng) -> RootKeyConfig {
    let age = if rng.chance(500) { 30 } else { 3_600 };
    RootKeyConfig {
        rotation_threshold: Duration::from_secs(age),
        gc_interval: Duration::from_secs(5),
        gc_threshold: Duration::from_secs(rng.between(1, 6)),
    }
}

pub(super) fn wish(rng: &mut Rng) -> KeyWish {
    let small = |below: u64, rng: &mut Rng| u32::try_from(rng.below(below)).unwrap_or(0);
    match rng.below(20) {
        0..=9 => KeyWish::Write {
            variable: small(VARIABLES.into(), rng),
            value: small(u32::MAX.into(), rng),
        },
        10 => KeyWish::Delete {
            variable: small(VARIABLES.into(), rng),
        },
        11..=15 => KeyWish::Rotate {
            full: rng.chance(600),
        },
        16 => KeyWish::Prepublish {
            after: Duration::from_secs(rng.between(1, PUBLISH_S_MAX)),
        },
        _ => KeyWish::Remove {
            pick: small(16, rng),
            force: rng.chance(700),
        },
    }
}
