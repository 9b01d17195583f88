//! The replicated state of a cluster: one pure state machine.
//!
//! - [`State::apply`] takes a log index and a [`Stamped`] command and returns an [`Applied`]: the
//!   [`Outcome`] that the proposer waits for and the [`Signal`]s that tell the leader's parts what
//!   changed. It is total: what cannot be done is refused with a [`Refusal`] and changes nothing.
//! - [`State::snapshot`] costs a few reference counts. A [`Snapshot`] is an immutable view; its
//!   methods are those of [`Tables`], and everything that reads the state reads it.
//! - [`session`]: the table of a node's relation to the control plane.
//! - [`fit`]: the one answer to "does it fit?", on rows of the [`NodeColumns`].
//! - [`watch`]: what a node is told of its allocations. [`news`]: what of its reports is new.
//! - [`Departure`]: how allocations leave a draining node.
//! - [`codec`]: commands and outcomes as bytes, for the log and for servers that forward.
//! - [`checkpoint`]: [`Tables::write_checkpoint`] and [`State::restore`]: the whole state as a
//!   stream. [`invariants`]: what must hold of every state.
//!
//! Nothing here reads a clock, draws an id, or does I/O. Time and the seed of ids come with the
//! command; equal logs make equal states.

mod access;
mod applied;
mod apply;
pub mod checkpoint;
mod claims;
mod class;
pub mod codec;
mod columns;
pub mod command;
mod drain;
pub mod fit;
pub mod invariants;
mod names;
mod namespace;
pub mod news;
mod node_pool;
mod prefix;
mod read;
mod record;
mod restore;
pub mod session;
mod snapshot;
mod state;
mod tables;
mod usage;
mod variable;
pub mod watch;

pub use access::*;
pub use applied::*;
pub use apply::{
    EvalsFound, HelloAnswer, LeaseEnd, WindowEnd, covers, datacenter_matches, left_a_gap,
};
pub use claims::{Claims, HostPorts, Numbers, Sorted};
pub use class::computed_class;
pub use columns::{NodeColumns, NodeRow, Readiness};
pub use command::{COMMAND_LEVEL, Command, Stamped};
pub use drain::Departure;
pub use names::NameId;
pub use namespace::{NAMESPACE_NAME_LEN_MAX, Namespace, NamespaceCapabilities, NamespaceNodePools};
pub use node_pool::{NodePool, POOL_ALL, POOL_DEFAULT, POOL_NAME_LEN_MAX, PoolScheduler};
pub use prefix::IdPrefix;
pub use protocol_wire::v1::{ItemResult, UpdateClass};
pub use record::*;
pub use restore::{
    ClientTokens, PendingRestore, RESTORE_BYTES_MAX, RESTORE_CHUNK_BYTES_MAX, RESTORE_SILENCE,
};
pub use snapshot::Snapshot;
pub use state::State;
pub use tables::{Children, EvalSlot, KeptPolicies, Table, Tables, VariableTally};
pub use usage::{Capacity, FixedCapacity, MAX_DYNAMIC_PORT, MIN_DYNAMIC_PORT, Usage};
pub use variable::*;
