//! The job model against what real servers answer, and its rules one by one.

mod any_case;
mod canonical;
mod cron;
mod eval_filter;
mod fields;
mod fixtures;
mod properties;
mod references;
mod shapes;
mod spec_hash;
mod unhonoured;
mod validate;
