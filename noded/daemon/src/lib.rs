//! The node daemon: executes what `noded-core` decides, and tells it what happened.
//!
//! ```text
//!            inputs (one bounded channel)                effects, once the journal is far enough
//!   session --+                              +--> session    QUIC streams to one server
//!   keeper  --+--> shell { NodeCore } -------+--> executor   directories, sandboxes, keeper
//!   journal --+        (one task)            `--> journal    append here, sync on its own thread
//!   calls   --'
//! ```
//!
//! Entry points: [`config::Config::load`] reads `noded --config FILE`; [`daemon::run`] runs a node
//! until it is told to stop; [`custody::end`] ends
//! keeper and pump when nothing runs. Everything else is in between:
//!
//! - [`shell`] owns the core: the only task that decides.
//! - [`session`] carries one attempt at a session; a second connection, made when the server
//!   asks, brings [`calls`] (logs, files, exec, restart, signal, stats).
//! - [`executor`] does what an allocation needs, one effect at a time per allocation; [`drivers`]
//!   say how their tasks are run; [`keeper_link`] is its way to the process that owns the tasks.
//! - [`queries`] asks the server of the session; [`keys`] are the cluster's public keys.
//! - [`jail`] starts a confined child for each piece of work on foreign bytes (templates).
//! - The loop knows these three as [`session::Outside`], [`hands::Hands`] and [`journal::Records`]:
//!   a process that simulates many nodes has others.
//! - [`journal`] is what survives; [`identity`] who we are; [`fingerprint`] what the host is.
//! - [`alloc_dir`] reaches files of tasks by descriptor only; [`file_io`] reads them on a thread
//!   with io_uring, or plainly where the host refuses that.
//!
//! Stopping, killing or upgrading noded touches no task: keeper and pump are processes of their
//! own.

pub mod alloc_dir;
pub mod calls;
pub mod clock;
pub mod config;
pub mod custody;
pub mod daemon;
pub mod data_dir;
mod disk_watch;
pub mod drivers;
pub mod executor;
pub mod file_io;
mod file_watch;
pub mod fingerprint;
pub mod hands;
pub mod identities;
pub mod identity;
pub mod input;
pub mod jail;
pub mod journal;
pub mod keeper_events;
pub mod keeper_link;
pub mod keys;
mod lane;
mod leases;
pub mod metadata;
pub mod networks;
mod oom_watch;
pub mod os_signal;
mod poll_fd;
pub mod queries;
pub mod reach;
pub mod session;
pub mod shell;
pub mod task_api;
pub mod template;
mod template_watch;
pub mod upkeep;
mod variables;
