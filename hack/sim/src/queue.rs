//! What is going to happen: events by time, equal times in the order in which they were asked for.
//!
//! ```text
//!   push --this instant----> present: in order, the next one last
//!      \--within a second--> near: a ring of buckets, unordered
//!       \--later-----------> far: a heap
//!   pop  <- present <- (when it is empty) the next bucket, sorted, and what of far is due in it
//! ```
//!
//! Nearly everything happens soon after it was asked for: a bucket costs neither comparisons nor
//! moves, and one heap of everything costs both.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::Event;
use crate::time::Nanos;

/// How long a bucket is: a quarter of a millisecond.
const BUCKET_BITS: u32 = 18;
/// Buckets in the ring: a second in all.
const BUCKETS: u64 = 4096;
/// Buckets that one word of the map of full ones tells of.
const WORD: u64 = 64;

/// When, as what it was asked for, and where it lies.
type Key = (Nanos, u64, u32);

/// The future.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The bucket that `present` holds what is left of.
    now: u64,
    present: Vec<Key>,
    near: Vec<Vec<Key>>,
    /// A bit for each bucket of the ring that is not empty.
    full: Vec<u64>,
    far: BinaryHeap<Reverse<Key>>,
    /// Events lie still while their small keys are moved.
    events: Vec<Option<Event>>,
    free: Vec<u32>,
    asked: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            now: 0,
            present: Vec::new(),
            near: (0..BUCKETS).map(|_| Vec::new()).collect(),
            full: (0..BUCKETS / WORD).map(|_| 0).collect(),
            far: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            asked: 0,
        }
    }
}

impl Queue {
    /// Makes `event` happen at `at`; what is asked for the past happens next.
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
        let key = (at, self.asked, slot);
        let bucket = at >> BUCKET_BITS;
        if bucket <= self.now {
            let place = self.present.partition_point(|other| *other > key);
            self.present.insert(place, key);
        } else if bucket - self.now < BUCKETS {
            let (place, word, bit) = in_ring(bucket);
            self.near[place].push(key);
            self.full[word] |= bit;
        } else {
            self.far.push(Reverse(key));
        }
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        if self.present.is_empty() {
            self.go_on()?;
        }
        let (at, _, slot) = self.present.pop()?;
        self.free.push(slot);
        let event = self.events[slot as usize].take()?;
        Some((at, event))
    }

    /// On to the next bucket in which something happens.
    fn go_on(&mut self) -> Option<()> {
        let far = self.far.peek().map(|Reverse((at, ..))| at >> BUCKET_BITS);
        let next = match (self.next_near(), far) {
            (Some(near), Some(far)) => near.min(far),
            (near, far) => near.or(far)?,
        };
        self.now = next;
        let (place, word, bit) = in_ring(next);
        std::mem::swap(&mut self.present, &mut self.near[place]);
        self.full[word] &= !bit;
        while let Some(Reverse(key)) = self.far.peek()
            && key.0 >> BUCKET_BITS == next
        {
            self.present.push(*key);
            self.far.pop();
        }
        self.present.sort_unstable_by(|one, other| other.cmp(one));
        Some(())
    }

    /// The next bucket of the ring that is not empty.
    fn next_near(&self) -> Option<u64> {
        let first = self.now + 1;
        // What is left of the first word, then whole words, the first one's rest last.
        let mut begin = first;
        while begin <= first + BUCKETS {
            let (_, word, _) = in_ring(begin);
            let ahead = self.full[word] >> (begin % WORD);
            if ahead != 0 {
                return Some(begin + u64::from(ahead.trailing_zeros()));
            }
            begin += WORD - begin % WORD;
        }
        None
    }
}

/// Where a bucket is in the ring, and its bit.
fn in_ring(bucket: u64) -> (usize, usize, u64) {
    let place = bucket % BUCKETS;
    let index = |at: u64| usize::try_from(at).unwrap_or(0);
    (index(place), index(place / WORD), 1 << (place % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::time::{MILLI, SECOND};

    /// When an event happens, and which.
    type At = (Nanos, u32);

    /// Asks for events, and has some handed out meanwhile: with `None`, `queue` hands out the next.
    fn handed_out(seed: u64, queue: &mut dyn FnMut(Option<At>) -> Option<At>) {
        let mut rng = Rng::new(seed, 0);
        let mut number = 0;
        let mut ask = |now: Nanos, rng: &mut Rng| {
            let wait = match rng.below(10) {
                0 => 0,
                1..=5 => rng.below(MILLI),
                6..=8 => rng.below(SECOND),
                _ => rng.below(20 * SECOND),
            };
            number += 1;
            Some((now + wait, number))
        };
        for _ in 0..20 {
            queue(ask(0, &mut rng));
        }
        for _ in 0..3_000 {
            let Some((now, _)) = queue(None) else {
                return;
            };
            for _ in 0..rng.below(3) {
                queue(ask(now, &mut rng));
            }
        }
    }

    #[test]
    fn events_happen_by_time_and_in_the_order_in_which_they_were_asked_for() {
        for seed in 0..20 {
            let (mut queue, mut seen) = (Queue::default(), Vec::new());
            handed_out(seed, &mut |asked| match asked {
                Some((at, number)) => {
                    queue.push(at, Event::Op(number));
                    None
                }
                None => {
                    let (at, event) = queue.pop()?;
                    let Event::Op(number) = event else {
                        return None;
                    };
                    seen.push((at, number));
                    Some((at, number))
                }
            });
            let (mut heap, mut wanted) = (BinaryHeap::new(), Vec::new());
            handed_out(seed, &mut |asked| match asked {
                Some(key) => {
                    heap.push(Reverse(key));
                    None
                }
                None => {
                    let Reverse(key) = heap.pop()?;
                    wanted.push(key);
                    Some(key)
                }
            });
            assert!(wanted.len() > 20, "something happens");
            assert_eq!(seen, wanted, "seed {seed}");
        }
    }
}
