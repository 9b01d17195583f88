//! Fixtures for tests: a cluster's state in a few lines, and the jobs and nodes that go into it.
//!
//! [`World`] is a replicated state with a log of its own: every change goes through
//! `State::apply`, so a fixture can never be in a condition that a real cluster cannot reach, and
//! the invariants are checked after each. [`jobs`], [`nodes`] and [`allocs`] build ordinary ones to
//! be bent. [`HeldWay`] comes between a client and a server.
//! [`Provider`] is an OpenID provider, honest or hostile.

pub mod allocs;
mod held_way;
pub mod jobs;
pub mod nodes;
mod provider;
mod world;

pub use held_way::HeldWay;
pub use provider::{CLIENT_ID, CLIENT_SECRET, Misdeed, Provider, SentBack, now_s};
pub use world::World;
