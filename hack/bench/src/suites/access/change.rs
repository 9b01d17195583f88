//! The first read after another policy was written: the server finds the token's policies anew and
//! sees that its rights are the same. The same read with a management token, which has no
//! policies, is the rest of it.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::NAME;
use super::scene::{JOB_PATH, Scene, put_policy};
use crate::floor::Quantiles;
use crate::http::{Ask as _, Http};
use crate::row::Row;

const GOAL_US: f64 = 50.0;

/// See the top of this file.
///
/// # Errors
/// If the server refuses a call.
pub(super) fn measure(scene: &Scene, lasts: Duration, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- reads after a change of another policy");
    let writer = scene.servers.http()?;
    let manager = scene.servers.http()?;
    let secret = scene.secrets.first().cloned();
    let client = Http::of(scene.servers.client(0)?.with_token(secret))?;
    let (mut first, mut first_of_manager, mut next) = (Vec::new(), Vec::new(), Vec::new());
    let begun = Instant::now();
    let mut number = 0;
    while first.is_empty() || begun.elapsed() < lasts * 2 {
        for reader in [&client, &manager] {
            number += 1;
            let rules = format!("namespace \"unrelated-{number}\" {{\n  policy = \"read\"\n}}\n");
            put_policy(&writer, "unrelated", &rules)?;
            let (after_change, again) = (timed(reader)?, timed(reader)?);
            if std::ptr::eq(reader, &raw const client) {
                first.push(after_change);
                next.push(again);
            } else {
                first_of_manager.push(after_change);
            }
        }
    }
    let micros = |samples| {
        let quantiles = Quantiles::of(samples).context("no reads")?;
        anyhow::Ok(quantiles.p50.as_secs_f64() * 1e6)
    };
    let (first, rest, next) = (micros(first)?, micros(first_of_manager)?, micros(next)?);
    let policies = scene.policies;
    let figure = |what: &str| format!("a token with {policies} policies: {what}");
    let longer = figure("after an unrelated change, longer than a management token");
    rows.extend([
        Row {
            floor_value: Some(next),
            ..Row::new(
                NAME,
                figure("first read after an unrelated change"),
                first,
                "us",
            )
        },
        Row::new(NAME, longer, first - rest, "us").at_most(GOAL_US),
    ]);
    Ok(())
}

fn timed(reader: &Http) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    reader.get(JOB_PATH)?;
    Ok(begun.elapsed())
}
