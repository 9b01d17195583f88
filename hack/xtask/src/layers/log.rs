//! Reads the output of one test executable (`--show-output`) as it comes: which test, what result.
//!
//! ```text
//!   test NAME ... ok|FAILED
//!   successes:            from here output of passed tests, hidden but searched
//!     ---- NAME stdout ----
//!     skipped: needs ...  NAME did not run; why
//!   failures:             from here output of failed tests, shown
//!   test result: ...      the tally of this executable
//! ```
//!
//! A test that cannot run here prints a line `skipped: needs ...` and returns; libtest counts it as
//! passed, and we move it where it belongs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::times::Ended;

/// Lines of one failed test that the end of the account repeats.
const SAID_LINES_MAX: usize = 12;

/// Whether a line is printed or only kept in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
}

/// The results of one executable, or of all of one crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// As libtest counts: skipped tests are among them.
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Tests that said why they did not run.
    pub(super) skipped: BTreeMap<String, String>,
    /// The first lines of each failed test.
    pub(super) said: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.said.extend(other.said);
    }
}

/// The state of reading.
#[derive(Debug, Default)]
pub(super) struct LogReader {
    tally: Tally,
    ended: Vec<Ended>,
    test_name: Option<String>,
    in_successes: bool,
    /// Lines that were kept of the test that is shown.
    said_of_test: usize,
    concluded: bool,
}

impl LogReader {
    /// Takes one line, without its end, and when it came, counted from the start.
    pub(super) fn line(&mut self, line: &str, at: Duration) -> Shown {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.conclude(rest);
            return Shown::Yes;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if let Some(name) = shown_test(line) {
            self.test_name = Some(name.to_owned());
            self.said_of_test = 0;
        }
        let of_failed = self.test_name.is_some() && !self.in_successes && !line.is_empty();
        if of_failed && self.said_of_test < SAID_LINES_MAX {
            self.said_of_test += 1;
            self.tally.said.push(line.to_owned());
        }
        self.note_skip(line);
        let result = result_of(line);
        if let Some((name, _)) = result {
            self.ended.push(Ended {
                name: name.to_owned(),
                at,
            });
        }
        let is_passed_test = result.is_some_and(|(_, word)| word == "ok");
        if self.in_successes || is_passed_test || line.is_empty() {
            Shown::No
        } else {
            Shown::Yes
        }
    }

    /// The results and the ends of all tests; `None` where the executable printed no result, so it
    /// crashed or was killed.
    pub(super) fn finish(self) -> (Option<Tally>, Vec<Ended>) {
        (self.concluded.then_some(self.tally), self.ended)
    }

    /// `ok. 3 passed; 1 failed; 0 ignored; ...`
    fn conclude(&mut self, rest: &str) {
        let mut last = 0;
        for word in rest.split_whitespace() {
            match word {
                "passed;" => self.tally.passed += last,
                "failed;" => self.tally.failed += last,
                _ => last = word.parse().unwrap_or(0),
            }
        }
        self.concluded = true;
        self.in_successes = false;
        self.test_name = None;
    }

    fn note_skip(&mut self, line: &str) {
        // A test that writes past libtest's capture lands behind the name that libtest printed.
        let after_name = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "));
        let (name, said) = after_name.map_or((None, line), |(name, said)| (Some(name), said));
        let Some(reason) = said.trim_start().strip_prefix("skipped: ") else {
            return;
        };
        let name = name.or(self.test_name.as_deref()).map_or_else(
            || format!("test without a name {}", self.tally.skipped.len() + 1),
            str::to_owned,
        );
        self.tally.skipped.insert(name, reason.trim().to_owned());
    }
}

/// `test NAME ... ok`, `test NAME - should panic ... FAILED`
fn result_of(line: &str) -> Option<(&str, &str)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    matches!(word, "ok" | "FAILED").then_some((name, word))
}

/// `---- NAME stdout ----`
fn shown_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "
running 3 tests
test a ... ok
test b ... ok
test c - should panic ... FAILED

successes:

---- b stdout ----
some words
skipped: needs CAP_NET_ADMIN

successes:
    a
    b

failures:

---- c stdout ----
it broke

failures:
    c

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    fn read(log: &str) -> (Vec<&str>, Option<Tally>, Vec<Ended>) {
        let mut reader = LogReader::default();
        let shown = log
            .lines()
            .filter(|line| reader.line(line, Duration::ZERO) == Shown::Yes)
            .collect();
        let (tally, ended) = reader.finish();
        (shown, tally, ended)
    }

    #[test]
    fn results_are_counted_and_the_skipped_test_is_named() {
        let (_, tally, ended) = read(LOG);
        let tally = tally.unwrap();
        assert_eq!((tally.passed, tally.failed), (2, 1));
        let skipped: Vec<_> = tally.skipped.iter().collect();
        assert_eq!(
            skipped,
            [(&"b".to_owned(), &"needs CAP_NET_ADMIN".to_owned())]
        );
        let names: Vec<&str> = ended.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn an_executable_without_a_result_has_no_tally() {
        let (_, tally, ended) = read("running 2 tests\ntest a ... ok\n");
        assert_eq!(tally, None);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn output_of_passed_tests_is_hidden_and_of_failed_ones_shown() {
        let (shown, _, _) = read(LOG);
        assert!(shown.contains(&"it broke"), "{shown:?}");
        assert!(!shown.contains(&"some words"), "{shown:?}");
    }

    #[test]
    fn a_skip_written_past_the_capture_is_counted_too() {
        let (_, tally, _) = read(
            "test d ... skipped: needs root\nskipped: needs io_uring\n\
             test result: ok. 2 passed; 0 failed;\n",
        );
        let tally = tally.unwrap();
        let names: Vec<&String> = tally.skipped.keys().collect();
        assert_eq!(names, ["d", "test without a name 2"]);
    }
}
