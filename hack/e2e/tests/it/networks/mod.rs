//! Servers and nodes in network namespaces of their own, whose ways to each other are cut, healed
//! and slowed down: what the simulator shows of sessions, shown once more with real processes.

mod handshake;
mod leases;
mod links;
mod partition;
mod scene;
mod shutdown;
