//! How long each test took, reconstructed from the order in which tests ended.
//!
//! The stable libtest prints no times. It starts tests in the order of their names, as many at once
//! as it has threads, and starts the next one when one ends. So the test at place `i` began when
//! the test that was the `i - threads`th to end had ended.

use std::time::Duration;

/// One finished test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) name: String,
    /// Since the executable was started.
    pub(super) at: Duration,
}

/// A test and the time that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Took {
    /// `crate::path::to::test`
    pub(super) name: String,
    pub(super) time: Duration,
}

/// `ended` in the order in which the tests ended; the answer is ordered by name.
pub(super) fn durations(ended: &[Ended], threads: usize) -> Vec<Took> {
    let mut by_name: Vec<&Ended> = ended.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let began = |place: usize| {
        let before = place.checked_sub(threads.max(1));
        before.map_or(Duration::ZERO, |before| ended[before].at)
    };
    by_name
        .iter()
        .enumerate()
        .map(|(place, test)| Took {
            name: test.name.clone(),
            time: test.at.saturating_sub(began(place)),
        })
        .collect()
}

/// The `count` slowest of all tests, slowest first.
pub(super) fn slowest(mut tests: Vec<Took>, count: usize) -> Vec<Took> {
    tests.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    tests.truncate(count);
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(rows: &[(&str, u64)]) -> Vec<Ended> {
        let row = |&(name, seconds): &(&str, u64)| Ended {
            name: name.to_owned(),
            at: Duration::from_secs(seconds),
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_test_begins_when_a_thread_is_free() {
        // Two threads: a and b begin at 0, c when b ends, d when c ends.
        let log = ended(&[("b", 2), ("c", 5), ("a", 9), ("d", 10)]);
        let times: Vec<(String, u64)> = durations(&log, 2)
            .into_iter()
            .map(|it| (it.name, it.time.as_secs()))
            .collect();
        let expected = [("a", 9), ("b", 2), ("c", 3), ("d", 5)];
        assert_eq!(times, expected.map(|(name, time)| (name.to_owned(), time)));
    }

    #[test]
    fn one_thread_runs_one_test_after_the_other() {
        let log = ended(&[("a", 2), ("b", 5)]);
        let sum: Duration = durations(&log, 1).iter().map(|it| it.time).sum();
        assert_eq!(sum, Duration::from_secs(5));
    }

    #[test]
    fn the_slowest_come_first() {
        let tests = durations(&ended(&[("a", 1), ("b", 9), ("c", 12)]), 1);
        let names: Vec<String> = slowest(tests, 2).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["b", "c"]);
    }
}
