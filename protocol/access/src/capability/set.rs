//! A set of capabilities of one family: one `u64`.

use std::fmt;
use std::marker::PhantomData;

use super::Capability;

/// A set of capabilities; bit n is the capability with number n.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilitySet<C> {
    bits: u64,
    family: PhantomData<C>,
}

impl<C: Capability> CapabilitySet<C> {
    /// The set without any.
    pub const EMPTY: Self = Self {
        bits: 0,
        family: PhantomData,
    };

    /// The set of these bits; bits of unknown capabilities are dropped.
    pub fn from_bits(bits: u64) -> Self {
        let known = Self::from(C::ALL);
        Self {
            bits: bits & known.bits,
            family: PhantomData,
        }
    }

    /// Bit n is the capability with number n.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The capabilities that a `policy = ".."` stands for; `None` for a word that the family does
    /// not have.
    pub fn of_level(word: &str) -> Option<Self> {
        let level = C::LEVELS.iter().find(|(name, _)| *name == word);
        level.map(|(_, capabilities)| Self::from(*capabilities))
    }

    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    pub fn contains(self, capability: C) -> bool {
        self.bits & (1 << capability.id()) != 0
    }

    /// Whether the capability that takes all others away is in the set.
    pub fn is_denied(self) -> bool {
        self.contains(C::DENY)
    }

    pub fn insert(&mut self, capability: C) {
        self.bits |= 1 << capability.id();
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            family: PhantomData,
        }
    }

    /// The rights that the set gives: implied capabilities are added, and deny leaves nothing but
    /// itself.
    #[must_use]
    pub fn effective(self) -> Self {
        if self.is_denied() {
            return Self::from([C::DENY].as_slice());
        }
        // The implied sets are closed: one pass is enough.
        C::IMPLIED
            .iter()
            .filter(|(capability, _)| self.contains(*capability))
            .fold(self, |set, (_, implied)| set.union(Self::from(*implied)))
    }

    /// The capabilities, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = C> {
        C::ALL.iter().copied().filter(move |c| self.contains(*c))
    }
}

impl<C: Capability> From<&[C]> for CapabilitySet<C> {
    fn from(capabilities: &[C]) -> Self {
        capabilities.iter().copied().collect()
    }
}

impl<C: Capability> FromIterator<C> for CapabilitySet<C> {
    fn from_iter<I: IntoIterator<Item = C>>(capabilities: I) -> Self {
        capabilities
            .into_iter()
            .fold(Self::EMPTY, |mut set, capability| {
                set.insert(capability);
                set
            })
    }
}

impl<C: Capability> Default for CapabilitySet<C> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<C: Capability> fmt::Debug for CapabilitySet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(C::name)).finish()
    }
}
