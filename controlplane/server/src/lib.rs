//! One server of the control plane: the shell around the pure parts.
//!
//! - [`Server::start`] puts one together: the replicated log, the gateway for nodes, the leader's
//!   loop, the HTTP API, on one QUIC socket and one TCP listener.
//! - [`cluster::Cluster`]: the handle that everything else uses. `change` proposes a command here
//!   or through the leader, `snapshot` and `consistent` read.
//! - [`machine`]: the state behind the log, and the hub that tells what was applied.
//! - [`leading`]: the loop that owns the pure leader parts while this server leads; scheduler
//!   threads; the plan queue.
//! - [`gateway`]: sessions with nodes, watches, updates, liveness, calls.
//! - [`forward`]: what other servers ask of this one.
//! - `keyring`: KEKs and unwrapped root keys, kept up with the state and the other servers.
//! - [`login`]: tokens for credentials of identity providers.
//! - [`http`]: the API. [`config`]: what a server is built from. [`certificates`]: what it shows.
//!
//! Tasks: the accept loop (and one per connection and stream), the liveness reporter, the update
//! coalescer, the leader's loop, the keyring, the HTTP accept loop, those that look at the
//! certificate, the others' releases and our membership; the end of any of these is the end of the
//! server (`loops`).
//! Threads: the schedulers, while leading.

mod accept;
mod access;
pub mod certificates;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod data_dir;
pub mod dev;
pub mod dev_acl;
mod differences;
pub mod forward;
pub mod gateway;
pub mod http;
mod keyring;
pub mod leading;
pub mod logging;
pub mod login;
mod loops;
pub mod machine;
pub mod membership;
mod planted;
mod restoring;
mod server;
pub mod threads;
mod tls;
mod versions;

pub use controlplane_keyring::{KekStore, MemoryKeks};
pub use planted::PlantedBug;
pub use server::{Ground, Server};
