//! Real processes on this host: what users see when servers and nodes are killed.

mod bad_input;
mod faults;
mod forwarding;
mod single;
mod snapshots;
