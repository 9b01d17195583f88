//! How long something takes lately: a mean that follows, and a peak that fades. Both are no less
//! than what is under way has taken already: a log that stands still ends nothing, and its server
//! must say so. [`Pace`] is pure; what is under way looks at the clock when it ends.
//!
//! What a server advises its nodes to do (how long updates gather, when to knock again) depends on
//! how fast its log is, and so does what it asks of the log itself; both must come back to normal
//! by themselves when nothing is measured any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
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
    /// What is under way, by its number, and since when.
    under_way: BTreeMap<u64, Instant>,
    number: u64,
}

impl Pace {
    /// Takes in that it took `took`, once more.
    fn on_sample(&mut self, took: Duration, now: Instant) {
        let (mean, peak) = (self.faded(self.mean, now), self.faded(self.peak, now));
        self.mean = match self.at {
            None => took,
            Some(_) => mean.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT),
        };
        self.peak = peak.max(took);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// Something began `since` then. Answers its number.
    fn on_begin(&mut self, since: Instant) -> u64 {
        self.number += 1;
        self.under_way.insert(self.number, since);
        self.number
    }

    /// It is over.
    fn on_end(&mut self, number: u64, now: Instant) {
        if let Some(since) = self.under_way.remove(&number) {
            self.on_sample(now.saturating_duration_since(since), now);
        }
    }

    /// How long it takes on the whole; zero where nothing is known.
    fn mean(&self, now: Instant) -> Duration {
        self.faded(self.mean, now).max(self.longest_yet(now))
    }

    /// How long it takes at worst; zero where nothing is known. The slowest of late, of which the
    /// half is forgotten every [`HALF_LIFE`] in which nothing is as slow.
    fn peak(&self, now: Instant) -> Duration {
        self.faded(self.peak, now).max(self.longest_yet(now))
    }

    /// How long the oldest that is under way has taken.
    fn longest_yet(&self, now: Instant) -> Duration {
        let oldest = self.under_way.values().min();
        oldest.map_or(Duration::ZERO, |since| {
            now.saturating_duration_since(*since)
        })
    }

    fn faded(&self, measured: Duration, now: Instant) -> Duration {
        let quiet = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        measured.mul_f64(0.5_f64.powf(quiet.as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

/// A pace that several measure or ask. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedPace(Arc<Mutex<Pace>>);

/// Something that is under way, and is over when this is dropped, whatever came of it.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pace: SharedPace,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.pace.0.lock().on_end(self.number, Instant::now());
    }
}

impl SharedPace {
    /// Something has been under way `since` then.
    pub(crate) fn begin(&self, since: Instant) -> UnderWay {
        UnderWay {
            pace: self.clone(),
            number: self.0.lock().on_begin(since),
        }
    }

    /// As [`Pace::mean`].
    pub(crate) fn mean(&self, now: Instant) -> Duration {
        self.0.lock().mean(now)
    }

    /// As [`Pace::peak`].
    pub(crate) fn peak(&self, now: Instant) -> Duration {
        self.0.lock().peak(now)
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
    fn what_is_under_way_takes_no_less_than_it_has_taken_already() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let (first, second) = (pace.on_begin(now), pace.on_begin(now + 500 * MS));
        let at = |ms: u32| now + ms * MS;
        assert_eq!(
            (pace.mean(at(800)), pace.peak(at(800))),
            (800 * MS, 800 * MS)
        );
        pace.on_end(first, at(1000));
        // The first sample is all that is known, and the other one is younger.
        assert_eq!(pace.mean(at(1000)), 1000 * MS);
        assert_eq!(
            pace.peak(at(60_500)),
            60_000 * MS,
            "nothing fades while it stands still"
        );
        pace.on_end(second, at(60_500));
        pace.on_end(second, at(70_000));
        assert_eq!(pace.peak(at(60_500)), 60_000 * MS);
        assert_eq!(pace.peak(at(62_500)), 30_000 * MS);
    }

    #[test]
    fn a_clock_that_goes_back_is_no_reason_to_fade() {
        let (mut pace, now) = (Pace::default(), Instant::now() + HALF_LIFE);
        pace.on_sample(8 * MS, now);
        pace.on_sample(8 * MS, now - HALF_LIFE);
        assert_eq!(pace.peak(now), 8 * MS);
    }
}
