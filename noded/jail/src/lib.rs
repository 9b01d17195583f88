//! One piece of work on foreign bytes per process, confined before it reads the first of them.
//!
//! noded starts `noded-jail VERB` and exchanges [`frame`]s with it:
//!
//! ```text
//!  noded                         noded-jail VERB
//!    | -- descriptor 0: request --> | reads it, then confines itself, then works
//!    | <-- descriptor 1: Progress - | at most 4 a second
//!    | <-- descriptor 1: Done ----- | or Failed, or Refused; then it exits
//!    |     descriptor 2: text for people, used where it dies without an answer
//! ```
//!
//! A hang-up of descriptor 0 means that noded is gone: the child kills itself. The kernel kills it
//! too, when the thread that started it ends. A child that starts programs is the first process of
//! a process id namespace, so that they end with it.
//!
//! Entry points:
//!
//! - [`Work`] is implemented by the request of each [`Verb`]: [`Render`], [`Fetch`].
//! - [`serve`] is the child: request, [`confine`], work, answer.
//! - [`frame`] and [`Report`] are the bytes that both sides exchange. They have a version; noded
//!   executes the program that it opened when it started, so both are of one build.
//!
//! Limits: [`Verb::limits`]. The caller keeps the deadline and the number of children.

pub mod confine;
mod fetch;
pub mod frame;
mod hang_up;
mod render;
mod report;
mod serve;
mod verb;

pub use fetch::{Fetch, FetchFailure, fetch};
pub use render::{Render, Rendering, render};
pub use report::{PROGRESS_PAUSE, Progress, Report};
pub use serve::{ServeError, serve};
pub use verb::{Programs, UnknownVerb, Verb, VerbLimits, Work};
