//! What waits for its entry, in the loop's hands.

use tokio::sync::mpsc;

use super::Waiting;
use super::entry::{BATCHES_MAX, fitting, in_turns};
use crate::config::Merging;

/// Groups that were taken out of the queue. At most [`BATCHES_MAX`]: the others wait there.
#[derive(Debug, Default)]
pub(super) struct Gathered(Vec<Waiting>);

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Nothing is there.
    Nothing,
    /// Reports of allocations that go on: they can wait for the entry that is on its way.
    Going,
    /// The end of an allocation is among them.
    End,
}

impl Gathered {
    pub(super) fn waits(&self) -> Waits {
        if self.0.iter().any(|waiting| waiting.has_end) {
            Waits::End
        } else if self.0.is_empty() {
            Waits::Nothing
        } else {
            Waits::Going
        }
    }

    /// Waits until more has come, where there is room for it. Answers `false` where nothing will
    /// come any more. What came is not lost where nobody waits until the end of this.
    pub(super) async fn next(&mut self, queue: &mut mpsc::Receiver<Waiting>) -> bool {
        let room = BATCHES_MAX.saturating_sub(self.0.len());
        if room == 0 {
            return std::future::pending().await;
        }
        queue.recv_many(&mut self.0, room).await > 0
    }

    /// Takes what has come already.
    pub(super) fn receive(&mut self, queue: &mut mpsc::Receiver<Waiting>) {
        while self.0.len() < BATCHES_MAX
            && let Ok(waiting) = queue.try_recv()
        {
            self.0.push(waiting);
        }
    }

    /// What makes the next entry, of what somebody waits for; nothing, where nobody does. What was
    /// given up comes again in its node's next session. What does not fit goes into a later entry,
    /// after the first turns of what comes until then.
    pub(super) fn take_entry(&mut self, merging: Merging) -> Vec<Waiting> {
        self.0.retain(|waiting| !waiting.answer.is_closed());
        let mut entry = in_turns(std::mem::take(&mut self.0), |waiting| &waiting.group);
        let count = match merging {
            Merging::On => fitting(entry.iter().map(|waiting| &waiting.group)),
            Merging::Off => 1,
        };
        self.0 = entry.split_off(count.min(entry.len()));
        entry
    }
}

/// How many batches an entry has.
pub(super) fn batches(entry: &[Waiting]) -> usize {
    entry.iter().map(|waiting| waiting.count).sum()
}
