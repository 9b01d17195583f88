//! The state machine as its users see it.

mod acceptance;
mod access;
mod checkpoints;
mod children;
mod codec;
mod deployments;
mod drains;
mod eval_deletes;
mod gc;
mod harness;
mod jobs;
mod leases;
mod multiregion;
mod namespaces;
mod periodic;
mod plans;
mod pools;
mod random;
mod restores;
mod returns;
mod scaling;
mod sessions;
mod updates;
mod variables;
mod watch;
