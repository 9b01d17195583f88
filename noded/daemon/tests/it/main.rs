//! Real QUIC, real processes: a node against a server that is scripted.

mod crashes;
mod disks;
mod fake_server;
mod keeper;
mod node;
mod scene;
mod upkeep;
