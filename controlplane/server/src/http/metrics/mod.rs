//! `/v1/metrics`: counters and histograms of this process, and gauges that are read from the state
//! when somebody asks.
//!
//! Names are Nomad's where the meaning is the same (`nomad.nomad.broker.total_ready`), so that
//! dashboards carry over; the rest begins with `drover.`. Counters count from the start of the
//! process.

mod gauges;
mod recorder;

use std::fmt::Write as _;

use axum::http::header;
use axum::response::IntoResponse;
use protocol_api::agent::Metrics;
use protocol_model::UnixNanos;
use serde_json::{Value, json};

use self::gauges::gauges;
pub(super) use self::recorder::install;
use self::recorder::{counters, histograms};
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};

/// One number with its name.
struct Reading {
    name: String,
    value: f64,
}

pub(super) const ROUTES: Routes = routes![Metrics => metrics];

async fn metrics(ask: &Ask) -> Answered {
    let api = ask.api.clone();
    // A pass over all jobs: not on a thread that serves sockets.
    let gauges = tokio::task::spawn_blocking(move || gauges(&api));
    let gauges = gauges
        .await
        .map_err(|error| HttpError::internal(error.to_string()))?;
    match ask.query.text("format") {
        Some("prometheus") => {
            let kind = [(
                header::CONTENT_TYPE,
                "text/plain; version=0.0.4; charset=utf-8",
            )];
            Ok((kind, prometheus(&gauges)).into_response())
        }
        None => ask.answer(
            &json(&gauges, ask.now()),
            ask.api.cluster.snapshot().index(),
        ),
        Some(other) => Err(HttpError::bad_request(format!(
            "unknown metrics format {other:?}"
        ))),
    }
}

/// The shape that Nomad answers: aggregates of one interval, which here is the process's life.
fn json(gauges: &[Reading], now: UnixNanos) -> Value {
    let gauges: Vec<Value> = gauges
        .iter()
        .map(|Reading { name, value }| json!({ "Name": name, "Value": value, "Labels": {} }))
        .collect();
    let counters: Vec<Value> = counters()
        .into_iter()
        .map(|(name, count)| {
            json!({ "Name": name, "Count": count, "Rate": 0, "Sum": count, "Min": 0, "Max": 0,
                    "Mean": 0, "Stddev": 0, "Labels": {} })
        })
        .collect();
    let samples: Vec<Value> = histograms()
        .into_iter()
        .map(|(name, moments)| {
            json!({ "Name": name, "Count": moments.count, "Rate": 0, "Sum": moments.sum,
                    "Min": moments.min, "Max": moments.max, "Mean": moments.mean(),
                    "Stddev": moments.deviation(), "Labels": {} })
        })
        .collect();
    json!({
        "Timestamp": protocol_model::format_rfc3339(now),
        "Gauges": gauges,
        "Points": [],
        "Counters": counters,
        "Samples": samples,
    })
}

/// The text format (version 0.0.4): dots become underscores.
fn prometheus(gauges: &[Reading]) -> String {
    let mut text = String::new();
    let flat = |name: &str| name.replace(['.', '-'], "_");
    for Reading { name, value } in gauges {
        let name = flat(name);
        let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
    }
    for (name, count) in counters() {
        let name = flat(&name);
        let _ = writeln!(text, "# TYPE {name} counter\n{name} {count}");
    }
    for (name, moments) in histograms() {
        let name = flat(&name);
        let (sum, count) = (moments.sum, moments.count);
        let _ = writeln!(
            text,
            "# TYPE {name} summary\n{name}_sum {sum}\n{name}_count {count}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_names_have_no_dots() {
        let gauges = [Reading {
            name: "nomad.raft.appliedIndex".to_owned(),
            value: 7.0,
        }];
        let text = prometheus(&gauges);
        assert!(text.contains("# TYPE nomad_raft_appliedIndex gauge\nnomad_raft_appliedIndex 7\n"));
    }
}
