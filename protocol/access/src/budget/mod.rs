//! Budgets: how many requests a caller may make, and how many places it may occupy.
//!
//! ```text
//! charge(kind, key, class, now) --> Ok | Refused{retry_after}   buckets: (kind, key) -> 3 classes
//! enter(kind, key, place)       --> Ok | Refused, leave(..)     places:  (kind, key, place) -> n
//! ```
//!
//! `now` is the time since any fixed origin of the caller's monotonic clock.
//!
//! | limit | value | beyond it |
//! |---|---|---|
//! | [`Limits`] | see there | [`Refused`] |
//! | [`KEYS_MAX`] | 65,536 callers with buckets | the fullest eighth is forgotten |
//! | places | requests under way | none are kept beyond their requests |
//!
//! A bucket that is full is like one that does not exist, so forgetting the fullest buckets gives
//! away least. An eighth is forgotten at a time, because it takes a pass over all buckets.

mod gcra;
mod key;
mod limits;

pub use self::key::Key;
pub use self::limits::{Class, Kind, KindLimits, Limits, Place, Rate};

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use self::gcra::FullAt;

/// Callers whose buckets are kept.
pub const KEYS_MAX: usize = 65_536;

/// The part of them that is forgotten when there is no room for another one.
const FORGOTTEN_PART: usize = 8;

/// A request that is over its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    pub kind: Kind,
    pub over: Over,
    /// When the same request would pass, if no other one comes before it.
    pub retry_after: Duration,
}

/// The limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    Rate(Class, Rate),
    /// All places, so many, are occupied.
    Places(Place, u32),
}

impl Refused {
    /// The value of the header `Retry-After`: whole seconds, rounded up, at least 1.
    pub fn retry_after_seconds(&self) -> u64 {
        let part = u64::from(self.retry_after.subsec_nanos() > 0);
        (self.retry_after.as_secs() + part).max(1)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.retry_after_seconds();
        f.write_str("Too many requests: ")?;
        match (self.kind, self.over) {
            (Kind::Failure, Over::Rate(_, rate)) => {
                write!(f, "the budget for refused credentials is {rate}")?;
            }
            (Kind::Login, Over::Rate(_, rate)) => {
                write!(f, "the budget of an address for logins is {rate}")?;
            }
            (kind, Over::Rate(class, rate)) => {
                write!(f, "the budget of {kind} for {class} is {rate}")?;
            }
            (kind, Over::Places(place, places)) => {
                let place = place.name();
                write!(f, "the budget of {kind} for {place} is {places} at a time")?;
            }
        }
        write!(f, "; try again in {seconds} s")
    }
}

impl std::error::Error for Refused {}

/// The state of one class of a caller, as WhoAmI shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    pub rate: Rate,
    /// Requests that would pass at once.
    pub left: u32,
}

/// The budgets of all callers of a server.
#[derive(Debug)]
pub struct Budgets {
    limits: Limits,
    keys_max: usize,
    buckets: BTreeMap<(Kind, Key), [FullAt; Class::ALL.len()]>,
    places: BTreeMap<(Kind, Key, Place), u32>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Budgets {
    pub fn new(limits: Limits) -> Self {
        Self::with_keys_max(limits, KEYS_MAX)
    }

    /// Budgets of at most `keys_max` callers, at least 8: a part of all callers.
    pub fn with_keys_max(limits: Limits, keys_max: usize) -> Self {
        Self {
            limits,
            keys_max: keys_max.max(FORGOTTEN_PART),
            buckets: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the limits of all requests to come; buckets and places stay as they are.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Charges one request. A refused request costs its caller nothing.
    ///
    /// # Errors
    /// [`Refused`], where the budget of the class is spent.
    pub fn charge(
        &mut self,
        kind: Kind,
        key: &Key,
        class: Class,
        now: Duration,
    ) -> Result<(), Refused> {
        let Some(rate) = self.limits.rate(kind, class) else {
            return Ok(());
        };
        let caller = (kind, key.clone());
        let slot = slot(kind, class);
        let taken = match self.buckets.get_mut(&caller) {
            Some(buckets) => buckets[slot].take(rate, now),
            None => {
                let mut buckets = <[FullAt; Class::ALL.len()]>::default();
                let taken = buckets[slot].take(rate, now);
                self.make_room(now);
                self.buckets.insert(caller, buckets);
                taken
            }
        };
        taken.map_err(|retry_after| refused(kind, class, rate, retry_after))
    }

    /// Whether [`Budgets::charge`] would pass, without charging anything: a sender without budget
    /// for failures is refused before its credential is looked up.
    ///
    /// # Errors
    /// [`Refused`], where the budget of the class is spent.
    pub fn check(&self, kind: Kind, key: &Key, class: Class, now: Duration) -> Result<(), Refused> {
        let Some(rate) = self.limits.rate(kind, class) else {
            return Ok(());
        };
        let mut bucket = self.bucket(kind, key, class);
        let taken = bucket.take(rate, now);
        taken.map_err(|retry_after| refused(kind, class, rate, retry_after))
    }

    /// The requests that would pass now, without charging any; `None` without a limit.
    pub fn left(&self, kind: Kind, key: &Key, class: Class, now: Duration) -> Option<Left> {
        let rate = self.limits.rate(kind, class)?;
        let left = self.bucket(kind, key, class).left(rate, now);
        Some(Left { rate, left })
    }

    /// The bucket as it is; a full one where there is none.
    fn bucket(&self, kind: Kind, key: &Key, class: Class) -> FullAt {
        let buckets = self.buckets.get(&(kind, key.clone()));
        buckets.map_or_else(FullAt::default, |all| all[slot(kind, class)])
    }

    /// Occupies a place until [`Budgets::leave`].
    ///
    /// # Errors
    /// [`Refused`], where all places are occupied.
    pub fn enter(&mut self, kind: Kind, key: &Key, place: Place) -> Result<(), Refused> {
        let occupied = self.places.entry((kind, key.clone(), place)).or_default();
        match self.limits.places(kind, place) {
            Some(places) if *occupied >= places => {
                if *occupied == 0 {
                    self.places.remove(&(kind, key.clone(), place));
                }
                Err(Refused {
                    kind,
                    over: Over::Places(place, places),
                    retry_after: Duration::from_secs(1),
                })
            }
            _ => {
                *occupied += 1;
                Ok(())
            }
        }
    }

    /// Places that are occupied.
    pub fn occupied(&self, kind: Kind, key: &Key, place: Place) -> u32 {
        let entry = (kind, key.clone(), place);
        self.places.get(&entry).copied().unwrap_or_default()
    }

    /// Frees a place that was entered.
    pub fn leave(&mut self, kind: Kind, key: &Key, place: Place) {
        let entry = (kind, key.clone(), place);
        match self.places.get_mut(&entry) {
            Some(occupied) if *occupied > 1 => *occupied -= 1,
            _ => {
                let occupied = self.places.remove(&entry);
                debug_assert!(occupied.is_some(), "left without having entered: {entry:?}");
            }
        }
    }

    /// Callers whose buckets are kept, at most [`KEYS_MAX`] or as many as were asked for.
    pub fn callers(&self) -> usize {
        self.buckets.len()
    }

    /// Forgets callers whose buckets are full, and the next fullest ones up to an eighth.
    fn make_room(&mut self, now: Duration) {
        if self.buckets.len() < self.keys_max {
            return;
        }
        let emptiest = |buckets: &[FullAt; Class::ALL.len()]| buckets.iter().copied().max();
        let mut order: Vec<_> = self.buckets.values().map(emptiest).collect();
        let mut room = self.keys_max / FORGOTTEN_PART;
        let (_, last, _) = order.select_nth_unstable(room - 1);
        let last = *last;
        self.buckets.retain(|_, buckets| {
            let emptiest = emptiest(buckets);
            let is_full = emptiest.is_none_or(|bucket| bucket.is_full(now));
            let is_forgotten = is_full || (emptiest <= last && room > 0);
            room = room.saturating_sub(usize::from(is_forgotten));
            !is_forgotten
        });
    }
}

fn refused(kind: Kind, class: Class, rate: Rate, retry_after: Duration) -> Refused {
    Refused {
        kind,
        over: Over::Rate(class, rate),
        retry_after,
    }
}

/// The bucket of a class.
fn slot(kind: Kind, class: Class) -> usize {
    match (kind, class) {
        (Kind::Failure | Kind::Login, _) | (_, Class::Read) => 0,
        (_, Class::List) => 1,
        (_, Class::Write) => 2,
    }
}
