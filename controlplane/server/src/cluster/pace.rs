//! How long something takes lately: a mean that follows, and a peak that fades. Pure.
//!
//! What a server advises its nodes to do (how long updates gather, when to knock again) depends on
//! how fast its log is, and so does what it asks of the log itself; both must come back to normal
//! by themselves when nothing is measured any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a new sample weighs in the mean.
const WEIGHT: f64 = 0.25;
/// After this long without a sample, what was measured counts half.
const HALF_LIFE: Duration = Duration::from_secs(2);

/// Durations of one sort, as of lately.
#[derive(Debug, Default)]
struct Pace {
    mean: Duration,
    peak: Duration,
    /// When the last sample came; `None` = none did.
    at: Option<Instant>,
}

impl Pace {
    /// Takes in that it took `took`, once more.
    fn on_sample(&mut self, took: Duration, now: Instant) {
        let (mean, peak) = (self.mean(now), self.peak(now));
        self.mean = match self.at {
            None => took,
            Some(_) => mean.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT),
        };
        self.peak = peak.max(took);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// How long it takes on the whole; zero where nothing is known.
    fn mean(&self, now: Instant) -> Duration {
        self.mean.mul_f64(self.fade(now))
    }

    /// How long it takes at worst; zero where nothing is known. Not below the 99th percentile of
    /// the last few seconds.
    fn peak(&self, now: Instant) -> Duration {
        self.peak.mul_f64(self.fade(now))
    }

    fn fade(&self, now: Instant) -> f64 {
        let quiet = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        0.5_f64.powf(quiet.as_secs_f64() / HALF_LIFE.as_secs_f64())
    }
}

/// A pace that several measure or ask. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedPace(Arc<Mutex<Pace>>);

impl SharedPace {
    /// As [`Pace::on_sample`].
    pub(crate) fn on_sample(&self, took: Duration, now: Instant) {
        self.lock().on_sample(took, now);
    }

    /// As [`Pace::mean`].
    pub(crate) fn mean(&self, now: Instant) -> Duration {
        self.lock().mean(now)
    }

    /// As [`Pace::peak`].
    pub(crate) fn peak(&self, now: Instant) -> Duration {
        self.lock().peak(now)
    }

    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_known_at_first() {
        let pace = Pace::default();
        let now = Instant::now();
        assert_eq!((pace.mean(now), pace.peak(now)), Default::default());
    }

    #[test]
    fn the_first_sample_is_all_that_is_known() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.on_sample(40 * MS, now);
        assert_eq!((pace.mean(now), pace.peak(now)), (40 * MS, 40 * MS));
    }

    #[test]
    fn one_slow_sample_moves_the_peak_and_little_of_the_mean() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..20 {
            pace.on_sample(4 * MS, now);
        }
        pace.on_sample(400 * MS, now);
        assert_eq!(pace.peak(now), 400 * MS);
        assert!(pace.mean(now) < 110 * MS, "{:?}", pace.mean(now));
    }

    #[test]
    fn what_was_measured_fades_where_nothing_follows() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.on_sample(400 * MS, now);
        assert_eq!(pace.peak(now + HALF_LIFE), 200 * MS);
        assert_eq!(pace.mean(now + 2 * HALF_LIFE), 100 * MS);
        // A slow sample long ago does not outweigh what is measured now.
        pace.on_sample(MS, now + 20 * HALF_LIFE);
        assert_eq!(pace.peak(now + 20 * HALF_LIFE), MS);
    }

    #[test]
    fn a_clock_that_goes_back_is_no_reason_to_fade() {
        let (mut pace, now) = (Pace::default(), Instant::now() + HALF_LIFE);
        pace.on_sample(8 * MS, now);
        pace.on_sample(8 * MS, now - HALF_LIFE);
        assert_eq!(pace.peak(now), 8 * MS);
    }
}
