//! Scenarios: a cluster, an evaluation, and what the scheduler makes of it.

mod canary;
mod claims;
mod concurrency;
mod drain;
mod ends;
mod explain;
mod multiregion;
mod oracle;
mod pace;
mod per_alloc;
mod placement;
mod pools;
mod preemption;
mod property;
mod rollout;
mod scene;
mod service;
mod silence;
mod sticky;
mod stopping;
mod system;
mod updates;
