//! How a leader comes to the first root key, for one term of leading.
//!
//! ```text
//!            +-- a voter has a KEK (of several the lowest id) --------+
//!            |                                                        v
//!  Asking ---+                                                     Storing --+-- Proposing
//!            |                                                        ^      |
//!            +-- a majority answered and has none --> Making --made --+      |
//!                                                        a majority has it on disk
//! ```
//!
//! A KEK is made only when a majority has none, and the root key is proposed only when a majority
//! has its KEK on disk. So a leader that is lost on the way leaves a KEK that its successor finds,
//! or one on a minority that no root key needs.
//!
//! Inputs: answers of voters, by rounds. Output: the next [`FirstKeyStep`]. The machine has no
//! clock and does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::kek::KekId;

/// The next thing to do. A step is repeated, after a pause, until it moves the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FirstKeyStep {
    /// Ask these voters which KEKs they have on disk, then call [`FirstKey::on_round`].
    Ask(BTreeSet<u64>),
    /// Make a KEK.
    Make,
    /// Have these voters keep this KEK on disk.
    Store(KekId, BTreeSet<u64>),
    /// Make a root key, wrap it with this KEK and propose it.
    Propose(KekId),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Asking,
    Making,
    Storing { kek: KekId, stored: BTreeSet<u64> },
}

/// See the top of this file. Servers are named by their ids in the log.
#[derive(Clone, Debug)]
pub struct FirstKey {
    voters: BTreeSet<u64>,
    answers: BTreeMap<u64, BTreeSet<KekId>>,
    phase: Phase,
}

impl FirstKey {
    /// For a leader of these voters, whose barrier of its own term is applied.
    pub fn new(voters: BTreeSet<u64>) -> Self {
        Self {
            voters,
            answers: BTreeMap::new(),
            phase: Phase::Asking,
        }
    }

    /// The voters changed. Answers of the others do not count any more.
    pub fn on_voters(&mut self, voters: BTreeSet<u64>) {
        self.voters = voters;
    }

    /// A server answered which KEKs it has on disk. A server without a vote is ignored, and so is a
    /// late answer.
    pub fn on_answer(&mut self, server: u64, keks: impl IntoIterator<Item = KekId>) {
        match self.phase {
            Phase::Asking => {
                self.answers.insert(server, keks.into_iter().collect());
            }
            Phase::Making | Phase::Storing { .. } => {}
        }
    }

    /// All that were asked answered, or had their time. Only now is decided: a KEK that any voter
    /// has is better than a new one.
    pub fn on_round(&mut self) {
        let answered: BTreeSet<u64> = self.answers.keys().copied().collect();
        if self.phase != Phase::Asking || !self.is_majority(&answered) {
            return;
        }
        let of_voters = self.answers.iter();
        let of_voters = of_voters.filter(|(server, _)| self.voters.contains(server));
        let lowest = of_voters.flat_map(|(_, keks)| keks).min();
        self.phase = match lowest {
            Some(kek) => Phase::Storing {
                kek: *kek,
                stored: BTreeSet::new(),
            },
            None => Phase::Making,
        };
    }

    /// A KEK was made.
    pub fn on_made(&mut self, kek: KekId) {
        match self.phase {
            Phase::Making => {
                let stored = BTreeSet::new();
                self.phase = Phase::Storing { kek, stored };
            }
            // Not asked for: it is used only where a later leader finds it.
            Phase::Asking | Phase::Storing { .. } => {}
        }
    }

    /// A server has this KEK on its disk.
    pub fn on_stored(&mut self, server: u64, kek: KekId) {
        match &mut self.phase {
            Phase::Storing {
                kek: wanted,
                stored,
            } if *wanted == kek => {
                stored.insert(server);
            }
            Phase::Asking | Phase::Making | Phase::Storing { .. } => {}
        }
    }

    /// The next step.
    pub fn next(&self) -> FirstKeyStep {
        match &self.phase {
            Phase::Asking => {
                let answered = |server: &&u64| !self.answers.contains_key(server);
                FirstKeyStep::Ask(self.voters.iter().filter(answered).copied().collect())
            }
            Phase::Making => FirstKeyStep::Make,
            Phase::Storing { kek, stored } if self.is_majority(stored) => {
                FirstKeyStep::Propose(*kek)
            }
            Phase::Storing { kek, stored } => {
                FirstKeyStep::Store(*kek, self.voters.difference(stored).copied().collect())
            }
        }
    }

    fn is_majority(&self, servers: &BTreeSet<u64>) -> bool {
        servers.intersection(&self.voters).count() > self.voters.len() / 2
    }
}

#[cfg(test)]
mod tests;
