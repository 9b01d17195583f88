//! The door: which of the peers whose first packet has come is served next. Pure, without a clock
//! and without cryptography, so that waiting and refusing cost next to nothing.
//!
//! ```text
//!   first packet --arrive--> waiting --next--> begun --ended--> (its place is free)
//!                   |           `--- its patience is over: refused
//!                   `--- too many wait: the last in the order is refused
//! ```
//!
//! [`Door`] has a queue for nodes, whose order is what is wanted and then the oldest wish, and one
//! for all others (servers, old nodes, tools), first come, first served. A node's place is taken
//! until its session is live: what was begun is brought to its end before more is begun. How many
//! places there are follows from how long sessions take, and from how late the server is with what
//! it receives: [`Door::set_delay`].

mod places;
mod wish;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use places::Places;
pub use wish::{Wish, WishKind};

/// Nodes that wait at a time: each is a packet, its keys, and what the node sends meanwhile.
pub const WAITING_NODES_MAX: usize = 4_096;
/// The same of others.
pub const WAITING_OTHERS_MAX: usize = 256;
/// Others that are served at a time.
const OTHERS_MAX: usize = 64;
/// A node is served no later than this before its patience ends, or than a quarter of its patience
/// where that is more: its answer needs the time.
const MARGIN: Duration = Duration::from_millis(500);
/// As long waits at least who says that it has less patience.
const PATIENCE_MIN: Duration = Duration::from_millis(600);
/// How long others wait, who do not tell how long.
const OTHERS_WAIT_MAX: Duration = Duration::from_secs(1);

/// Which queue somebody waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Nodes that tell their wish.
    Nodes,
    /// All others.
    Others,
}

/// The next action at the door.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Begin its handshake: a place of that lane is taken until [`Door::ended`].
    Begin(T, Lane),
    /// Refuse it.
    Refuse(T),
}

/// How it stands at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DoorState {
    /// Nodes that wait for a place.
    pub waiting: usize,
    /// Nodes that have a place.
    pub begun: usize,
    /// Places of nodes.
    pub places: usize,
    /// Nodes whose handshake was begun, ever.
    pub admitted: u64,
    /// Nodes that were refused, ever: the queue was full, or they had waited for too long.
    pub refused: u64,
    /// When the last one was refused, by the door's clock.
    pub refused_at: Option<Duration>,
    /// For how long nodes have waited without a break.
    pub crowded_for: Duration,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    refuse_at: Duration,
}

/// The order of nodes: what for, since when (earlier first), then as they came.
type Rank = (WishKind, Duration, u64);

/// See the top of this file. Every `now` is of one clock that never goes back, from 24 hours on, so
/// that wishes older than the door have a time.
#[derive(Debug)]
pub struct Door<T> {
    nodes: BTreeMap<Rank, Waiting<T>>,
    /// The same nodes, by when they are refused.
    deadlines: BTreeSet<(Duration, Rank)>,
    /// Their patience is the same, so that the first is refused first.
    others: BTreeMap<u64, Waiting<T>>,
    /// Numbers those who arrive.
    arrivals: u64,
    places: Places,
    nodes_begun: usize,
    others_begun: usize,
    admitted: u64,
    refused: u64,
    refused_at: Option<Duration>,
    /// Since when the queue of nodes has not been empty.
    crowded_since: Option<Duration>,
}

impl<T> Default for Door<T> {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            others: BTreeMap::new(),
            arrivals: 0,
            places: Places::default(),
            nodes_begun: 0,
            others_begun: 0,
            admitted: 0,
            refused: 0,
            refused_at: None,
            crowded_since: None,
        }
    }
}

impl<T> Door<T> {
    /// Takes a first packet. Returns the one to be refused where too many wait.
    pub fn arrive(&mut self, wish: Option<Wish>, item: T, now: Duration) -> Option<T> {
        self.arrivals += 1;
        let waiting = |item, patience| Waiting {
            item,
            refuse_at: now.saturating_add(patience),
        };
        let Some(wish) = wish else {
            if self.others.len() >= WAITING_OTHERS_MAX {
                return Some(item);
            }
            let waiting = waiting(item, OTHERS_WAIT_MAX);
            self.others.insert(self.arrivals, waiting);
            return None;
        };
        let wanted = now.saturating_sub(wish.waited);
        let patience = wish.patience.max(PATIENCE_MIN);
        let patience = patience.saturating_sub(MARGIN.max(patience / 4));
        let rank = (wish.kind, wanted, self.arrivals);
        let waiting = waiting(item, patience);
        self.deadlines.insert((waiting.refuse_at, rank));
        self.nodes.insert(rank, waiting);
        self.crowded_since.get_or_insert(now);
        if self.nodes.len() <= WAITING_NODES_MAX {
            return None;
        }
        let last = *self.nodes.last_key_value()?.0;
        self.on_refused(now);
        self.take(last).map(|waiting| waiting.item)
    }

    /// The next action; `None` until a packet arrives, a place is free, or [`Self::due`].
    pub fn next(&mut self, now: Duration) -> Option<Step<T>> {
        if self.others_begun < OTHERS_MAX
            && let Some((_, first)) = self.others.pop_first()
        {
            if first.refuse_at <= now {
                return Some(Step::Refuse(first.item));
            }
            self.others_begun += 1;
            return Some(Step::Begin(first.item, Lane::Others));
        }
        if self.nodes_begun < self.places.count()
            && let Some(first) = self.nodes.first_key_value().map(|(rank, _)| *rank)
            && let Some(first) = self.take(first)
        {
            if first.refuse_at <= now {
                self.on_refused(now);
                return Some(Step::Refuse(first.item));
            }
            self.nodes_begun += 1;
            self.admitted += 1;
            return Some(Step::Begin(first.item, Lane::Nodes));
        }
        self.overdue(now).map(Step::Refuse)
    }

    /// The one that has waited for too long, if there is one.
    fn overdue(&mut self, now: Duration) -> Option<T> {
        if let Some((at, rank)) = self.deadlines.first().copied()
            && at <= now
        {
            self.on_refused(now);
            return self.take(rank).map(|waiting| waiting.item);
        }
        let (first, waiting) = self.others.first_key_value()?;
        let first = (waiting.refuse_at <= now).then_some(*first)?;
        self.others.remove(&first).map(|waiting| waiting.item)
    }

    fn take(&mut self, rank: Rank) -> Option<Waiting<T>> {
        let waiting = self.nodes.remove(&rank)?;
        self.deadlines.remove(&(waiting.refuse_at, rank));
        if self.nodes.is_empty() {
            self.crowded_since = None;
        }
        Some(waiting)
    }

    fn on_refused(&mut self, now: Duration) {
        self.refused += 1;
        self.refused_at = Some(now);
    }

    /// When the next one has waited for too long.
    pub fn due(&self) -> Option<Duration> {
        let node = self.deadlines.first().map(|(at, _)| *at);
        let other = self.others.values().next().map(|first| first.refuse_at);
        node.into_iter().chain(other).min()
    }

    /// A place that [`Step::Begin`] took is free again: the session is live, after so long, or will
    /// never be.
    pub fn ended(&mut self, lane: Lane, live_after: Option<Duration>, now: Duration) {
        match lane {
            Lane::Nodes => {
                self.nodes_begun = self.nodes_begun.saturating_sub(1);
                if let Some(took) = live_after {
                    self.places.on_live(took, !self.nodes.is_empty(), now);
                }
            }
            Lane::Others => self.others_begun = self.others_begun.saturating_sub(1),
        }
    }

    /// How long what this server receives waits to be read, as far as it is known now: places
    /// become fewer while that is long.
    pub fn set_delay(&mut self, delay: Duration, now: Duration) {
        self.places.on_delay(delay, now);
    }

    /// Whether addresses must be proved before anybody else waits here: more wait than are served.
    pub fn is_crowded(&self) -> bool {
        self.nodes.len() > self.places.count() || self.others_begun >= OTHERS_MAX / 2
    }

    /// How it stands.
    pub fn state(&self, now: Duration) -> DoorState {
        DoorState {
            waiting: self.nodes.len(),
            begun: self.nodes_begun,
            places: self.places.count(),
            admitted: self.admitted,
            refused: self.refused,
            refused_at: self.refused_at,
            crowded_for: self
                .crowded_since
                .map_or(Duration::ZERO, |since| now.saturating_sub(since)),
        }
    }
}

#[cfg(test)]
mod tests;
