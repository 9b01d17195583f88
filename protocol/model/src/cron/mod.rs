//! Launch times of periodic jobs: cron expressions in the civil time of a zone.
//!
//! ```text
//!  PeriodicConfig ──► Schedule ──► next(after)            first launch after a time
//!                     zone         newest(after, until)   last launch that was missed
//!                     expressions
//! ```
//!
//! An expression matches civil times; the zone maps them. A civil time that a clock change skips
//! has no launch, one that the change repeats has two. The time zone database is built in, so that
//! all servers agree.

mod expression;
mod fields;
mod schedule;

pub(crate) use expression::Expression;
pub use expression::{EXPRESSION_BYTES_MAX, ExpressionError};
pub(crate) use schedule::zone;
pub use schedule::{
    EXPRESSIONS_MAX, SEARCH_STEPS_MAX, SEARCH_YEARS_MAX, Schedule, ScheduleError, UnknownZone,
};
