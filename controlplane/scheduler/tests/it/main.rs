//! Scenarios: a cluster, an evaluation, and what the scheduler makes of it.

mod canary;
mod concurrency;
mod drain;
mod ends;
mod explain;
mod multiregion;
mod oracle;
mod pace;
mod placement;
mod preemption;
mod property;
mod rollout;
mod scene;
mod service;
mod silence;
mod stopping;
mod system;
mod updates;
