//! Clusters of real processes, for tests and for measurements: servers and nodes that are started,
//! killed and restarted.
//!
//! - [`Cluster`]: N `controlplane` processes on this host with mutual TLS between them, each with a
//!   directory, a log file and ports of its own. One is killed, asked to end, or started again by
//!   its number; dropping the cluster ends what it started and nothing else.
//! - [`Node`]: `noded` beside a cluster, with keeper, pump and tasks, all of which it takes with
//!   it.
//! - [`Net`]: namespaces for the servers and nodes of a cluster, whose ways to each other are cut,
//!   healed and slowed down.
//! - [`OwnNet`]: one namespace for this program and all that it starts, where single links are cut.
//! - [`Fleet`]: hundreds of simulated nodes with real sessions, from one process.
//! - [`Load`]: clients that register jobs through all servers without a pause, and the [`Ledger`]
//!   of what was acknowledged to them. [`Cluster::must_hold`] compares it with every server.
//! - [`eventually`]: the one way to wait: a question, asked until it is answered, with a deadline.
//! - [`procfs`]: what the kernel says of processes.
//! - [`binaries`]: where the programs under test are; they are built when they are missing.
//!
//! With `DROVER_E2E_KEEP=1` the files and logs of every cluster stay, and their place is printed.
//!
//! Programs are looked at from outside only: their files, their sockets, their signals.

pub mod binaries;
mod certificates;
mod cluster;
mod fleet;
mod leavings;
mod load;
mod net;
mod node;
mod ports;
mod process;
pub mod procfs;
mod settings;
mod wait;

pub use cluster::{Cluster, client_of};
pub use fleet::Fleet;
pub use load::{Ledger, Load, job};
pub use net::{Net, OwnNet, Way};
pub use node::{Helper, Node};
pub use ports::Ports;
pub use process::{Daemon, Place};
pub use settings::Settings;
pub use wait::eventually;
