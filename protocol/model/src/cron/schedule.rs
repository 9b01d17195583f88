//! The expressions of a job in a time zone, and the search for launch times.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::expression::{Expression, ExpressionError};
use crate::instant::UnixNanos;
use crate::periodic::PeriodicConfig;

/// How many years ahead a launch time is looked for; beyond them the job is never launched. Two
/// leap days are at most 8 years apart.
pub const SEARCH_YEARS_MAX: i64 = 8;
/// How many years, months, days and clock changes one search looks at per expression: more than
/// [`SEARCH_YEARS_MAX`] hold.
pub const SEARCH_STEPS_MAX: u32 = 10_000;
/// The most cron expressions of one job: each is searched at every launch.
pub const EXPRESSIONS_MAX: usize = 64;

/// The time zone database that is built in has no such zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no known time zone")]
pub struct UnknownZone(pub String);

/// Why a job has no schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScheduleError {
    /// An expression is not valid.
    #[error("cron: {0}")]
    Expression(#[from] ExpressionError),
    /// The time zone is not known.
    #[error("time_zone: {0}")]
    Zone(#[from] UnknownZone),
}

/// When a job is launched.
#[derive(Clone, Debug)]
pub struct Schedule {
    zone: TimeZone,
    expressions: Vec<Expression>,
}

impl PeriodicConfig {
    /// Its expressions: `spec`, or else all of `specs`.
    pub fn expressions(&self) -> Vec<&str> {
        match self.spec.as_str() {
            "" => self.specs.iter().map(String::as_str).collect(),
            spec => vec![spec],
        }
    }

    /// Whether launches happen; they do unless it says otherwise.
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// Its launch times. Expressions beyond [`EXPRESSIONS_MAX`] are left out: validation refuses
    /// them.
    ///
    /// # Errors
    /// The first mistake of an expression or of the time zone.
    pub fn schedule(&self) -> Result<Schedule, ScheduleError> {
        let expressions = self.expressions().into_iter().take(EXPRESSIONS_MAX);
        let expressions: Result<_, _> = expressions.map(Expression::parse).collect();
        Ok(Schedule {
            zone: zone(&self.time_zone)?,
            expressions: expressions?,
        })
    }
}

/// The zone of this IANA name; `""` is UTC.
pub(crate) fn zone(name: &str) -> Result<TimeZone, UnknownZone> {
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let known = TimeZoneDatabase::bundled().get(name);
    known.map_err(|_| UnknownZone(name.to_owned()))
}

impl Schedule {
    /// The time zone of its expressions.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The first launch after `after`, in whole seconds. `None` where there is none within
    /// [`SEARCH_YEARS_MAX`] years.
    pub fn next(&self, after: UnixNanos) -> Option<UnixNanos> {
        let years = SEARCH_YEARS_MAX * 366 * 24 * 3600;
        let from = seconds(after)?;
        let until = Timestamp::from_second(from.as_second() + years).ok()?;
        self.first(from, until).map(nanos)
    }

    /// The last launch after `after` that is not later than `until`; `None` where there is none.
    pub fn newest(&self, after: UnixNanos, until: UnixNanos) -> Option<UnixNanos> {
        let last = seconds(until)?;
        let mut found = self.first(seconds(after)?, last)?;
        // As a rule one launch is due. Else halve the span until no later one is left.
        if self.first(found, last).is_none() {
            return Some(nanos(found));
        }
        let (mut low, mut high) = (found.as_second(), last.as_second());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first(Timestamp::from_second(middle).ok()?, last) {
                Some(later) => {
                    found = later;
                    low = later.as_second();
                }
                None => high = middle,
            }
        }
        Some(nanos(found))
    }

    /// The first launch after `after` and not later than `until`.
    fn first(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let found = self
            .expressions
            .iter()
            .filter_map(|expression| first_in_zone(expression, &self.zone, after, until));
        found.min()
    }
}

/// The whole second at or before a time.
fn seconds(at: UnixNanos) -> Option<Timestamp> {
    Timestamp::from_second(at.0.div_euclid(1_000_000_000)).ok()
}

fn nanos(at: Timestamp) -> UnixNanos {
    UnixNanos(at.as_second().saturating_mul(1_000_000_000))
}

/// Walks over the stretches of time in which the zone's offset is one: within one, civil time and
/// time go together. So a skipped civil time is in no stretch, and a repeated one is in two.
fn first_in_zone(
    expression: &Expression,
    zone: &TimeZone,
    after: Timestamp,
    until: Timestamp,
) -> Option<Timestamp> {
    let mut steps = SEARCH_STEPS_MAX;
    let mut from = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
    while from <= until {
        steps = steps.checked_sub(1)?;
        let offset = zone.to_offset(from);
        let change = zone.following(from).next().map(|change| change.timestamp());
        let change = change.filter(|change| *change <= until);
        let last = match change {
            Some(change) => Timestamp::from_second(change.as_second() - 1).ok()?,
            None => until,
        };
        let (first, last) = (offset.to_datetime(from), offset.to_datetime(last));
        if let Some(found) = expression.first(first, last, &mut steps) {
            return offset.to_timestamp(found).ok();
        }
        from = change?;
    }
    None
}
