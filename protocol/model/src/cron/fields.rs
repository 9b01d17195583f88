//! The fields of a cron expression, with names replaced by numbers.

use super::expression::ExpressionError;

/// The fields in the order of a full expression of seven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

impl Field {
    pub(super) const ALL: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::DayOfMonth,
        Self::Month,
        Self::DayOfWeek,
        Self::Year,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Year => "year",
        }
    }

    /// The values that it takes, for people.
    pub(super) const fn range(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0 to 59",
            Self::Hour => "0 to 23",
            Self::DayOfMonth => "1 to 31, L, LW, 15W",
            Self::Month => "1 to 12, JAN to DEC",
            Self::DayOfWeek => "0 to 7, SUN to SAT, 5L, 1#3",
            Self::Year => "1970 to 2099",
        }
    }
}

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
const DAYS: [&str; 7] = [
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
];

/// The years that an expression may name, as in Nomad.
const YEARS: std::ops::RangeInclusive<u32> = 1970..=2099;

/// A field's text with numbers instead of names. Letters that the field does not take are refused.
pub(super) fn normalize(field: Field, text: &str) -> Result<String, ExpressionError> {
    let upper = text.to_ascii_uppercase();
    if upper == "?" {
        return Ok("*".to_owned());
    }
    let wrong = |why: &str| ExpressionError::field(field, text, why);
    for item in upper.split(',') {
        if item.is_empty() || item.starts_with('/') {
            return Err(wrong("an item of the list has no value"));
        }
    }
    let mut normal = String::with_capacity(upper.len());
    let mut rest = upper.as_str();
    while let Some(next) = rest.chars().next() {
        let run = |wanted: fn(char) -> bool| rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        let end = match next {
            'A'..='Z' => run(|c| c.is_ascii_uppercase()),
            '0'..='9' => run(|c| c.is_ascii_digit()),
            '*' | '/' | '-' | '#' => 1,
            ',' => 1,
            other => {
                return Err(wrong(&format!(
                    "the character {other:?} has no meaning here"
                )));
            }
        };
        let (word, left) = rest.split_at(end);
        rest = left;
        match next {
            'A'..='Z' => {
                let number = letters(field, word);
                normal.push_str(&number.ok_or_else(|| wrong(&format!("{word} is unknown here")))?);
            }
            '0'..='9' if field == Field::Year && !normal.ends_with('/') => {
                if !word.parse().is_ok_and(|year: u32| YEARS.contains(&year)) {
                    return Err(wrong("the year is out of range"));
                }
                normal.push_str(word);
            }
            _ => normal.push_str(word),
        }
    }
    Ok(normal)
}

/// The meaning of a run of capital letters in a field; `None` where there is none.
fn letters(field: Field, word: &str) -> Option<String> {
    match field {
        Field::Month => numbered(&MONTHS, 1, word),
        Field::DayOfMonth => matches!(word, "L" | "W" | "LW").then(|| word.to_owned()),
        Field::DayOfWeek if word == "L" => Some(word.to_owned()),
        Field::DayOfWeek => numbered(&DAYS, 0, word).or_else(|| {
            let day = numbered(&DAYS, 0, word.strip_suffix('L')?)?;
            Some(format!("{day}L"))
        }),
        Field::Second | Field::Minute | Field::Hour | Field::Year => None,
    }
}

/// The number of a name, which is whole or its first three letters.
fn numbered(names: &[&str], first: usize, word: &str) -> Option<String> {
    let found = names
        .iter()
        .position(|name| word == *name || name.get(..3) == Some(word))?;
    Some((first + found).to_string())
}
