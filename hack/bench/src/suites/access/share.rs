//! The share of access control in `GET /v1/job/:id` at full rate: the processor time of a server
//! with it and of one without, in rounds that alternate.

use std::time::Duration;

use anyhow::Context;
use hack_cluster::Cluster;
use hack_cluster::procfs::cpu;

use super::NAME;
use super::scene::{Scene, bare};
use crate::Bench;
use crate::fleet::look;
use crate::http::{Ask as _, wait};
use crate::row::Row;
use crate::suites::load::{Load, Requests, Share};

const ROUNDS: usize = 5;
const CONNECTIONS: usize = 16;
/// Of the processor time of a request.
const GOAL_PERCENT: f64 = 3.0;

/// One server under load.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Requests in a second.
    rate: f64,
    /// Processor time of the server for one request, in microseconds.
    micros: f64,
}

/// See the top of this file.
///
/// # Errors
/// If a server fails, or a read is refused.
pub(super) fn measure(
    bench: &Bench,
    scene: &Scene,
    lasts: Duration,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    eprintln!("-- {ROUNDS} rounds of reads with and without access control");
    let open = wait(Cluster::start(bench.settings(1)))?;
    open.http()?.put("/v1/jobs", &look::service("web", 1))?;
    let load = Load {
        connections: CONNECTIONS,
        depth: 1,
        rate: None,
        lasts,
        share: Share::All,
    };
    let reads = scene.reads();
    // Both have answered all tokens before they are measured.
    for servers in [&scene.servers, &open] {
        let short = Duration::from_millis(500);
        sample(
            servers,
            Load {
                lasts: short,
                ..load
            },
            &reads,
        )?;
    }
    let floor = sample(&open, load, &bare())?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // A host that gets slower or faster meanwhile favours neither.
        if round % 2 == 0 {
            with.push(sample(&scene.servers, load, &reads)?);
            without.push(sample(&open, load, &reads)?);
        } else {
            without.push(sample(&open, load, &reads)?);
            with.push(sample(&scene.servers, load, &reads)?);
        }
    }
    let shares = with.iter().zip(&without);
    let shares = shares.map(|(with, without)| share_percent(*with, *without));
    let share = median(shares.collect()).context("no rounds")?;
    let figure = |what: &str| format!("GET /v1/job/:id at full rate: {what}");
    for (samples, what) in [
        (&with, "with access control"),
        (&without, "without access control"),
    ] {
        let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field).collect());
        let rate = of(|it| it.rate).context("no rounds")?;
        let micros = of(|it| it.micros).context("no rounds")?;
        rows.push(Row {
            floor_value: Some(floor.rate),
            ..Row::new(NAME, figure(&format!("{what}, requests")), rate, "/s")
        });
        rows.push(Row {
            floor_value: Some(floor.micros),
            ..Row::new(
                NAME,
                figure(&format!("{what}, processor time")),
                micros,
                "us",
            )
        });
    }
    let row = Row::new(NAME, figure("share of access control"), share, "%");
    rows.push(row.at_most(GOAL_PERCENT));
    Ok(())
}

fn sample(servers: &Cluster, load: Load, requests: &Requests) -> anyhow::Result<Sample> {
    let server = servers.id(0)?;
    let before = cpu(server)?;
    let answers = load.run(servers.ports(0).http, requests)?;
    let spent = cpu(server)?.saturating_sub(before);
    answers.all_are(200)?;
    Ok(Sample {
        rate: answers.rate(),
        micros: spent.as_secs_f64() * 1e6 / answers.with(200) as f64,
    })
}

/// The share of access control in the processor time of a request.
fn share_percent(with: Sample, without: Sample) -> f64 {
    (with.micros - without.micros) / with.micros * 100.0
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_a_part_of_the_time_with_access_control() {
        let sample = |micros| Sample { rate: 1.0, micros };
        let share = share_percent(sample(20.0), sample(19.0));
        assert!((share - 5.0).abs() < 1e-9, "{share}");
        assert!(share_percent(sample(19.0), sample(20.0)) < 0.0);
    }

    #[test]
    fn median_leaves_outliers_out() {
        assert_eq!(median(vec![90.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
