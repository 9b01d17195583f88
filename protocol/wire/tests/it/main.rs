//! The messages as peers of another release see them.

mod conversions;
mod golden;
mod samples;
