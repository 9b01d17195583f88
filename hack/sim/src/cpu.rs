//! Processor time, in simulated time: work waits for the work that came before it.
//!
//! ```text
//!   arrive --> waiting (FIFO) --its cost / the share--> done --> the next one begins
//! ```
//!
//! Without a share a processor is infinitely fast and nothing ever waits: that is so in every
//! scenario but one, and in that one until the share begins to count.

use std::collections::VecDeque;

use crate::event::{Event, ServerIx};
use crate::time::Nanos;

/// A whole core, in the unit of shares.
pub(crate) const CORE: u64 = 1_000_000;

/// Whose processor it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuIx {
    Server(ServerIx),
    /// All nodes together: they are processes of one host.
    Nodes,
}

/// Work that waits.
#[derive(Debug)]
struct Work {
    arrived: Nanos,
    cost: Nanos,
    event: Event,
}

/// One processor.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// In millionths of a core; `None` = infinitely fast.
    share: Option<u64>,
    /// The first one is being done.
    waiting: VecDeque<Work>,
    /// Work done aside; the next work takes as much longer.
    aside: Nanos,
    /// The longest that any work took since that was asked for.
    longest: Nanos,
    /// How often everything that waited was forgotten.
    life: u32,
}

/// Work begins: when it is done, and in which life.
pub(crate) type Begun = (Nanos, u32);

impl Cpu {
    pub(crate) fn set_share(&mut self, share: Option<u64>) {
        self.share = share;
        if share.is_none() {
            self.aside = 0;
        }
    }

    pub(crate) fn share(&self) -> Option<u64> {
        self.share
    }

    /// Work arrives. Hands it back where it is done at once; else answers when it is done, where it
    /// begins now.
    pub(crate) fn arrive(
        &mut self,
        event: Event,
        cost: Nanos,
        now: Nanos,
    ) -> Result<Option<Begun>, Event> {
        if self.share.is_none() && self.waiting.is_empty() {
            return Err(event);
        }
        self.waiting.push_back(Work {
            arrived: now,
            cost,
            event,
        });
        Ok(if self.waiting.len() == 1 {
            self.begin(now)
        } else {
            None
        })
    }

    /// The first work of a life is done. Answers it, and when the next one will be.
    pub(crate) fn done(&mut self, life: u32, now: Nanos) -> Option<(Event, Option<Begun>)> {
        if life != self.life {
            return None;
        }
        let work = self.waiting.pop_front()?;
        self.longest = self.longest.max(now.saturating_sub(work.arrived));
        Some((work.event, self.begin(now)))
    }

    /// Something is done that does not wait: it takes its time from what waits.
    pub(crate) fn aside(&mut self, cost: Nanos) {
        if self.share.is_some() {
            self.aside = self.aside.saturating_add(cost);
        }
    }

    fn begin(&mut self, now: Nanos) -> Option<Begun> {
        let cost = self.waiting.front()?.cost + std::mem::take(&mut self.aside);
        let takes = self
            .share
            .map_or(0, |share| cost.saturating_mul(CORE) / share.max(1));
        Some((now.saturating_add(takes), self.life))
    }

    /// The longest that any work took since the last call, or has waited until now.
    pub(crate) fn take_longest(&mut self, now: Nanos) -> Nanos {
        std::mem::take(&mut self.longest).max(self.delay(now))
    }

    /// How long the oldest work has waited.
    pub(crate) fn delay(&self, now: Nanos) -> Nanos {
        let first = self.waiting.front();
        first.map_or(0, |work| now.saturating_sub(work.arrived))
    }

    /// Its process ended, and everything that waited with it.
    pub(crate) fn forget(&mut self) {
        self.life += 1;
        self.waiting.clear();
        self.aside = 0;
        self.longest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLI;

    #[test]
    fn work_waits_for_what_came_before_it_and_takes_its_part_of_the_share() {
        let mut cpu = Cpu::default();
        assert!(cpu.arrive(Event::Op(0), MILLI, 0).is_err(), "done at once");
        cpu.set_share(Some(CORE / 4));
        let begun = cpu.arrive(Event::Op(1), MILLI, 0);
        assert_eq!(begun.expect("it takes a while"), Some((4 * MILLI, 0)));
        assert_eq!(cpu.arrive(Event::Op(2), MILLI, MILLI).expect("waits"), None);
        cpu.aside(2 * MILLI);
        let (_, next) = cpu.done(0, 4 * MILLI).expect("the first is done");
        assert_eq!(next, Some((16 * MILLI, 0)));
        assert_eq!(cpu.delay(9 * MILLI), 8 * MILLI);
        assert_eq!(cpu.take_longest(9 * MILLI), 8 * MILLI);
        cpu.done(0, 16 * MILLI).expect("the second is done");
        assert_eq!(cpu.take_longest(20 * MILLI), 15 * MILLI);
        assert_eq!(cpu.take_longest(20 * MILLI), 0);
    }

    #[test]
    fn work_that_waited_for_a_process_that_ended_is_never_done() {
        let mut cpu = Cpu::default();
        cpu.set_share(Some(CORE));
        let begun = cpu.arrive(Event::Op(1), MILLI, 0);
        assert_eq!(begun.expect("it takes a while"), Some((MILLI, 0)));
        cpu.forget();
        assert!(cpu.done(0, MILLI).is_none());
    }
}
