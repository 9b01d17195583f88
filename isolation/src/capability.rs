//! Sets of capabilities: one bit each, as capset(2) takes them, with names for people.

use std::fmt;

use caps::Capability;
use serde::{Deserialize, Serialize};

/// A set of Linux capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapabilitySet(u64);

/// A name that is no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability {name:?}")]
pub struct UnknownCapability {
    /// The name as it was given.
    pub name: String,
}

impl CapabilitySet {
    /// No capability at all.
    pub const EMPTY: Self = Self(0);

    /// What a task of the exec driver keeps unless its job or the operator says otherwise: the
    /// default of Nomad's `allow_caps`.
    pub const TASK_DEFAULT: Self = Self::EMPTY
        .with(Capability::CAP_AUDIT_WRITE)
        .with(Capability::CAP_CHOWN)
        .with(Capability::CAP_DAC_OVERRIDE)
        .with(Capability::CAP_FOWNER)
        .with(Capability::CAP_FSETID)
        .with(Capability::CAP_KILL)
        .with(Capability::CAP_MKNOD)
        .with(Capability::CAP_NET_BIND_SERVICE)
        .with(Capability::CAP_SETFCAP)
        .with(Capability::CAP_SETGID)
        .with(Capability::CAP_SETPCAP)
        .with(Capability::CAP_SETUID)
        .with(Capability::CAP_SYS_CHROOT);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | 1 << capability as u8)
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, capability: Capability) -> Self {
        Self(self.0 & !(1 << capability as u8))
    }

    /// Those in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those here that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `capability` is in it.
    #[must_use]
    pub const fn contains(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }

    /// One bit per capability, as in `/proc/PID/status`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A set from names as job files write them: `net_raw`, `NET_RAW` and `CAP_NET_RAW` are the
    /// same; `all` is every capability known here.
    ///
    /// # Errors
    /// The first name that is none.
    pub fn from_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownCapability> {
        let mut set = Self::EMPTY;
        for name in names {
            let upper = name.to_ascii_uppercase();
            if upper == "ALL" {
                set = set.union(caps::all().into_iter().collect());
                continue;
            }
            let full = if upper.starts_with("CAP_") {
                upper
            } else {
                format!("CAP_{upper}")
            };
            let capability = full.parse::<Capability>().map_err(|_| UnknownCapability {
                name: name.to_owned(),
            })?;
            set = set.with(capability);
        }
        Ok(set)
    }

    /// What this process could hand on at most: its bounding set.
    ///
    /// # Errors
    /// The kernel's answer could not be read.
    pub fn bounding() -> Result<Self, caps::errors::CapsError> {
        Ok(caps::read(None, caps::CapSet::Bounding)?
            .into_iter()
            .collect())
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// Names in order of their bits, without the prefix: `chown, kill`.
impl fmt::Display for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<Capability> = caps::all().into_iter().collect();
        all.sort_by_key(Capability::index);
        let names: Vec<String> = all
            .into_iter()
            .filter(|capability| self.contains(*capability))
            .map(|capability| {
                capability
                    .to_string()
                    .trim_start_matches("CAP_")
                    .to_ascii_lowercase()
            })
            .collect();
        if names.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_a_task_has_thirteen_and_prints_their_names() {
        assert_eq!(CapabilitySet::TASK_DEFAULT.bits().count_ones(), 13);
        assert_eq!(
            CapabilitySet::TASK_DEFAULT.to_string(),
            "chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, \
             net_bind_service, sys_chroot, mknod, audit_write, setfcap"
        );
        assert_eq!(CapabilitySet::EMPTY.to_string(), "none");
    }

    #[test]
    fn names_are_read_with_and_without_prefix_in_any_case() {
        let set = CapabilitySet::from_names(["net_raw", "CAP_KILL", "Chown"]);
        assert_eq!(
            set.map(|set| set.to_string()),
            Ok("chown, kill, net_raw".to_owned())
        );
        let all = CapabilitySet::from_names(["all"]).map(|set| set.contains(Capability::CAP_BPF));
        assert_eq!(all, Ok(true));
    }

    #[test]
    fn an_unknown_name_is_named_in_the_error() {
        let error = CapabilitySet::from_names(["kill", "fly"]);
        assert_eq!(
            error,
            Err(UnknownCapability {
                name: "fly".to_owned()
            })
        );
    }
}
