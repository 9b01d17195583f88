//! Filling in what a job file leaves out.

pub mod defaults;
