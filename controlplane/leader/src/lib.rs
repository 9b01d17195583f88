//! What only the leader does, as pure parts: the shell's one loop tells them what happened and what
//! time it is, and carries out what they answer.
//!
//! - [`Leader`]: the parts together. `take_over` builds them from a snapshot; `on_applied` feeds
//!   them what the log applied; `poll_effect` answers what has to be done; `poll_timeout` when to
//!   come back.
//! - `part::LeaderPart`: what each part answers to; [`evaluations::Evaluations`] is the one that
//!   the scheduler's workers ask (`dequeue`, `ack`, `nack`).
//! - [`broker::EvalBroker`]: one evaluation per job at a time, by priority, at least once.
//! - [`blocked::BlockedEvals`]: those that found no room, until something that helps changes.
//! - [`in_flight::PlansInFlight`]: what plans that are being committed will take of the nodes.
//! - [`plan::check`]: a plan against the newest state, node by node. [`pieces::split`]: one that is
//!   too large for an entry.
//! - [`retry::in_vain`]: whether another look at a blocked evaluation found anything new.
//! - [`liveness::Liveness`]: which nodes are silent, in constant time.
//! - [`pace::Pace`]: how often each server, leader or not, lets its nodes send heartbeats.
//! - [`owed_syncs::OwedSyncs`]: which nodes owe their complete report for too long.
//! - [`windows::DisconnectWindows`]: which silent nodes nothing tolerates any more.
//! - [`unaccepted::PendingAllocs`]: which nodes do not accept what is placed on them.
//! - [`rollouts::Rollouts`]: which rollouts make no progress, and what they go back to.
//! - [`periodic::PeriodicLaunches`]: which periodic jobs are due.
//! - [`failed::failed`]: the end of one that fails, for the API too.
//! - [`drain::Drains`]: which allocations leave draining nodes next, and when a drain is over.
//! - [`expiries::Expiries`]: which access tokens and one-time tokens are removed.
//! - [`locks::Locks`]: which locks on variables expire, and which renewals count.
//! - [`keys`]: which root key is made, activated, emptied or removed next.
//! - [`tenure::Tenure`]: for how long nodes have had a leader to come back to.
//! - [`gc::collect`]: what is over for long enough to be forgotten.
//!
//! None of it is replicated: a new leader builds it anew from the state.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod blocked;
pub mod broker;
mod deadlines;
pub mod drain;
pub mod evaluations;
pub mod expiries;
pub mod failed;
pub mod false_positives;
pub mod gc;
pub mod in_flight;
pub mod keys;
mod leader;
pub mod liveness;
pub mod locks;
pub mod owed_syncs;
pub mod pace;
mod part;
pub mod periodic;
pub mod pieces;
pub mod plan;
pub mod retry;
pub mod rollouts;
pub mod tenure;
mod time;
pub mod unaccepted;
pub mod windows;

pub use leader::{Leader, LeaderConfig, Reading};
pub use part::Effect;
pub use time::Now;
