//! The rights that a policy can name: one enum per kind of object, and sets of them in one `u64`.
//!
//! A family of capabilities is data: names, numbers, levels and implications. The number of a
//! capability is its bit in a set. Servers of different releases exchange the numbers, so one that
//! was used is never given to another capability.

mod families;
mod level;
mod namespace;
mod set;

pub use self::families::{
    HostVolumeCapability, NodePoolCapability, OperatorCapability, PluginCapability,
    SentinelCapability, VariableCapability,
};
pub use self::level::{Level, LevelRule};
pub use self::namespace::{NamespaceCapabilities, NamespaceCapability};
pub use self::set::CapabilitySet;

use std::fmt;

/// The capabilities of one kind of object.
pub trait Capability: Copy + Ord + fmt::Debug + 'static {
    /// All of them, in the order of their numbers.
    const ALL: &'static [Self];

    /// The capability that takes all others away.
    const DENY: Self;

    /// The words of `policy = ".."` and the capabilities that each stands for.
    const LEVELS: &'static [(&'static str, &'static [Self])];

    /// Capabilities that bring others along.
    const IMPLIED: &'static [(Self, &'static [Self])] = &[];

    /// Its number, below 64: the bit in a [`CapabilitySet`]. Frozen.
    fn id(self) -> u8;

    /// Nomad's spelling.
    fn name(self) -> &'static str;

    /// The capability of a number; `None` for one that this release does not know.
    fn from_id(id: u8) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|capability| capability.id() == id)
    }

    /// The capability of a name, exactly as Nomad spells it.
    fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|capability| capability.name() == name)
    }
}

/// Declares the enum of one family: variant, number, name.
macro_rules! capabilities {
    (
        $(#[$about:meta])*
        $family:ident { $($(#[$doc:meta])* $variant:ident = $id:literal $name:literal,)+ }
        levels: $levels:expr;
        implied: $implied:expr;
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $family {
            $($(#[$doc])* #[doc = concat!("`", $name, "`")] $variant = $id,)+
        }

        impl $family {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Nomad's spelling.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Its number, below 64: the bit in a set. Frozen.
            pub const fn id(self) -> u8 {
                self as u8
            }

            /// The capability of a name, exactly as Nomad spells it.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl crate::capability::Capability for $family {
            const ALL: &'static [Self] = Self::ALL;
            const DENY: Self = Self::Deny;
            const LEVELS: &'static [(&'static str, &'static [Self])] = $levels;
            const IMPLIED: &'static [(Self, &'static [Self])] = $implied;

            fn id(self) -> u8 {
                self.id()
            }

            fn name(self) -> &'static str {
                self.name()
            }
        }

        impl std::fmt::Display for $family {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
use capabilities;
