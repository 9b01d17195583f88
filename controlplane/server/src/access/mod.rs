//! Access control: the caller of a request, and the rights that it has.
//!
//! ```text
//!  headers ─► Credential ─► resolve (on a snapshot) ─► Asker{caller, rights} ─► Need::judge
//!                                │                                                │
//!                                └─ Rejected (403)                  403 | 404 ────┴──► Granted
//!
//!  a write: ProposeRequest{command, asker{caller, requirements}} ─► leader: recheck ─► log
//! ```
//!
//! A request is counted ([`measure`]) and charged ([`budgets`]) once its caller is found.
//!
//! A caller belongs to one request, never to a connection. [`resolve`] finds it on a snapshot of
//! the state, each time anew; caches hold callers and compiled rights, under what they were found
//! in: a state in which a token, a policy or a role changed has another index.

mod asker;
pub(crate) mod audit;
mod budgets;
mod cache;
mod credential;
#[cfg(test)]
mod flood;
#[cfg(test)]
mod in_state;
mod known;
mod measure;
mod place;
mod policy_changes;
mod recheck;
mod resolve;
mod rights;
mod sender;
mod shared_barrier;
mod workload;

pub(crate) use asker::{Asker, Caller};
pub(crate) use budgets::OccupiedPlace;
pub(crate) use credential::{Credential, CredentialError, ShownIdentity};
pub(crate) use measure::Count;
pub use measure::Labels;
pub(crate) use place::FoundPlace;
pub(crate) use recheck::{Origin, Recheck, origin_from_wire};
pub(crate) use resolve::Access;
pub(crate) use resolve::Rejected;
pub(crate) use sender::Sender;
pub(crate) use shared_barrier::SharedBarrier;
pub(crate) use workload::Workload;
