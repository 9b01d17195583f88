//! Identifiers. Each kind is a type of its own, so that an evaluation's id cannot be used where an
//! allocation's is meant. Pure code never draws one: ids are arguments.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        // The order of the bytes, compared as one number: every lookup in every table is a dozen
        // of these, and comparing bytes is a call.
        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.as_u128().cmp(&other.0.as_u128())
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// The id whose bits are `bits`: for tests and seeded generators.
            pub const fn from_u128(bits: u128) -> Self {
                Self(Uuid::from_u128(bits))
            }

            /// The 16 bytes that travel on the wire.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The id in 16 wire bytes, or nothing where the length is wrong.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Uuid::from_slice(bytes).ok().map(Self)
            }

            /// The first eight characters, as people read and type them.
            pub fn short(&self) -> String {
                self.to_string()[..8].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0.as_hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A host that runs `noded`. Made once by the node and kept with its data.
    NodeId
);
uuid_id!(
    /// One placement of a task group on a node. Never reused, never moved.
    AllocId
);
uuid_id!(
    /// A request to look at one job again.
    EvalId
);
uuid_id!(
    /// A supervised rollout of one job version.
    DeploymentId
);
uuid_id!(
    /// One life of the cluster's state. Bootstrap and snapshot restore make a new one, so that a
    /// node can tell "older" from "another" (ARCHITECTURE.md, "Nodes never go back in time").
    Incarnation
);

/// The name of the namespace that a job is in when it names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A job's name within its namespace. Orders by namespace first, so that one namespace's jobs are
/// neighbours in every table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct JobKey {
    /// The namespace, `default` unless the job says otherwise.
    pub namespace: String,
    /// The job's id: what users call its name.
    pub id: String,
}

impl JobKey {
    /// The key of job `id` in `namespace`.
    pub fn new(namespace: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            id: id.into(),
        }
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.namespace)
    }
}

/// The identity of a job specification: the SHA-256 of its canonical form without the fields that
/// the control plane fills in. Purging and registering again starts at version 0, so a version is
/// no identity; this is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SpecHash(pub [u8; 32]);

impl SpecHash {
    /// The hash in 32 wire bytes, or nothing where the length is wrong.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpecHash({self})")
    }
}

impl FromStr for SpecHash {
    type Err = SpecHashError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(SpecHashError {
                text: text.to_owned(),
            });
        }
        for (offset, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[offset * 2..offset * 2 + 2], 16).map_err(|_| {
                SpecHashError {
                    text: text.to_owned(),
                }
            })?;
        }
        Ok(Self(bytes))
    }
}

/// A text that is no [`SpecHash`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a job specification hash (64 hexadecimal digits): {text:?}")]
pub struct SpecHashError {
    text: String,
}

impl Serialize for SpecHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpecHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_hash_survives_its_text_form() {
        let hash = SpecHash(std::array::from_fn(|offset| {
            u8::try_from(offset * 7).unwrap_or(0)
        }));
        assert_eq!(hash.to_string().parse(), Ok(hash));
        "zz".parse::<SpecHash>().expect_err("too short");
        "é".repeat(32).parse::<SpecHash>().expect_err("not ASCII");
    }

    #[test]
    fn short_ids_are_the_first_group() {
        let id = AllocId::from_u128(0x0123_4567_89ab_cdef_0000_0000_0000_0000);
        assert_eq!(id.short(), "01234567");
        assert_eq!(AllocId::from_slice(id.as_bytes()), Some(id));
        assert_eq!(AllocId::from_slice(&[1, 2]), None);
    }
}
