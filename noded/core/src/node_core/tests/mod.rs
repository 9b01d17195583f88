//! The whole core against a fake host and a fake control plane.

mod anything;
mod boots;
mod collects;
mod crashes;
mod fake_host;
mod groups;
mod hooks;
mod leases;
mod lost_specs;
mod predecessors;
mod restores;
mod runs;
mod session;
