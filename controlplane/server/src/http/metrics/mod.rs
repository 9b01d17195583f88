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
use protocol_access::Level;
use protocol_access::need::{Area, Need, Place, Verdict};
use protocol_api::agent::Metrics;
use protocol_model::UnixNanos;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::gauges::gauges;
pub(super) use self::recorder::install;
use self::recorder::{counters, histograms};
use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use crate::access::{Count, Labels};

/// The right to see who asked.
const AGENT_READ: Need = Need::Agent(Level::Read);
/// The place of an object that has none.
const NOWHERE: Place<'static> = Place {
    area: Area::Any,
    name: None,
};

/// One number with its name.
struct Reading {
    name: String,
    value: f64,
}

pub(super) const ROUTES: Routes = routes![Metrics => metrics];

async fn metrics(ask: &Ask) -> Answered {
    if ask.api.config.telemetry.metrics_require_token {
        ask.require(&AGENT_READ)?;
    }
    // Identities are not for everyone who may see how busy a server is.
    let labels = match AGENT_READ.judge(&ask.acl(), &NOWHERE) {
        Verdict::Granted => Labels::ByIdentity,
        Verdict::Denied | Verdict::Hidden => Labels::Off,
    };
    let access = ask.api.cluster.access();
    let counts = access.meters().read(labels, Instant::now());
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
            Ok((kind, prometheus(&gauges, &counts)).into_response())
        }
        None => ask.answer(
            &json(&gauges, &counts, ask.now()),
            ask.api.cluster.snapshot().index(),
        ),
        Some(other) => Err(HttpError::bad_request(format!(
            "unknown metrics format {other:?}"
        ))),
    }
}

/// The shape that Nomad answers: aggregates of one interval, which here is the process's life.
fn json(gauges: &[Reading], counts: &[Count], now: UnixNanos) -> Value {
    let gauges: Vec<Value> = gauges
        .iter()
        .map(|Reading { name, value }| json!({ "Name": name, "Value": value, "Labels": {} }))
        .collect();
    let counters: Vec<Value> = counters()
        .into_iter()
        .map(|(name, count)| counter(&name, count, &json!({})))
        .chain(counts.iter().map(|it| {
            let labels = match &it.label {
                Some((label, value)) => json!({ *label: value }),
                None => json!({}),
            };
            counter(&it.name, it.count, &labels)
        }))
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

fn counter(name: &str, count: u64, labels: &Value) -> Value {
    json!({ "Name": name, "Count": count, "Rate": 0, "Sum": count, "Min": 0, "Max": 0, "Mean": 0,
            "Stddev": 0, "Labels": labels })
}

/// The text format (version 0.0.4): dots become underscores.
fn prometheus(gauges: &[Reading], counts: &[Count]) -> String {
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
    // Counters of one name stand together, below one line of their type.
    for of_one_name in counts.chunk_by(|one, other| one.name == other.name) {
        let name = flat(&of_one_name[0].name);
        let _ = writeln!(text, "# TYPE {name} counter");
        for Count { label, count, .. } in of_one_name {
            let _ = match label {
                // Accessors, addresses and reasons hold nothing that has to be escaped.
                Some((label, value)) => writeln!(text, "{name}{{{label}=\"{value}\"}} {count}"),
                None => writeln!(text, "{name} {count}"),
            };
        }
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
        let text = prometheus(&gauges, &[]);
        assert!(text.contains("# TYPE nomad_raft_appliedIndex gauge\nnomad_raft_appliedIndex 7\n"));
    }
}
