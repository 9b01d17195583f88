//! The level of task identity: variables, their locks, and workload identities.

/// The level of the first release that reads these commands.
pub const IDENTITY_LEVEL: u32 = 4;
