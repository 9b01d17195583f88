//! The words that every part of Drover shares: jobs, allocations, evaluations, deployments, nodes.
//!
//! There is one definition per domain type. Its serde form is the shape of Nomad's `/v1` JSON API
//! (capitalised keys, integer nanoseconds, `null` for empty lists), so that a user's job files,
//! clients and dashboards carry over; inside the program the same type is used as it is.
//!
//! - [`Job`] and what is inside it: what a user wants to run. `canonicalize` fills in defaults,
//!   `validate` lists every mistake at once, `unhonoured` names what this release does not do yet.
//! - [`Allocation`], [`Evaluation`], [`Deployment`], [`Node`]: what the cluster makes of it.
//! - [`ids`]: a type per kind of identifier; [`UnixNanos`]: time as data.
//! - [`filter`]: which items of a list an expression chooses.
//! - [`json`]: how documents of users are read: the keys of structures match in any case.
//!
//! Nothing here reads a clock, draws an id, or does I/O.

// The runtime part: what the cluster makes of a job.
mod alloc;
mod auth_method;
mod binding_rule;
mod deployment;
mod eval;
mod file_info;
pub mod filter;
mod foreign_alloc;
pub mod ids;
mod instant;
pub mod json;
mod metrics;
mod node;
pub mod optional_id;
mod session;
mod shown_states;
mod task_state;

pub use alloc::*;
pub use auth_method::*;
pub use binding_rule::*;
pub use deployment::*;
pub use eval::*;
pub use file_info::FileInfo;
pub use foreign_alloc::ForeignAlloc;
pub use ids::{
    AllocId, DEFAULT_NAMESPACE, DeploymentId, EvalId, Incarnation, JobKey, NodeId, SpecHash,
};
pub use instant::{UnixNanos, format_rfc3339, rfc3339, rfc3339_always};
pub use metrics::{AllocMetric, ExhaustedResources, NodeScoreMeta};
pub use node::*;
pub use session::{DaemonLife, SessionEpoch};
pub use shown_states::ShownTaskStates;
pub use task_state::{TASK_EVENTS_MAX, TaskEvent, TaskEventKind, TaskRunState, TaskState};

// The job part: what a user wants to run.
mod action;
mod artifact;
pub mod canonical;
mod choice;
mod connect;
pub mod cron;
mod device;
pub mod duration;
mod gateway;
mod group;
mod identity;
mod job;
mod lifecycle;
mod logs;
mod multiregion;
mod network;
pub mod nullable;
mod parameterized;
pub mod pattern;
mod periodic;
mod placement;
mod policy;
mod reference;
mod resources;
mod scaling;
mod schedule;
mod secret;
mod service;
mod spec_hash;
mod submission;
mod task;
mod template;
mod unhonoured;
pub mod validate;
pub mod version;
mod volume;

pub use action::*;
pub use artifact::*;
pub use choice::UnknownChoice;
pub use connect::*;
pub use device::*;
pub use gateway::*;
pub use group::*;
pub use identity::*;
pub use job::*;
pub use lifecycle::*;
pub use logs::*;
pub use multiregion::*;
pub use network::*;
pub use parameterized::*;
pub use periodic::*;
pub use placement::*;
pub use policy::*;
pub use reference::*;
pub use resources::*;
pub use scaling::*;
pub use schedule::*;
pub use secret::*;
pub use service::*;
pub use submission::{JobSubmission, SUBMISSION_BYTES_MAX};
pub use task::*;
pub use template::*;
pub use unhonoured::{KNOWN_DRIVERS, Warning};
pub use validate::{ValidationError, ValidationErrors};
pub use volume::*;
