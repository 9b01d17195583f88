//! One cron expression, and the civil times that it matches.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Direction, TimeComponent, Weekday};
use jiff::civil::{Date, DateTime, Time};

use super::fields::{Field, normalize};

/// The longest cron expression, in bytes: any useful one is far shorter.
pub const EXPRESSION_BYTES_MAX: usize = 1_024;

/// Why a text is no cron expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExpressionError {
    /// It has too few or too many fields.
    #[error("{text:?} has {fields} fields")]
    Fields {
        /// The expression.
        text: String,
        /// How many fields it has.
        fields: usize,
    },
    /// It begins with `@`, and is none of the known macros.
    #[error("{text:?} is no known macro")]
    Macro {
        /// The expression.
        text: String,
    },
    /// It is longer than [`EXPRESSION_BYTES_MAX`].
    #[error("the expression has {bytes} bytes, at most {EXPRESSION_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A field has a value or a character that it does not take.
    #[error("{field} {text:?}: {why}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// The field's text.
        text: String,
        /// The mistake, for people.
        why: String,
        /// The values that it takes.
        range: &'static str,
    },
}

impl ExpressionError {
    pub(super) fn field(field: Field, text: &str, why: &str) -> Self {
        Self::Field {
            field: field.name(),
            text: text.to_owned(),
            why: why.to_owned(),
            range: field.range(),
        }
    }

    /// How to correct it.
    pub fn hint(&self) -> String {
        match self {
            Self::Fields { .. } => {
                "minute, hour, day of month, month, day of week; a sixth is the year; with seven, \
                 seconds come first and the year last"
                    .to_owned()
            }
            Self::Macro { .. } => {
                "@hourly, @daily, @weekly, @monthly, @yearly, @annually".to_owned()
            }
            Self::TooLong { .. } => "list several expressions in crons".to_owned(),
            Self::Field { field, range, .. } => format!("{field}: {range}"),
        }
    }
}

/// A cron expression that is valid.
#[derive(Clone)]
pub(crate) struct Expression {
    cron: Cron,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parsed form is a bit per year.
        write!(f, "Expression({:?})", self.cron.as_str())
    }
}

impl Expression {
    /// Reads 5 fields, 6 (the last is the year), 7 (seconds first, the year last), or a macro.
    ///
    /// # Errors
    /// The first mistake, with its field.
    pub(crate) fn parse(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionError::TooLong { bytes: text.len() });
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text if text.starts_with('@') => {
                let text = text.to_owned();
                return Err(ExpressionError::Macro { text });
            }
            text => text,
        };
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        match fields.len() {
            5 => {
                fields.insert(0, "0");
                fields.push("*");
            }
            6 => fields.insert(0, "0"),
            7 => {}
            fields => {
                let text = text.to_owned();
                return Err(ExpressionError::Fields { text, fields });
            }
        }
        let mut normal = Vec::with_capacity(fields.len());
        for (field, text) in Field::ALL.into_iter().zip(&fields) {
            normal.push(normalize(field, text)?);
        }
        match parser().parse(&normal.join(" ")) {
            Ok(cron) => Ok(Self { cron }),
            Err(error) => Err(locate(&fields, &normal, &error.to_string())),
        }
    }

    /// The first match from `from` to `last`, both included. Each year, month and day that is
    /// looked at costs one of `steps`; without any left there is no match.
    pub(super) fn first(
        &self,
        from: DateTime,
        last: DateTime,
        steps: &mut u32,
    ) -> Option<DateTime> {
        let mut at = from;
        while at <= last {
            *steps = steps.checked_sub(1)?;
            let date = at.date();
            if !self.cron.pattern.year_match(i32::from(date.year())).ok()? {
                let next = Date::new(date.year().checked_add(1)?, 1, 1).ok()?;
                at = next.to_datetime(Time::midnight());
                continue;
            }
            let month = u32::try_from(date.month()).ok()?;
            if !self.cron.pattern.month_match(month).ok()? {
                at = date
                    .last_of_month()
                    .tomorrow()
                    .ok()?
                    .to_datetime(Time::midnight());
                continue;
            }
            if self.matches_day(date)?
                && let Some(time) = self.time_of_day(at.time())
            {
                let found = date.to_datetime(time);
                return (found <= last).then_some(found);
            }
            at = date.tomorrow().ok()?.to_datetime(Time::midnight());
        }
        None
    }

    fn matches_day(&self, date: Date) -> Option<bool> {
        let weekday = u32::try_from(date.weekday().to_sunday_zero_offset()).ok()?;
        let (month, day) = (
            u32::try_from(date.month()).ok()?,
            u32::try_from(date.day()).ok()?,
        );
        let weekday = Weekday::from_days_from_sunday(weekday);
        let year = i32::from(date.year());
        self.cron.pattern.day_match(year, month, day, weekday).ok()
    }

    /// The first time of a day that matches, from `from` on.
    fn time_of_day(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let found = self.value(hour, TimeComponent::Hour)?;
        if found > hour {
            let minute = self.value(0, TimeComponent::Minute)?;
            let second = self.value(0, TimeComponent::Second)?;
            return Time::new(found, minute, second, 0).ok();
        }
        if let Some(found) = self.value(minute, TimeComponent::Minute) {
            let from = if found > minute { 0 } else { second };
            if let Some(second) = self.value(from, TimeComponent::Second) {
                return Time::new(hour, found, second, 0).ok();
            }
            if let Some(next) = self.value(found + 1, TimeComponent::Minute) {
                let second = self.value(0, TimeComponent::Second)?;
                return Time::new(hour, next, second, 0).ok();
            }
        }
        let hour = self.value(hour + 1, TimeComponent::Hour)?;
        let minute = self.value(0, TimeComponent::Minute)?;
        let second = self.value(0, TimeComponent::Second)?;
        Time::new(hour, minute, second, 0).ok()
    }

    /// The first value of a component from `from` on; `None` beyond its range.
    fn value(&self, from: i8, component: TimeComponent) -> Option<i8> {
        let from = u32::try_from(from).ok()?;
        let pattern = &self.cron.pattern;
        let found = pattern.find_match_in_component(from, component, Direction::Forward);
        i8::try_from(found.ok()??).ok()
    }
}

fn parser() -> CronParser {
    // `5/15` is a value with a step, as in Nomad.
    CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Required)
        .sloppy_ranges(true)
        .build()
}

/// Names the field at fault: the first that is wrong when all others are `*`.
fn locate(fields: &[&str], normal: &[String], why: &str) -> ExpressionError {
    for (place, field) in Field::ALL.into_iter().enumerate() {
        let mut alone = ["*"; 7];
        alone[place] = &normal[place];
        if let Err(error) = parser().parse(&alone.join(" ")) {
            let error = error.to_string();
            let why = error.strip_prefix("Component error: ").unwrap_or(&error);
            let why = why.trim_end_matches('.');
            return ExpressionError::field(field, fields[place], why);
        }
    }
    ExpressionError::field(Field::Minute, &fields.join(" "), why)
}
