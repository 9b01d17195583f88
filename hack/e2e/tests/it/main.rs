//! Real processes on this host: what users see when servers and nodes are killed, cut off from each
//! other, restarted and restored, alone and beside hundreds of simulated nodes.
//!
//! Tests alone: `hack-cluster` starts, stops and asks what they look at. They need the programs,
//! which `DROVER_BIN_DIR` names or which are built, and those with a node or a network need root.

mod access;
mod artifacts;
mod bad_input;
mod bridge;
mod burst;
mod canaries;
mod dispatches;
mod drains;
mod faults;
mod fleet;
mod forwarding;
mod go_client;
mod identities;
mod launches;
mod lifecycle;
mod locks;
mod networks;
mod node_facts;
mod node_faults;
mod node_pools;
mod node_tasks;
mod oidc_provider;
mod pages;
mod planted;
mod preemption;
mod python_client;
mod real_jobs;
mod renewals;
mod restore;
mod running;
mod single;
mod snapshots;
mod socket_client;
mod successors;
mod task_api;
mod task_api_restarts;
mod task_moves;
mod template_variables;
mod templates;
mod volumes;
