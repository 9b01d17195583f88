//! The life of root keys: what the leader does with each of them next.
//!
//! ```text
//!  steps(state, config, now)
//!    ──► Make             half of the threshold passed, or 2^31 seals
//!    ──► Change           the publish time came, nothing is left to rekey, nothing needs the key
//!    ──► RekeyTokens, RekeyVariables, Resign, Rewrap
//! ```
//!
//! A pure function of the state: everything that a successor needs is in the log. A step concerns
//! one key, so that a key whose step fails stops no other one. `apply` judges each step again.

mod schedule;
mod steps;
#[cfg(test)]
mod tests;

pub use schedule::{RootKeyConfig, next_look, next_rotation};
pub use steps::{KeyStep, SEALS_MAX, next_resign, steps};
