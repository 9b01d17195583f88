//! When the next entry goes. Pure.
//!
//! ```text
//!   entry ------------------> back   rest   entry -> back   entry ...
//!          gathers ...........|......|      (few batches: no rest)
//!          an end:  +-- another entry, where this one takes long
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::gathered::Waits;
use crate::config::Merging;

/// Batches in one entry by which it is seen that many report at once. The end of a task on a
/// cluster that is idle shares its entry with few others, and the next one follows at once.
const BUSY_BATCHES: usize = 4;
/// The longest rest of the log after such an entry.
const REST_MAX: Duration = Duration::from_millis(5);

/// How long an entry may be on its way before the end of an allocation goes after it: about twice
/// as long as one takes on a cluster that has much to do. A disk that stands still, or a message
/// that got lost, then costs who waits for that end this time once, not twice. Starts come by the
/// thousand at once, and would fill the log with entries of a few each.
const OVERDUE_AFTER: Duration = Duration::from_millis(5);
/// Entries that are on their way at most, the one that takes long among them.
const ON_THEIR_WAY_MAX: usize = 4;

/// What is on its way, and since when.
#[derive(Debug)]
pub(super) struct Pace {
    entries_max: usize,
    on_their_way: BTreeMap<u64, Entry>,
    number: u64,
    rests_until: Instant,
}

#[derive(Debug)]
struct Entry {
    batches: usize,
    since: Instant,
}

impl Pace {
    /// Nothing is on its way. Where nothing is merged there is one entry at a time.
    pub(super) fn new(merging: Merging, now: Instant) -> Self {
        let entries_max = match merging {
            Merging::On => ON_THEIR_WAY_MAX,
            Merging::Off => 1,
        };
        Self {
            entries_max,
            on_their_way: BTreeMap::new(),
            number: 0,
            rests_until: now,
        }
    }

    /// When the next entry may go, from what waits for it; a time in the past is now. `None` = not
    /// before something happens.
    pub(super) fn due(&self, waits: Waits) -> Option<Instant> {
        let newest = self.on_their_way.last_key_value().map(|(_, entry)| entry);
        match (waits, newest) {
            (Waits::Nothing, _) => None,
            (Waits::Going | Waits::End, None) => Some(self.rests_until),
            (Waits::End, Some(newest)) if self.on_their_way.len() < self.entries_max => {
                Some(newest.since + OVERDUE_AFTER)
            }
            (Waits::Going | Waits::End, Some(_)) => None,
        }
    }

    /// An entry of so many batches goes. Answers its number.
    pub(super) fn on_proposed(&mut self, batches: usize, now: Instant) -> u64 {
        self.number += 1;
        let entry = Entry {
            batches,
            since: now,
        };
        self.on_their_way.insert(self.number, entry);
        self.number
    }

    /// It is known what became of an entry.
    pub(super) fn on_back(&mut self, number: u64, now: Instant) {
        let Some(entry) = self.on_their_way.remove(&number) else {
            return;
        };
        if entry.batches >= BUSY_BATCHES {
            let took = now.saturating_duration_since(entry.since);
            self.rests_until = self.rests_until.max(now + took.min(REST_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITING: [Waits; 3] = [Waits::Nothing, Waits::Going, Waits::End];

    #[test]
    fn an_entry_of_many_batches_is_followed_by_a_rest_as_long_as_it_took() {
        let begun = Instant::now();
        let ms = |ms| begun + Duration::from_millis(ms);
        for (batches, back, wanted) in [(4, 3, 6), (4, 90, 95), (3, 3, 0)] {
            let mut pace = Pace::new(Merging::On, begun);
            let number = pace.on_proposed(batches, begun);
            pace.on_back(number, ms(back));
            let wanted = Some(ms(wanted));
            assert_eq!(WAITING.map(|it| pace.due(it)), [None, wanted, wanted]);
        }
    }

    #[test]
    fn only_an_end_goes_after_an_entry_that_takes_long_and_not_for_ever() {
        let begun = Instant::now();
        let ms = |ms| begun + Duration::from_millis(ms);
        let mut pace = Pace::new(Merging::On, begun);
        let first = pace.on_proposed(9, begun);
        assert_eq!(WAITING.map(|it| pace.due(it)), [None, None, Some(ms(5))]);
        // From the newest on, so that ends gather, too.
        pace.on_proposed(1, ms(7));
        assert_eq!(pace.due(Waits::End), Some(ms(12)));
        pace.on_proposed(1, ms(12));
        pace.on_proposed(1, ms(17));
        assert_eq!(pace.due(Waits::End), None, "as many as there may be");
        pace.on_back(first, ms(40));
        assert_eq!(pace.due(Waits::End), Some(ms(22)));
        assert_eq!(pace.due(Waits::Going), None);
        let mut alone = Pace::new(Merging::Off, begun);
        alone.on_proposed(1, begun);
        assert_eq!(alone.due(Waits::End), None, "nothing is merged");
    }
}
