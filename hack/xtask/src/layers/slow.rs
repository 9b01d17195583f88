//! `hack/slow-tests`: the tests that may take long, each with its reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::times::Took;

/// Relative to the root of the tree.
const FILE: &str = "hack/slow-tests";
/// A test above this has a reason in the file. Every run waits for it, today and next year.
pub(super) const SLOW: Duration = Duration::from_secs(10);

/// The tests that are known to be slow, with the reason.
#[derive(Debug)]
pub(super) struct SlowTests(BTreeMap<String, String>);

impl SlowTests {
    /// # Errors
    /// If the file is missing, or a line of it has no reason.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        Self::parse(&text)
    }

    /// Lines `CRATE/EXECUTABLE::TEST REASON`; `#` begins a comment.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut known = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((name, reason)) = line.split_once(char::is_whitespace) else {
                bail!("{FILE}:{number}: the test has no reason: {line}");
            };
            known.insert(name.to_owned(), reason.trim().to_owned());
        }
        Ok(Self(known))
    }

    /// Warnings about tests that took long and have no reason.
    pub(super) fn warnings(&self, tests: &[Took]) -> Vec<String> {
        let unexplained = tests
            .iter()
            .filter(|test| test.time > SLOW && !self.0.contains_key(&test.name));
        unexplained
            .map(|test| {
                let seconds = test.time.as_secs_f64();
                format!(
                    "{} took {seconds:.1} s; make it faster, or name the reason in {FILE}",
                    test.name
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_test_without_a_reason_is_warned_of() {
        let known = SlowTests::parse("# head\n\nhack-e2e/it::a  elections take 4 s\n").unwrap();
        let took = |name: &str, seconds| Took {
            name: name.to_owned(),
            time: Duration::from_secs(seconds),
        };
        let tests = [took("hack-e2e/it::a", 30), took("b", 11), took("c", 10)];
        let warnings = known.warnings(&tests);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("b took 11.0 s"), "{warnings:?}");
    }

    #[test]
    fn a_line_without_a_reason_is_an_error() {
        SlowTests::parse("a\n").unwrap_err();
    }

    #[test]
    fn the_file_of_this_tree_can_be_read() {
        SlowTests::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    }
}
