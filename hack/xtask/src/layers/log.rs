//! Reads the lines of `cargo test -- --show-output` as they come: which crate, which test, what
//! result.
//!
//! ```text
//! Running|Doc-tests -> a binary begins
//!   test NAME ... ok|FAILED
//!   successes:            from here output of passed tests, hidden but searched
//!     ---- NAME stdout ----
//!     skipped: needs ...  NAME did not run; why
//!   failures:             from here output of failed tests, shown
//!   test result: ...      the tally of this binary
//! ```
//!
//! A test that cannot run here prints a line `skipped: needs ...` and returns; libtest counts it as
//! passed, and we move it where it belongs.

use std::collections::BTreeMap;

/// Whether a line is printed or only kept in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
}

/// What the tests of one crate came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// As libtest counts: skipped tests are among them.
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Tests that said why they did not run.
    pub(super) skipped: BTreeMap<String, String>,
}

/// The state of reading.
#[derive(Debug)]
pub(super) struct LogReader {
    crate_of_binary: BTreeMap<String, String>,
    tallies: BTreeMap<String, Tally>,
    crate_name: String,
    test_name: Option<String>,
    in_successes: bool,
}

impl LogReader {
    /// `crate_of_binary` maps the file names of test binaries to crates.
    pub(super) fn new(crate_of_binary: BTreeMap<String, String>) -> Self {
        Self {
            crate_of_binary,
            tallies: BTreeMap::new(),
            crate_name: "unknown".to_owned(),
            test_name: None,
            in_successes: false,
        }
    }

    /// Takes one line, without its end.
    pub(super) fn line(&mut self, line: &str) -> Shown {
        let trimmed = line.trim_start();
        if let Some(name) = self.started_binary(trimmed) {
            self.crate_name = name;
            self.test_name = None;
            self.in_successes = false;
            return Shown::Yes;
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.finish_binary(rest);
            return Shown::Yes;
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if let Some(name) = shown_test(line) {
            self.test_name = Some(name.to_owned());
        }
        self.note_skip(line);
        let is_passed_test = line.starts_with("test ") && line.ends_with(" ... ok");
        if self.in_successes || is_passed_test || line.is_empty() {
            Shown::No
        } else {
            Shown::Yes
        }
    }

    /// What the crates came to.
    pub(super) fn into_tallies(self) -> BTreeMap<String, Tally> {
        self.tallies
    }

    fn started_binary(&self, line: &str) -> Option<String> {
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            return Some(name.replace('_', "-"));
        }
        let rest = line.strip_prefix("Running ")?;
        let path = rest.rsplit_once('(')?.1.strip_suffix(')')?;
        let known = self.crate_of_binary.get(file_name(path)).cloned();
        Some(known.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// `ok. 3 passed; 1 failed; 0 ignored; ...`
    fn finish_binary(&mut self, rest: &str) {
        let mut words = rest.split_whitespace();
        let (mut passed, mut failed, mut last) = (0, 0, 0);
        for word in words.by_ref() {
            match word {
                "passed;" => passed = last,
                "failed;" => failed = last,
                _ => last = word.parse().unwrap_or(0),
            }
        }
        let tally = self.tallies.entry(self.crate_name.clone()).or_default();
        tally.passed += passed;
        tally.failed += failed;
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
        let tally = self.tallies.entry(self.crate_name.clone()).or_default();
        let name = name.or(self.test_name.as_deref()).map_or_else(
            || format!("test without a name {}", tally.skipped.len() + 1),
            str::to_owned,
        );
        tally.skipped.insert(name, reason.trim().to_owned());
    }
}

/// `---- NAME stdout ----`
fn shown_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// The last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
     Running unittests src/lib.rs (target/debug/deps/netns-0a1b)

running 3 tests
test a ... ok
test b ... ok
test c ... FAILED

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

     Running tests/it/main.rs (/elsewhere/deps/it-77)
test d ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
   Doc-tests protocol_model
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    fn read(log: &str) -> (Vec<String>, BTreeMap<String, Tally>) {
        let binaries = [("netns-0a1b", "netns"), ("it-77", "noded-daemon")];
        let binaries = binaries
            .iter()
            .map(|(b, c)| ((*b).to_owned(), (*c).to_owned()))
            .collect();
        let mut reader = LogReader::new(binaries);
        let lines = log.lines().filter(|line| reader.line(line) == Shown::Yes);
        let shown = lines.map(str::to_owned).collect();
        (shown, reader.into_tallies())
    }

    #[test]
    fn results_go_to_the_crate_of_the_binary() {
        let (_, tallies) = read(LOG);
        let counts: Vec<(&str, usize, usize)> = tallies
            .iter()
            .map(|(name, t)| (name.as_str(), t.passed, t.failed))
            .collect();
        assert_eq!(
            counts,
            [
                ("netns", 2, 1),
                ("noded-daemon", 1, 0),
                ("protocol-model", 4, 0)
            ]
        );
    }

    #[test]
    fn a_skipped_test_is_named_with_its_reason() {
        let (_, tallies) = read(LOG);
        let skipped: Vec<_> = tallies["netns"].skipped.iter().collect();
        assert_eq!(
            skipped,
            [(&"b".to_owned(), &"needs CAP_NET_ADMIN".to_owned())]
        );
    }

    #[test]
    fn output_of_passed_tests_is_hidden_and_of_failed_ones_shown() {
        let (shown, _) = read(LOG);
        assert!(shown.iter().any(|line| line == "it broke"), "{shown:?}");
        assert!(!shown.iter().any(|line| line == "some words"), "{shown:?}");
        assert_eq!(
            shown
                .iter()
                .filter(|line| line.starts_with("test result"))
                .count(),
            3
        );
    }

    #[test]
    fn a_skip_written_past_the_capture_is_counted_too() {
        let (_, tallies) = read(
            "Running tests/it/main.rs (it-77)\ntest d ... skipped: needs root\nskipped: needs io_uring\n",
        );
        let names: Vec<&String> = tallies["noded-daemon"].skipped.keys().collect();
        assert_eq!(names, ["d", "test without a name 2"]);
    }
}
