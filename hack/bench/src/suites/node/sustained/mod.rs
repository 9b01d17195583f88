//! Part `sustained`: tasks are started and stopped for a minute, at keeper and through noded, and
//! nothing may be left of them.

mod at_keeper;
mod through_noded;

use std::time::Duration;

use anyhow::Context;

use crate::Bench;
use crate::row::Row;

/// See the top of this file.
///
/// # Errors
/// A task fails, or something cannot be counted.
pub(super) fn measure(bench: &Bench, span: Duration, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    at_keeper::measure(bench, span, rows).context("at keeper")?;
    through_noded::measure(bench, span, rows).context("through noded")
}
