//! Thousands of nodes in one process, with real QUIC sessions to a real control plane.
//!
//! ```text
//!   Fleet --> Node 1..N:  noded-core, noded's loop and its sessions     (as in the daemon)
//!               |- hands    an imitation of tasks: nothing runs, everything is told in time
//!               |- records  a journal in memory
//!               `- outside  a UDP socket for each fifty of them
//!                             net: what one node says and hears can be cut off, and the weather
//!                             on the way of all be bad
//! ```
//!
//! What a server sees of a simulated node is what it sees of a real one: Hello, the complete
//! report, heartbeats, the watch, batches, the second connection. What a node decides is decided
//! by the same code. Not imitated: files, logs, calls of operators (they are refused), keeper's own
//! deadlines of leases.
//!
//! - [`fleet::Fleet`]: all nodes; starts them, cuts them off, heals.
//! - [`control`]: the commands of the binary, one a line, answered with one JSON object a line.
//! - [`stats`]: what is answered: how many nodes are where, how long it took them, what it costs.
//! - [`handshakes`]: bare QUIC handshakes, the floor beside reconnects.

pub mod args;
pub mod control;
mod draws;
pub mod facts;
pub mod fleet;
pub mod hands;
pub mod handshakes;
pub mod net;
pub mod node;
pub mod outside;
pub mod progress;
pub mod records;
pub mod stats;
pub mod tasks;
