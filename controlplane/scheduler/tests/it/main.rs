//! Scenarios: a cluster, an evaluation, and what the scheduler makes of it.

mod placement;
mod property;
mod rollout;
mod scene;
mod service;
mod silence;
mod system;
mod updates;
