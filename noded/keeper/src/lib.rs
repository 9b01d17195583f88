//! Custody of task processes and of their output: what must outlive noded.
//!
//! The binary `noded-keeper` runs as one of two processes, each at most once per host:
//!
//! - `noded-keeper keeper` ([`keeper::run`]) is the parent of every task. It spawns from plans,
//!   signals, enforces kill deadlines, reaps, and keeps every outcome until it is acknowledged. It
//!   listens on `<runtime>/keeper.sock` and speaks [`protocol`].
//! - `noded-keeper pump` ([`pump::run`]) reads every task's output from FIFOs in `<runtime>/io` and
//!   writes rotated log files.
//!
//! noded uses the client half: [`client::ensure_running`] and [`client::ensure_pump_running`] start
//! the two when they are missing, [`client::Connection`] carries requests and events,
//! [`io::create_streams`] and [`io::retire_streams_of`] tell pump what to read.
//!
//! Either process, and noded, may be killed at any moment: tasks do not notice. What each death
//! loses: nothing (noded), the exit status of tasks that end while no keeper is there (keeper), at
//! most one read buffer per stream (pump).
//!
//! Inputs: a runtime directory on a tmpfs, a cgroup v2 directory, packets, plans. Outputs: packets,
//! processes, log files, lines on stderr.

#[expect(
    unsafe_code,
    reason = "memory shared with the kernel, and calls without a safe form"
)]
mod sys;

pub mod client;
pub mod detach;
mod durable;
pub mod io;
pub mod keeper;
mod limits;
pub mod lock;
mod memfd;
pub mod paths;
pub mod protocol;
pub mod pump;
mod report;
mod seqpacket;
mod signals;
