//! What the process's own counters, gauges and histograms are recorded in.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use metrics::atomics::AtomicU64;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_util::registry::{Registry, Storage};
use parking_lot::Mutex;

use super::Reading;

/// Where the process's metrics are kept. One for all servers of a process.
static REGISTRY: LazyLock<Registry<Key, Aggregates>> = LazyLock::new(|| Registry::new(Aggregates));

/// Begins to record. Another recorder, where a program has one of its own, keeps its place.
pub(in crate::http) fn install() {
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
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) sum: f64,
    squares: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        let mut moments = self.0.lock();
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
        *self.0.lock()
    }
}

impl Moments {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of samples, shown as a mean"
    )]
    pub(super) fn mean(&self) -> f64 {
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
    pub(super) fn deviation(&self) -> f64 {
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

/// The gauges that parts of the process have set.
pub(super) fn registered_gauges() -> Vec<Reading> {
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

pub(super) fn counters() -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    REGISTRY.visit_counters(|key, counter| {
        let count = counter.load(std::sync::atomic::Ordering::Relaxed);
        *counters.entry(dotted(key)).or_default() += count;
    });
    counters
}

pub(super) fn histograms() -> BTreeMap<String, Moments> {
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
}
