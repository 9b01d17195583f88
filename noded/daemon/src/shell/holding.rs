//! Effects that the journal is not far enough for, and those behind them in their lanes.

use std::collections::{BTreeSet, VecDeque};

use noded_core::Effect;
use noded_core::effect::{Durability, Lane};
use noded_core::key::Attempt;

use crate::journal::Progress;

/// An effect, and what must be in the journal before it is executed.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) needs: Durability,
    /// The newest record issued before it.
    pub(super) record: u64,
    pub(super) effect: Effect,
}

impl Issued {
    /// Whether the journal is far enough.
    fn is_safe(&self, progress: Progress) -> bool {
        match self.needs {
            Durability::Nothing => true,
            Durability::Appended => progress.written >= self.record,
            Durability::Synced => progress.synced >= self.record,
        }
    }

    /// Whether it waits for no more than a write.
    pub(super) fn waits_for_a_write(&self, progress: Progress) -> bool {
        self.needs == Durability::Appended && !self.is_safe(progress)
    }
}

/// What is held back. The core bounds it: an allocation asks for nothing more before it hears of
/// what it asked for.
#[derive(Debug, Default)]
pub(super) struct Holding {
    held: VecDeque<Issued>,
    /// Their lanes.
    lanes: BTreeSet<Lane>,
}

impl Holding {
    /// The effect, where it may be executed now; else it is held back, and [`Self::newest`].
    pub(super) fn admit(&mut self, issued: Issued, progress: Progress) -> Option<Effect> {
        if let Effect::Disconnect { attempt, .. } = &issued.effect {
            // What the attempt still waits to say is void; a disk that hangs keeps no connection.
            self.forget(*attempt);
            return Some(issued.effect);
        }
        let lane = issued.effect.lane();
        if !self.lanes.contains(&lane) && issued.is_safe(progress) {
            return Some(issued.effect);
        }
        self.lanes.insert(lane);
        self.held.push_back(issued);
        None
    }

    /// What was held back last.
    pub(super) fn newest(&self) -> Option<&Effect> {
        self.held.back().map(|held| &held.effect)
    }

    /// What the journal is far enough for now, lane by lane in order.
    pub(super) fn release(&mut self, progress: Progress) -> Vec<Effect> {
        let mut released = Vec::new();
        self.lanes.clear();
        for issued in std::mem::take(&mut self.held) {
            released.extend(self.admit(issued, progress));
        }
        released
    }

    /// What earlier attempts still wait to say is void, and one more would come with every attempt
    /// while the disk hangs: it goes.
    pub(super) fn forget_before(&mut self, now: Attempt) {
        self.keep(|attempt| attempt >= now);
    }

    /// The same of one attempt that ended.
    pub(super) fn forget(&mut self, ended: Attempt) {
        self.keep(|attempt| attempt != ended);
    }

    fn keep(&mut self, wanted: impl Fn(Attempt) -> bool) {
        let kept = |held: &Issued| held.effect.attempt().is_none_or(&wanted);
        self.held.retain(kept);
        self.lanes = self.held.iter().map(|held| held.effect.lane()).collect();
    }

    /// Whether something waits for the disk itself.
    pub(super) fn waits_for_a_sync(&self) -> bool {
        self.held
            .iter()
            .any(|held| held.needs == Durability::Synced)
    }
}

#[cfg(test)]
mod tests {
    use noded_core::effect::{DisconnectReason, SessionMessage};
    use noded_core::{RunEpoch, RunKey, SessionEpoch};
    use protocol_model::AllocId;

    use super::*;

    const PROGRESS: Progress = Progress {
        written: 5,
        synced: 3,
    };

    fn kill(alloc: u128, record: u64, needs: Durability) -> Issued {
        let run = RunKey::new(AllocId::from_u128(alloc), "main", RunEpoch(1));
        Issued {
            needs,
            record,
            effect: Effect::KillTask { run },
        }
    }

    #[test]
    fn only_what_says_nothing_of_the_journal_overtakes_it() {
        let passes = |record, needs| Holding::default().admit(kill(1, record, needs), PROGRESS);
        assert!(passes(5, Durability::Appended).is_some());
        assert!(passes(6, Durability::Appended).is_none());
        assert!(passes(3, Durability::Synced).is_some());
        assert!(passes(4, Durability::Synced).is_none());
        assert!(passes(9, Durability::Nothing).is_some());
    }

    #[test]
    fn what_an_attempt_waits_to_say_goes_with_it_and_holds_no_other_up() {
        let ack = |attempt, needs| Issued {
            needs,
            record: 9,
            effect: Effect::Send {
                attempt: Attempt(attempt),
                message: SessionMessage::WatchAck {
                    epoch: SessionEpoch(1),
                    index: 5,
                },
            },
        };
        let mut holding = Holding::default();
        assert!(
            holding
                .admit(ack(1, Durability::Synced), PROGRESS)
                .is_none()
        );
        assert!(
            holding
                .admit(kill(1, 9, Durability::Synced), PROGRESS)
                .is_none()
        );
        assert!(
            holding
                .admit(ack(2, Durability::Nothing), PROGRESS)
                .is_some()
        );
        holding.forget_before(Attempt(2));
        let synced = Progress {
            written: 9,
            synced: 9,
        };
        assert_eq!(
            holding.release(synced),
            [kill(1, 9, Durability::Synced).effect]
        );
    }

    #[test]
    fn an_attempt_ends_at_once_whatever_it_waits_to_say() {
        let sync = |index| Issued {
            needs: Durability::Synced,
            record: 9,
            effect: Effect::Send {
                attempt: Attempt(1),
                message: SessionMessage::WatchAck {
                    epoch: SessionEpoch(1),
                    index,
                },
            },
        };
        let mut holding = Holding::default();
        assert!(holding.admit(sync(5), PROGRESS).is_none());
        let disconnect = Effect::Disconnect {
            attempt: Attempt(1),
            reason: DisconnectReason::MapMalformed,
        };
        let issued = Issued {
            needs: Durability::Synced,
            record: 9,
            effect: disconnect.clone(),
        };
        assert_eq!(holding.admit(issued, PROGRESS), Some(disconnect));
        let synced = Progress {
            written: 9,
            synced: 9,
        };
        assert_eq!(holding.release(synced), []);
    }

    #[test]
    fn what_is_behind_in_a_lane_waits_and_other_lanes_do_not() {
        let mut holding = Holding::default();
        assert!(
            holding
                .admit(kill(1, 4, Durability::Synced), PROGRESS)
                .is_none()
        );
        assert!(holding.waits_for_a_sync());
        assert!(
            holding
                .admit(kill(1, 5, Durability::Appended), PROGRESS)
                .is_none()
        );
        assert!(
            holding
                .admit(kill(2, 5, Durability::Appended), PROGRESS)
                .is_some()
        );
        assert_eq!(holding.release(PROGRESS), []);
        let synced = Progress {
            synced: 4,
            ..PROGRESS
        };
        assert_eq!(holding.release(synced).len(), 2);
        assert!(!holding.waits_for_a_sync());
    }
}
