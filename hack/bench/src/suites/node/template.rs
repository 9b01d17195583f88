//! Part `template`: a template of three functions, rendered by a child of its own.

use std::time::Instant;

use anyhow::{Context, ensure};
use noded_jail::{Render, Rendering};
use noded_template::{Known, MissingKey};

use super::{jail, milliseconds, quantile_rows};
use crate::Bench;
use crate::floor::{self, Quantiles};
use crate::row::Row;

/// From the start of the child to its end.
const GOAL_MS: f64 = 3.0;
/// Renderings that fill caches and are no sample.
const WARM_UP: usize = 10;
const TEXT: &str = "name = {{ env \"NAME\" | toUpper | base64Encode }}\n";
const RENDERED: &str = "name = RFJPVkVS\n";

/// See the top of this file.
///
/// # Errors
/// A child fails, or renders something else.
pub(super) fn measure(bench: &Bench, count: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- {count} templates, a child each");
    let floor = floor::spawn(&bench.scratch).context("measure the spawn floor")?;
    let program = bench.programs.join("noded-jail");
    let mut known = Known::default();
    known
        .environment
        .insert("NAME".to_owned(), "drover".to_owned());
    let work = Render {
        text: TEXT.to_owned(),
        left_delimiter: String::new(),
        right_delimiter: String::new(),
        missing_key: MissingKey::Zero,
        known,
    };
    let expected = Rendering::Rendered(RENDERED.to_owned());
    let mut samples = Vec::new();
    for number in 0..WARM_UP + count {
        let begun = Instant::now();
        let rendered = jail::run(&program, &work)?;
        let took = begun.elapsed();
        ensure!(rendered == expected, "the template became {rendered:?}");
        if number >= WARM_UP {
            samples.push(took);
        }
    }
    let quantiles = Quantiles::of(samples).context("no samples")?;
    let figure = "template of three functions, child included";
    let [p50, p99] = quantile_rows(figure, quantiles);
    let beside = |row: Row, floor| Row {
        floor_value: Some(milliseconds(floor)),
        ..row
    };
    rows.push(beside(p50, floor.p50).at_most(GOAL_MS));
    rows.push(beside(p99, floor.p99));
    Ok(())
}
