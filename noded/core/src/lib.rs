//! The node's decisions: what a host runs, when it restarts it, what it reports. No clock, no
//! randomness, no I/O: the daemon (the shell) does what this crate asks for and tells what
//! happened.
//!
//! ```text
//!              Event, now                           Issued { needs, effect }
//!   shell ------------------->  NodeCore  ------------------------------------>  shell
//!   (QUIC, keeper, files)        |- Session        hello, sync, heartbeats    (executes,
//!                                |- AllocSet       the watch: what is wanted      journals)
//!                                |- AllocRunner    one per allocation
//!                                |    |- Lifecycle    which tasks may run
//!                                |    `- TaskRunner   one per task
//!                                `- UpdateBatcher  reports, urgent first
//! ```
//!
//! The daemon's loop:
//!
//! 1. At the start read the journal ([`journal::decode`], [`journal::replay`]), ask keeper for its
//!    list, and make a [`NodeCore`] with both. `NodeCore::journal_snapshot` gives the records for a
//!    fresh journal.
//! 2. Turn whatever arrives into an [`Event`] and call `NodeCore::on_event`; call
//!    `NodeCore::on_timeout` when `NodeCore::poll_timeout` has come. Commands of operators
//!    (`restart`, `signal`) are methods that say at once whether they make sense.
//! 3. After every call drain `NodeCore::poll_effect`: see [`effect`] for the order and for what
//!    must be durable first.
//!
//! Time is two clocks in one argument, [`Now`], always last. Everything is deterministic: the same
//! settings, events and times give the same effects.
//!
//! What the core promises whatever the shell does: of one task no two runs are live at once; an
//! exit of an earlier run changes nothing; a task that finished never runs again after a restart of
//! the daemon; nothing is asked for a task that is dead; a stop that was acknowledged is in the
//! journal.

pub mod alloc_resources;
pub mod alloc_runner;
pub mod alloc_set;
pub mod alloc_spec;
pub mod driver;
pub mod effect;
pub mod env;
pub mod event;
pub mod identities;
pub mod journal;
pub mod key;
pub mod lanes;
pub mod lifecycle;
pub mod metadata;
pub mod node_core;
mod outbox;
mod pseudo_random;
pub mod session;
pub mod settings;
pub mod task_api;
pub mod task_runner;
#[cfg(test)]
mod test_support;
pub mod time;
pub mod update_batcher;

pub use alloc_resources::AllocResources;
pub use alloc_spec::AllocSpec;
pub use effect::{Durability, Effect, Issued};
pub use event::Event;
pub use key::{BootId, RunEpoch, RunKey, SessionEpoch, Watermark};
pub use node_core::{DiskRelief, NodeCore, NotCollected};
pub use settings::Settings;
pub use time::{Moment, Now};
