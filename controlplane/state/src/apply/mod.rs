//! The transitions. Each works on a [`Draft`] that shares everything with the state; the state
//! takes the draft over when the transition succeeded, and drops it otherwise.

mod acceptance;
mod access;
mod allocs;
mod children;
mod cluster;
mod deployments;
mod draft;
mod drain;
mod eval_delete;
mod evals;
mod gc;
mod jobs;
mod lease;
mod liveness;
mod multiregion;
mod namespaces;
mod node_evals;
mod nodes;
mod periodic;
mod plan;
mod pools;
mod reports;
mod restore;
mod scale;
mod sessions;
mod tags;
mod variables;

pub(crate) use draft::{Draft, job_status};
pub use eval_delete::EvalsFound;
pub use gc::left_a_gap;
pub use lease::LeaseEnd;
pub use liveness::WindowEnd;
pub use node_evals::{covers, datacenter_matches};
pub(crate) use nodes::take_facts;
pub use sessions::HelloAnswer;
