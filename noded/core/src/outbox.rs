//! Where the machines put what they ask for, in the order in which they ask.

use std::collections::VecDeque;

use crate::effect::{Durability, Effect, Issued};
use crate::journal::JournalRecord;

/// Effects that wait to be polled. It is drained after every call into the core, so its length is
/// bounded by what one event can cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Issued>,
}

impl Outbox {
    /// Asks for an effect; what was journaled before it is at least in the file.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.push_after(Durability::Appended, effect);
    }

    /// Asks for an effect, and says what must be durable first.
    pub(crate) fn push_after(&mut self, needs: Durability, effect: Effect) {
        self.queue.push_back(Issued { needs, effect });
    }

    /// Appends to the journal.
    pub(crate) fn journal(&mut self, record: JournalRecord) {
        self.push(Effect::Append(record));
    }

    /// The next effect.
    pub(crate) fn pop(&mut self) -> Option<Issued> {
        self.queue.pop_front()
    }
}
