//! One keeper becomes the next without letting go of anything.
//!
//! ```text
//!   Upgrade + program   state in a sealed memfd       says yes
//!  ------------------> check: program --check-state ------------> execve, same process
//!                        |                                          |
//!                        | says no, anything else, or nothing       | state read: goes on
//!                        v                                          | state unusable:
//!                      refused: the old keeper goes on              v   recovery from records
//! ```
//!
//! The process stays the same one: the parent of its tasks, the holder of its lock, the listener on
//! its socket. Descriptors in the state are inherited, all others close at exec. SIGCHLD is blocked
//! from the first keeper's start on and stays so, and a task that ends in between waits to be
//! reaped.
//!
//! While a check runs the client is not read, so that what is handed over is what was checked but
//! for runs that ended.

mod check;
mod leave;
mod state;
mod take;

pub(super) use check::Check;
pub use check::check_state;
pub(super) use state::State;
#[cfg(test)]
pub(super) use state::{HeldState, LeaseState, LingeringState, RunState, SessionState};
pub(super) use take::inherit;
