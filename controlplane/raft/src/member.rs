//! Servers and their membership, as the rest of the control plane sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A server's identity. Made together with its data directory and never again: a server with an
/// emptied directory is a new server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerId(u64);

/// Why a text is no server id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a server id (16 hexadecimal digits, not all zero)")]
pub struct ServerIdError(String);

impl ServerId {
    /// A new, random id: half of a version 4 UUID, never zero.
    pub(crate) fn random() -> Self {
        loop {
            let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
            if high != 0 {
                return Self(high);
            }
        }
    }

    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ServerId {
    type Err = ServerIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = if digits {
            u64::from_str_radix(text, 16).unwrap_or(0)
        } else {
            0
        };
        if id == 0 {
            Err(ServerIdError(text.to_owned()))
        } else {
            Ok(Self(id))
        }
    }
}

/// How to reach a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The server's name, for people.
    pub name: String,
    /// `host:port` of its QUIC endpoint, as other servers reach it.
    pub address: String,
    /// `host:port` of its HTTP API, as clients reach it; empty when it has none.
    pub http_address: String,
}

impl fmt::Display for ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.address)
    }
}

/// The server that leads, as far as is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub id: ServerId,
    /// How to reach it; `None` when the membership that names it has not arrived here yet.
    pub info: Option<ServerInfo>,
}

/// Who belongs to the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// Servers that vote; during a change, those of the old and of the new configuration.
    pub voters: BTreeMap<ServerId, ServerInfo>,
    /// Servers that receive the log and do not vote.
    pub learners: BTreeMap<ServerId, ServerInfo>,
    /// Whether a change of the voters is under way (joint consensus).
    pub changing: bool,
    /// The index of the entry that set this membership; 0 before there is one.
    pub index: u64,
}

impl Membership {
    pub fn contains(&self, id: ServerId) -> bool {
        self.get(id).is_some()
    }

    pub fn get(&self, id: ServerId) -> Option<&ServerInfo> {
        self.voters.get(&id).or_else(|| self.learners.get(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = ServerId::random();
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn texts_that_are_no_id_are_refused() {
        for text in [
            "",
            "0000000000000000",
            "12",
            "xyz0000000000000",
            "+000000000000001",
        ] {
            assert!(text.parse::<ServerId>().is_err(), "{text}");
        }
    }
}
