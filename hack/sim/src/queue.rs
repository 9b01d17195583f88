//! What is going to happen: events by time, equal times in the order in which they were asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::Event;
use crate::time::Nanos;

/// The future.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// Events lie still while the heap moves their small keys.
    events: Vec<Option<Event>>,
    free: Vec<u32>,
    asked: u64,
}

impl Queue {
    /// Makes `event` happen at `at`.
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                u32::try_from(self.events.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.asked += 1;
        self.heap.push(Reverse((at, self.asked, slot)));
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        let event = self.events[slot as usize].take()?;
        Some((at, event))
    }
}
