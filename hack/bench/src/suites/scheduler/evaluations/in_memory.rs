//! Pages of deletions applied in this process: the time that each keeps the log's thread busy.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use controlplane_state::command::{EVALS_PAGE_ROWS_MAX, EvalsDelete, EvalsPage};
use controlplane_state::{Command, EvalsDeleted, Outcome};

use super::{NAME, OPEN, filter};
use crate::floor::Quantiles;
use crate::row::Row;
use crate::suites::in_memory::{InMemory, cpu_time};

/// As a server: the time of one page, its first number of rows, and its smallest.
const PAGE_TIME: Duration = Duration::from_millis(3);
const ROWS_FIRST: u32 = 512;
const ROWS_MIN: u32 = 128;
/// Processor time of one entry, at the 99th percentile.
const GOAL_CPU_MS: f64 = 5.0;

/// Deletes all of `evals` open evaluations by a filter.
///
/// # Errors
/// If one stays.
pub(super) fn measure(
    mut cluster: InMemory,
    evals: u32,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let mut page = EvalsPage {
        filter: filter(OPEN),
        namespace: Some("default".to_owned()),
        after: None,
        up_to: cluster.index(),
        rows: ROWS_FIRST,
    };
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let mut deleted = 0;
    let begun = Instant::now();
    loop {
        // Readers hold the state before, as in a server: what is changed is copied first.
        let before = cluster.snapshot();
        let (used, page_begun) = (cpu_time()?, Instant::now());
        let done = delete(&mut cluster, &page)?;
        let took = page_begun.elapsed();
        cpu.push(cpu_time()?.saturating_sub(used));
        wall.push(took);
        drop(before);
        deleted += done.deleted;
        if done.next.is_none() {
            break;
        }
        page.after = done.next;
        let fitting = u128::from(page.rows) * PAGE_TIME.as_nanos() / took.as_nanos().max(1);
        let fitting = u32::try_from(fitting).unwrap_or(EVALS_PAGE_ROWS_MAX);
        page.rows = fitting.clamp(ROWS_MIN, EVALS_PAGE_ROWS_MAX);
    }
    let whole = begun.elapsed().as_secs_f64();
    ensure!(
        deleted == u64::from(evals),
        "{deleted} of {evals} are deleted"
    );
    let cpu = Quantiles::of(cpu).context("no page")?;
    let wall = Quantiles::of(wall).context("no page")?;
    let row = |what: &str, value: f64, unit| {
        let figure = format!("{evals} evaluations deleted, in memory{what}");
        Row::new(NAME, figure, value, unit)
    };
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    rows.push(row("", whole, "s"));
    let p99 = row(": processor of one entry, p99", millis(cpu.p99), "ms");
    rows.push(p99.at_most(GOAL_CPU_MS));
    rows.push(row(": longest entry", millis(wall.max), "ms"));
    Ok(())
}

fn delete(cluster: &mut InMemory, page: &EvalsPage) -> anyhow::Result<EvalsDeleted> {
    let command = Command::EvalsDelete(EvalsDelete::Page(page.clone()));
    match cluster.apply(command)? {
        Outcome::EvalsDeleted(done) => Ok(done),
        other => bail!("a deletion was answered with {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::scheduler::evaluations::{OVER, generated};

    #[test]
    fn every_generated_evaluation_is_deleted_and_timed() {
        let mut rows = Vec::new();
        measure(generated(2000, OPEN).unwrap(), 2000, &mut rows).unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.value > Some(0.0)), "{rows:?}");
        let others = generated(2000, OVER).unwrap();
        assert_eq!(others.snapshot().evals().count(), 2000);
        measure(others, 2000, &mut rows).unwrap_err();
    }
}
