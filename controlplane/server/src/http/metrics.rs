//! `/v1/metrics`: counters and histograms of this process, and gauges that are read from the state
//! when somebody asks.
//!
//! Names are Nomad's where the meaning is the same (`nomad.nomad.broker.total_ready`), so that
//! dashboards carry over; the rest begins with `drover.`. Counters count from the start of the
//! process.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::http::header;
use axum::response::IntoResponse;
use controlplane_raft::RaftRole;
use controlplane_state::{GroupTally, Snapshot};
use metrics::atomics::AtomicU64;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_util::registry::{Registry, Storage};
use protocol_model::{JobStatus, NodeStatus};
use serde_json::{Value, json};

use super::Api;
use super::ask::{Ask, Verb};
use super::error::{Answered, HttpError};
use crate::cluster::wall_clock;

/// Where the process's metrics are kept. One for all servers of a process.
static REGISTRY: LazyLock<Registry<Key, Aggregates>> = LazyLock::new(|| Registry::new(Aggregates));

/// Begins to record. Another recorder, where a program has one of its own, keeps its place.
pub(super) fn install() {
    if metrics::set_global_recorder(RegistryRecorder).is_err() {
        tracing::debug!("metrics are recorded already");
    }
}

/// Counters and gauges as numbers, histograms as what is left of them in constant space.
struct Aggregates;

impl Storage<Key> for Aggregates {
    type Counter = Arc<AtomicU64>;
    type Gauge = Arc<AtomicU64>;
    type Histogram = Arc<Samples>;

    fn counter(&self, _: &Key) -> Self::Counter {
        Arc::new(AtomicU64::new(0))
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::new(AtomicU64::new(0))
    }

    fn histogram(&self, _: &Key) -> Self::Histogram {
        Arc::new(Samples::default())
    }
}

/// A histogram's moments.
#[derive(Debug, Default)]
struct Samples(Mutex<Moments>);

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Moments {
    count: u64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        let mut moments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moments.min = if moments.count == 0 {
            value
        } else {
            moments.min.min(value)
        };
        moments.max = if moments.count == 0 {
            value
        } else {
            moments.max.max(value)
        };
        moments.count += 1;
        moments.sum += value;
        moments.squares += value * value;
    }
}

impl Samples {
    fn moments(&self) -> Moments {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moments {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of samples, shown as a mean"
    )]
    fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum / self.count as f64
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of samples, shown as a deviation"
    )]
    fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean();
        (self.squares / self.count as f64 - mean * mean)
            .max(0.0)
            .sqrt()
    }
}

struct RegistryRecorder;

impl Recorder for RegistryRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        REGISTRY.get_or_create_counter(key, |counter| Counter::from_arc(counter.clone()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        REGISTRY.get_or_create_gauge(key, |gauge| Gauge::from_arc(gauge.clone()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        REGISTRY.get_or_create_histogram(key, |samples| Histogram::from_arc(samples.clone()))
    }
}

/// One number with its name.
struct Reading {
    name: String,
    value: f64,
}

pub(super) async fn route(ask: &Ask) -> Answered {
    if ask.verb != Verb::Get {
        return Err(HttpError::method());
    }
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
        None => ask.answer(&json(&gauges), ask.api.cluster.snapshot().index()),
        Some(other) => Err(HttpError::bad_request(format!(
            "unknown metrics format {other:?}"
        ))),
    }
}

fn reading(name: impl Into<String>, value: u64) -> Reading {
    #[expect(
        clippy::cast_precision_loss,
        reason = "gauges are shown, not computed with"
    )]
    let value = value as f64;
    Reading {
        name: name.into(),
        value,
    }
}

fn gauges(api: &Api) -> Vec<Reading> {
    let snapshot = api.cluster.snapshot();
    let mut readings = server_gauges(api);
    readings.push(reading("nomad.state.latestIndex", snapshot.index()));
    readings.extend(state_gauges(&snapshot));
    readings.extend(registered_gauges());
    readings
}

/// This server's part in the log, and what its leader's loop says where it leads.
fn server_gauges(api: &Api) -> Vec<Reading> {
    let status = api.cluster.status();
    let leading = *api.leading.borrow();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let mut named = vec![
        ("nomad.raft.appliedIndex", status.applied_index),
        ("nomad.raft.lastIndex", status.last_index),
        ("nomad.raft.commitIndex", status.committed_index),
        ("nomad.raft.snapshotIndex", status.snapshot_index),
        ("nomad.raft.term", status.term),
        (
            "nomad.raft.state.leader",
            u64::from(status.role == RaftRole::Leader),
        ),
        ("drover.node_sessions", count(api.gateway.session_count())),
    ];
    if leading.leading {
        let broker = leading.broker;
        named.extend([
            ("nomad.nomad.broker.total_ready", count(broker.ready)),
            ("nomad.nomad.broker.total_unacked", count(broker.in_flight)),
            ("nomad.nomad.broker.total_pending", count(broker.waiting)),
            ("nomad.nomad.broker.total_waiting", count(broker.delayed)),
            (
                "nomad.nomad.blocked_evals.total_blocked",
                count(leading.blocked),
            ),
            (
                "nomad.nomad.blocked_evals.total_escaped",
                count(leading.blocked_escaped),
            ),
            (
                "nomad.nomad.plan.queue_depth",
                count(leading.plans_in_flight),
            ),
            ("nomad.nomad.heartbeat.active", count(leading.nodes)),
        ]);
    }
    named
        .into_iter()
        .map(|(name, value)| reading(name, value))
        .collect()
}

/// How many jobs, allocations and nodes are in which status.
fn state_gauges(snapshot: &Snapshot) -> Vec<Reading> {
    let mut jobs = BTreeMap::from([("pending", 0), ("running", 0), ("dead", 0)]);
    let mut sum = GroupTally::default();
    for (key, job) in snapshot.jobs() {
        *jobs.entry(JobStatus::as_str(job.status)).or_default() += 1;
        for group in snapshot.job_summary(key).groups.values() {
            let GroupTally {
                starting,
                running,
                complete,
                failed,
                lost,
                unknown,
            } = group.counts;
            sum.starting += starting;
            sum.running += running;
            sum.complete += complete;
            sum.failed += failed;
            sum.lost += lost;
            sum.unknown += unknown;
        }
    }
    let GroupTally {
        starting,
        running,
        complete,
        failed,
        lost,
        unknown,
    } = sum;
    let allocs = [
        ("starting", starting),
        ("running", running),
        ("complete", complete),
        ("failed", failed),
        ("lost", lost),
        ("unknown", unknown),
    ];
    let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
    for record in snapshot.nodes() {
        *nodes
            .entry(NodeStatus::as_str(record.node.status))
            .or_default() += 1;
    }
    let named = |prefix: &'static str| {
        move |(status, number): (&str, u64)| reading(format!("{prefix}.{status}"), number)
    };
    jobs.into_iter()
        .map(named("nomad.nomad.job_status"))
        .chain(allocs.into_iter().map(named("drover.allocs")))
        .chain(nodes.into_iter().map(named("drover.nodes")))
        .collect()
}

fn registered_gauges() -> Vec<Reading> {
    let mut readings = Vec::new();
    REGISTRY.visit_gauges(|key, gauge| {
        let bits = gauge.load(std::sync::atomic::Ordering::Relaxed);
        readings.push(Reading {
            name: dotted(key),
            value: f64::from_bits(bits),
        });
    });
    readings
}

fn counters() -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    REGISTRY.visit_counters(|key, counter| {
        let count = counter.load(std::sync::atomic::Ordering::Relaxed);
        *counters.entry(dotted(key)).or_default() += count;
    });
    counters
}

fn histograms() -> BTreeMap<String, Moments> {
    let mut histograms = BTreeMap::new();
    REGISTRY.visit_histograms(|key, samples| {
        histograms.insert(dotted(key), samples.moments());
    });
    histograms
}

/// `drover_update_entry_batches` as `drover.update_entry_batches`.
fn dotted(key: &Key) -> String {
    key.name().replacen('_', ".", 1)
}

/// The shape that Nomad answers: aggregates of one interval, which here is the process's life.
fn json(gauges: &[Reading]) -> Value {
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
        "Timestamp": protocol_model::format_rfc3339(wall_clock()),
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
    fn a_histogram_keeps_its_moments_and_nothing_else() {
        let samples = Samples::default();
        [2.0, 4.0, 6.0]
            .into_iter()
            .for_each(|value| samples.record(value));
        let moments = samples.moments();
        assert_eq!((moments.count, moments.min, moments.max), (3, 2.0, 6.0));
        assert!((moments.mean() - 4.0).abs() < 1e-9);
        assert!((moments.deviation() - (8.0f64 / 3.0).sqrt()).abs() < 1e-9);
    }

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
