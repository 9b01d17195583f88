//! What the crate promises, through its public interface: plans as text, sandboxes for real.
//!
//! Tests that need root make a cgroup subtree of their own and leave nothing behind; without root
//! they say that they were skipped.

mod cgroups;
mod exec;
mod exec_into;
mod fixture;
mod frozen;
mod inherited;
mod plans;
mod propagation;
mod raw_exec;
mod reaper;
mod scratch;
