//! The tables of times that a test run ends with.

use std::fmt::Write as _;
use std::time::Duration;

use super::run::Ran;
use super::times::{Took, slowest};

const SLOWEST_SHOWN: usize = 20;

/// The executables by time, and the slowest tests of all.
pub(super) fn times(ran: &[Ran]) -> String {
    let mut text = String::from("\nexecutable                            tests  seconds\n");
    let mut by_time: Vec<&Ran> = ran.iter().collect();
    by_time.sort_by_key(|it| std::cmp::Reverse(it.time));
    for one in by_time {
        let tests = one.tests.len();
        let _ = writeln!(
            text,
            "{:<36} {tests:>6} {:>8}",
            one.label,
            seconds(one.time)
        );
    }
    let _ = writeln!(
        text,
        "\nseconds  the {SLOWEST_SHOWN} slowest tests (beside other lanes)"
    );
    for test in slowest(all_tests(ran), SLOWEST_SHOWN) {
        let _ = writeln!(text, "{:>7}  {}", seconds(test.time), test.name);
    }
    text
}

/// The tests of all executables.
pub(super) fn all_tests(ran: &[Ran]) -> Vec<Took> {
    ran.iter().flat_map(|it| it.tests.iter().cloned()).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::log::Tally;

    #[test]
    fn executables_and_tests_are_listed_slowest_first() {
        let ran = |label: &str, time: u64| Ran {
            crate_name: label.to_owned(),
            label: label.to_owned(),
            time: Duration::from_secs(time),
            tally: Tally::default(),
            tests: vec![Took {
                name: format!("{label}::one"),
                time: Duration::from_secs(time),
            }],
            broken: None,
        };
        let text = times(&[ran("quick", 1), ran("slow", 9)]);
        assert!(text.find("slow ").unwrap() < text.find("quick ").unwrap());
        assert!(text.contains("    9.0  slow::one\n"), "{text}");
    }
}
