//! What the guest reports on its second serial line (hack/vm/guest/run writes it).

use std::time::Instant;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The tests of a boot begin.
    Boot(String),
    /// A test begins.
    Begin(String),
    /// It held.
    Held(String),
    /// It did not.
    Failed(String),
    /// What a test that fails said, and the journal.
    Said(String),
    /// No more tests.
    End,
    /// Not of this language: firmware and boot loaders write here too.
    Other,
}

impl Event {
    pub(super) fn parse(line: &str) -> Self {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.to_owned();
        match word {
            "boot" => Self::Boot(rest),
            "begin" => Self::Begin(rest),
            "ok" => Self::Held(rest),
            "failed" => Self::Failed(rest),
            "said" => Self::Said(rest),
            "end" => Self::End,
            _ => Self::Other,
        }
    }
}

/// What the tests came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// Tests that did not hold.
    pub(crate) failed: Vec<Failure>,
}

/// A test that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    /// Its own lines, and the journal.
    pub(crate) said: Vec<String>,
}

impl Failure {
    pub(crate) fn new(name: impl Into<String>, said: Vec<String>) -> Self {
        let name = name.into();
        Self { name, said }
    }
}

/// How far the guest is.
#[derive(Debug)]
pub(super) struct Progress {
    tally: Tally,
    begun: Instant,
    test_begun: Instant,
    running: Option<String>,
    said: Vec<String>,
    over: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            tally: Tally::default(),
            begun: now,
            test_begun: now,
            running: None,
            said: Vec::new(),
            over: false,
        }
    }

    /// Takes an event; the answer is what a person wants to read of it.
    pub(super) fn on_event(&mut self, event: Event) -> Option<String> {
        // A guest that crashed within a test boots again and would look as if it had gone well.
        if matches!(event, Event::Begin(_) | Event::Boot(_) | Event::End) {
            let said = std::mem::take(&mut self.said);
            let crashed = self.running.take();
            let crashed = crashed.map(|name| Failure::new(name, said));
            self.tally.failed.extend(crashed);
        }
        let seconds = self.test_begun.elapsed().as_secs_f64();
        match event {
            Event::Boot(number) => {
                let at = self.begun.elapsed().as_secs();
                Some(format!(
                    "guest: boot {number}, {at} s after the first start"
                ))
            }
            Event::Begin(name) => {
                self.test_begun = Instant::now();
                self.running = Some(name);
                None
            }
            Event::Held(name) => {
                self.running = None;
                self.tally.passed += 1;
                Some(format!("guest: {name} ... ok, {seconds:.1} s"))
            }
            Event::Failed(name) => {
                self.running = None;
                let said = format!("guest: {name} ... FAILED, {seconds:.1} s");
                let lines = std::mem::take(&mut self.said);
                self.tally.failed.push(Failure::new(name, lines));
                Some(said)
            }
            Event::Said(text) => {
                let line = format!("    {text}");
                self.said.push(line.clone());
                Some(line)
            }
            Event::End => {
                self.over = true;
                None
            }
            Event::Other => None,
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(lines: &[&str]) -> (Tally, bool) {
        let mut progress = Progress::new();
        for line in lines {
            progress.on_event(Event::parse(line));
        }
        let over = progress.is_over();
        (progress.into_tally(), over)
    }

    #[test]
    fn tests_are_counted_and_other_lines_are_passed_over() {
        let (tally, over) = tally_of(&[
            "SeaBIOS (version 1.16)",
            "boot 1",
            "begin a host",
            "ok a host",
            "begin a limit",
            "said error: 3 is not 4",
            "failed a limit",
            "boot 2",
            "end",
        ]);
        assert_eq!((tally.passed, over), (1, true));
        let said = vec!["    error: 3 is not 4".to_owned()];
        assert_eq!(tally.failed, [Failure::new("a limit", said)]);
    }

    #[test]
    fn a_test_that_never_ended_has_failed() {
        let (tally, over) = tally_of(&["boot 1", "begin a crash", "boot 2", "end"]);
        assert_eq!((tally.passed, over), (0, true));
        assert_eq!(tally.failed, [Failure::new("a crash", Vec::new())]);
    }
}
