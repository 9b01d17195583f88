//! Rights without names of their own: agent, node, quota and operator know read and write.

/// A right on the agents, nodes, quotas or the operator's routes. Write includes read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Level {
    Read = 1,
    Write = 2,
}

impl Level {
    /// Both, in the order of their numbers.
    pub const ALL: &'static [Self] = &[Self::Read, Self::Write];

    /// Nomad's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Its number. Frozen: servers exchange it.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The level of a number; `None` for one that this release does not know.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            _ => None,
        }
    }
}

/// The rule of a policy for such an object. The larger of two wins: deny, write, read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LevelRule {
    Allow(Level),
    Deny,
}

impl LevelRule {
    /// The rule of a `policy = ".."`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Allow(Level::Read)),
            "write" => Some(Self::Allow(Level::Write)),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    /// Whether it allows `level`.
    pub fn allows(self, level: Level) -> bool {
        matches!(self, Self::Allow(allowed) if allowed >= level)
    }
}
