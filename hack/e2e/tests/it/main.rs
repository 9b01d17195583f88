//! Real processes on this host: what users see when servers and nodes are killed.

mod bad_input;
mod burst;
mod faults;
mod fleet;
mod forwarding;
mod networks;
mod node_facts;
mod node_faults;
mod node_tasks;
mod real_jobs;
mod restore;
mod running;
mod single;
mod snapshots;
mod successors;
