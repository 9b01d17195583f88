//! The account of a test run: layers, what each came to, what was skipped and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Strictness;
use super::log::Tally;
use super::plan::{self, LayerName};
use crate::stage::Outcome;
use crate::vm::Failure;

#[derive(Debug, Default)]
struct Layer {
    passed: usize,
    failed: usize,
    /// What was skipped, with the reason.
    skipped: Vec<(String, String)>,
}

impl Layer {
    fn found(&self) -> usize {
        self.passed + self.failed + self.skipped.len()
    }
}

/// The account of one run.
#[derive(Debug)]
pub(super) struct Summary {
    layers: BTreeMap<LayerName, Layer>,
    /// Crates whose tests belong to no layer.
    homeless: Vec<String>,
    /// Executables without results, with the reason.
    broken: Vec<String>,
    /// Lines of failed tests: repeated at the end, where a log that was cut still has them.
    said: Vec<String>,
}

impl Summary {
    /// Sorts the crates' tallies into layers.
    pub(super) fn new(tallies: &BTreeMap<String, Tally>) -> Self {
        let mut layers: BTreeMap<LayerName, Layer> = LayerName::ALL
            .into_iter()
            .map(|name| (name, Layer::default()))
            .collect();
        let (mut homeless, mut said) = (Vec::new(), Vec::new());
        for (crate_name, tally) in tallies {
            let Some(row) = plan::row_of(crate_name) else {
                homeless.push(crate_name.clone());
                continue;
            };
            let layer = layers.entry(row.layer).or_default();
            layer.passed += tally.passed.saturating_sub(tally.skipped.len());
            layer.failed += tally.failed;
            said.extend(tally.said.iter().cloned());
            layer.skipped.extend(
                tally
                    .skipped
                    .iter()
                    .map(|(test, why)| (format!("{crate_name}: {test}"), why.clone())),
            );
        }
        Self {
            layers,
            homeless,
            broken: Vec::new(),
            said,
        }
    }

    /// Notes an executable without results. It counts as one failed test of its layer.
    pub(super) fn broke(&mut self, crate_name: &str, why: String) {
        let layer = plan::row_of(crate_name).map_or(LayerName::Tools, |row| row.layer);
        self.layers.entry(layer).or_default().failed += 1;
        self.broken.push(why);
    }

    /// Notes that a whole layer did not run.
    pub(super) fn skip(&mut self, name: LayerName, needs: &str) {
        let layer = self.layers.entry(name).or_default();
        layer
            .skipped
            .push(("the whole layer".to_owned(), format!("needs {needs}")));
    }

    /// Notes how a layer went whose tests are not run by cargo.
    pub(super) fn record(&mut self, name: LayerName, passed: usize, failed: Vec<Failure>) {
        let layer = self.layers.entry(name).or_default();
        layer.passed += passed;
        layer.failed += failed.len();
        for Failure { name, said } in failed {
            self.said.push(format!("---- {name} ----"));
            self.said.extend(said);
        }
    }

    /// Whether the run as a whole is good.
    pub(super) fn outcome(&self, strictness: Strictness) -> Outcome {
        let failed = self.layers.values().any(|layer| layer.failed > 0);
        let bad = failed || !self.vanished().is_empty() || !self.homeless.is_empty();
        let thin = strictness == Strictness::Fail && !self.wholly_skipped().is_empty();
        if bad || thin {
            Outcome::Failed
        } else {
            Outcome::Passed
        }
    }

    /// Layers in which not one test was found.
    fn vanished(&self) -> Vec<LayerName> {
        let gone = |layer: &Layer| layer.found() == 0;
        self.layers
            .iter()
            .filter(|(_, layer)| gone(layer))
            .map(|(name, _)| *name)
            .collect()
    }

    /// Layers whose tests are there and were all skipped. The real host may be: its guest comes
    /// from a Debian mirror, and one that does not answer is no failed change.
    fn wholly_skipped(&self) -> Vec<LayerName> {
        self.layers
            .iter()
            .filter(|(name, layer)| {
                **name != LayerName::RealHost
                    && layer.passed + layer.failed == 0
                    && !layer.skipped.is_empty()
            })
            .map(|(name, _)| *name)
            .collect()
    }

    /// `N passed, N failed, N skipped`.
    pub(super) fn closing_line(&self) -> String {
        let sum = |count: fn(&Layer) -> usize| self.layers.values().map(count).sum::<usize>();
        let passed = sum(|layer| layer.passed);
        let failed = sum(|layer| layer.failed);
        let skipped = sum(|layer| layer.skipped.len());
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// Lines of failed tests, the table, the skips with their reasons, and what is wrong with the
    /// run itself.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for line in &self.said {
            let _ = writeln!(text, "{line}");
        }
        text.push_str("\nlayer               passed  failed  skipped\n");
        for (name, layer) in &self.layers {
            let Layer {
                passed,
                failed,
                skipped,
            } = layer;
            let skipped = skipped.len();
            let _ = writeln!(
                text,
                "{:<18} {passed:>7} {failed:>7} {skipped:>8}",
                name.title()
            );
        }
        let mut by_reason: BTreeMap<(LayerName, &str), Vec<&str>> = BTreeMap::new();
        for (name, layer) in &self.layers {
            for (what, why) in &layer.skipped {
                by_reason.entry((*name, why)).or_default().push(what);
            }
        }
        for ((name, why), whats) in by_reason {
            let _ = writeln!(text, "skipped in {}: {why}", name.title());
            for what in whats {
                let _ = writeln!(text, "  {what}");
            }
        }
        for name in self.vanished() {
            let _ = writeln!(
                text,
                "error: layer {} vanished: not one test was found",
                name.title()
            );
        }
        for name in self.wholly_skipped() {
            let _ = writeln!(
                text,
                "warning: layer {} was skipped as a whole",
                name.title()
            );
        }
        for crate_name in &self.homeless {
            let _ = writeln!(
                text,
                "error: the tests of {crate_name} belong to no layer; add it in hack/xtask/src/layers/plan.rs"
            );
        }
        for why in &self.broken {
            let _ = writeln!(text, "error: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: usize, failed: usize, skipped: &[&str]) -> Tally {
        let skipped = skipped
            .iter()
            .map(|test| ((*test).to_owned(), "needs root".to_owned()))
            .collect();
        Tally {
            passed,
            failed,
            skipped,
            said: Vec::new(),
        }
    }

    fn full() -> BTreeMap<String, Tally> {
        LayerName::ALL
            .into_iter()
            .filter_map(|layer| plan::crates_of(layer).next())
            .map(|name| (name.to_owned(), tally(2, 0, &[])))
            .collect()
    }

    fn summary(tallies: &BTreeMap<String, Tally>) -> Summary {
        let mut summary = Summary::new(tallies);
        summary.record(LayerName::EndToEnd, 1, Vec::new());
        summary.record(LayerName::RealHost, 3, Vec::new());
        summary
    }

    #[test]
    fn a_full_run_passes_and_counts_everything() {
        let summary = summary(&full());
        assert_eq!(summary.outcome(Strictness::Fail), Outcome::Passed);
        assert_eq!(summary.closing_line(), "14 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_vanished_layer_fails_everywhere() {
        let mut tallies = full();
        tallies.remove(plan::crates_of(LayerName::Root).next().unwrap());
        let summary = summary(&tallies);
        assert_eq!(summary.outcome(Strictness::Report), Outcome::Failed);
        assert!(
            summary
                .render()
                .contains("layer root and syscalls vanished")
        );
    }

    #[test]
    fn a_layer_skipped_as_a_whole_fails_in_ci_and_is_said_elsewhere() {
        let mut tallies = full();
        let only = plan::crates_of(LayerName::Root).next().unwrap();
        tallies.insert(only.to_owned(), tally(2, 0, &["a", "b"]));
        let summary = summary(&tallies);
        assert_eq!(summary.outcome(Strictness::Report), Outcome::Passed);
        assert_eq!(summary.outcome(Strictness::Fail), Outcome::Failed);
        assert!(
            summary
                .render()
                .contains("skipped in root and syscalls: needs root")
        );
        assert_eq!(summary.closing_line(), "12 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_host_that_does_not_run_the_guest_says_so() {
        let mut summary = Summary::new(&full());
        summary.record(LayerName::EndToEnd, 1, Vec::new());
        summary.skip(LayerName::RealHost, "qemu-system-x86_64");
        assert_eq!(summary.outcome(Strictness::Fail), Outcome::Passed);
        assert!(
            summary
                .render()
                .contains("skipped in real host: needs qemu-system-x86_64")
        );
    }

    #[test]
    fn an_executable_without_results_fails_the_run() {
        let mut summary = summary(&full());
        summary.broke("netns", "netns/it: signal 11".to_owned());
        assert_eq!(summary.outcome(Strictness::Report), Outcome::Failed);
        assert!(summary.render().contains("error: netns/it: signal 11"));
    }

    #[test]
    fn a_failed_test_or_a_crate_without_a_layer_fails_the_run() {
        let mut tallies = full();
        tallies.insert("netns".to_owned(), tally(1, 1, &[]));
        assert_eq!(
            summary(&tallies).outcome(Strictness::Report),
            Outcome::Failed
        );
        let mut tallies = full();
        tallies.insert("new-crate".to_owned(), tally(1, 0, &[]));
        assert_eq!(
            summary(&tallies).outcome(Strictness::Report),
            Outcome::Failed
        );
    }
}
