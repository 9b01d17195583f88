//! Times in UTC, formatted by Go's reference date.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::known::Time;
use crate::value::{self, Kind, Value};

pub(super) static FUNCTIONS: &[Function] = &[function("timestamp", 0, 1, |call| {
    let now = call.pass.known.now;
    Ok(value::text(match call.len() {
        0 => formatted(now, "2006-01-02T15:04:05Z07:00"),
        _ => match call.text(0)? {
            "unix" => now.seconds.to_string(),
            layout => formatted(now, layout),
        },
    }))
})];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A moment as a value of a template.
pub(super) fn moment(time: Time) -> Value {
    value::fields(
        Kind::Moment,
        [
            ("\u{1}seconds", Value::Int(time.seconds)),
            ("\u{1}nanoseconds", Value::Int(time.nanoseconds.into())),
        ],
    )
}

pub(super) fn time_of(value: &Value) -> Option<Time> {
    if value::kind(value) != Some(Kind::Moment) {
        return None;
    }
    let part = |name| value.field(name).and_then(Value::as_int);
    Some(Time {
        seconds: part("\u{1}seconds")?,
        nanoseconds: u32::try_from(part("\u{1}nanoseconds")?).ok()?,
    })
}

/// As Go prints a time.
pub(crate) fn printed(value: &Value) -> String {
    let time = time_of(value).unwrap_or_default();
    formatted(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// A method of a moment.
pub(super) fn method(call: &Call<'_>, of: &Value, name: &str) -> Option<Answer> {
    let time = time_of(of)?;
    let date = Date::of(time);
    let wanted = usize::from(name == "Format");
    let number = |number: i64| Some(Ok(Value::Int(number)));
    if call.len() != wanted {
        let given = call.len();
        return Some(Err(format!("{name} takes {wanted} arguments, not {given}")));
    }
    match name {
        "Format" => Some(
            call.text(0)
                .map(|layout| value::text(formatted(time, layout))),
        ),
        "Unix" => number(time.seconds),
        "UnixNano" => number(time.seconds.saturating_mul(1_000_000_000)),
        "Year" => number(date.year),
        "Month" => Some(Ok(value::text(MONTHS[date.month - 1]))),
        "Weekday" => Some(Ok(value::text(DAYS[date.weekday]))),
        "Day" => number(date.day),
        "YearDay" => number(date.day_of_year),
        "Hour" => number(date.hour),
        "Minute" => number(date.minute),
        "Second" => number(date.second),
        "Nanosecond" => number(time.nanoseconds.into()),
        "UTC" | "Local" => Some(Ok(of.clone())),
        _ => None,
    }
}

struct Date {
    year: i64,
    /// From 1.
    month: usize,
    day: i64,
    /// From Sunday, 0.
    weekday: usize,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Date {
    /// The Gregorian date; years count from March inside, so that a leap day is a year's last.
    fn of(time: Time) -> Self {
        let (days, rest) = (
            time.seconds.div_euclid(86_400),
            time.seconds.rem_euclid(86_400),
        );
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month > 2 {
            of_year + 60 + i64::from(is_leap)
        } else {
            of_year - 305
        };
        Self {
            year,
            month: usize::try_from(month).unwrap_or(1),
            day,
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            day_of_year,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

/// The parts of a layout, longest first where one begins another.
const PARTS: [&str; 34] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "__2",
    "_2",
    "15",
    "PM",
    "pm",
    "1",
    "2",
    "3",
    "4",
    "5",
    "_2006",
];

/// Formats a time by a layout of Go's `time.Format`.
pub(super) fn formatted(time: Time, layout: &str) -> String {
    let date = Date::of(time);
    let mut text = String::new();
    let mut rest = layout;
    while let Some(next) = rest.chars().next() {
        if let Some(length) = fraction(rest, time.nanoseconds, &mut text) {
            rest = &rest[length..];
            continue;
        }
        let part = PARTS.iter().find(|part| rest.starts_with(**part));
        match part {
            // `Jan` of another word, `Janet`, is no month in Go.
            Some(&"Jan" | &"Mon") if rest[3..].starts_with(|c: char| c.is_ascii_lowercase()) => {
                text.push_str(&rest[..3]);
                rest = &rest[3..];
            }
            Some(&"_2") if rest.starts_with("_2006") => {
                text.push('_');
                rest = &rest[1..];
            }
            Some(part) => {
                push(&mut text, part, &date);
                rest = &rest[part.len()..];
            }
            None => {
                text.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    text
}

fn push(text: &mut String, part: &str, date: &Date) {
    let twelve = match date.hour % 12 {
        0 => 12,
        hour => hour,
    };
    text.push_str(&match part {
        "January" => MONTHS[date.month - 1].to_owned(),
        "Jan" => MONTHS[date.month - 1][..3].to_owned(),
        "Monday" => DAYS[date.weekday].to_owned(),
        "Mon" => DAYS[date.weekday][..3].to_owned(),
        "MST" => "UTC".to_owned(),
        "2006" => format!("{:04}", date.year),
        "06" => format!("{:02}", date.year.rem_euclid(100)),
        "-07:00:00" => "+00:00:00".to_owned(),
        "-070000" => "+000000".to_owned(),
        "-07:00" => "+00:00".to_owned(),
        "-0700" => "+0000".to_owned(),
        "-07" => "+00".to_owned(),
        "002" => format!("{:03}", date.day_of_year),
        "__2" => format!("{:3}", date.day_of_year),
        "01" => format!("{:02}", date.month),
        "1" => date.month.to_string(),
        "02" => format!("{:02}", date.day),
        "_2" => format!("{:2}", date.day),
        "2" => date.day.to_string(),
        "15" => format!("{:02}", date.hour),
        "03" => format!("{twelve:02}"),
        "3" => twelve.to_string(),
        "04" => format!("{:02}", date.minute),
        "4" => date.minute.to_string(),
        "05" => format!("{:02}", date.second),
        "5" => date.second.to_string(),
        "PM" => if date.hour < 12 { "AM" } else { "PM" }.to_owned(),
        "pm" => if date.hour < 12 { "am" } else { "pm" }.to_owned(),
        _ => "Z".to_owned(),
    });
}

/// `.000` and `.999` after a second: digits of it, the nines without zeros at their end.
fn fraction(rest: &str, nanoseconds: u32, text: &mut String) -> Option<usize> {
    let mark = rest.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digit = rest[1..]
        .chars()
        .next()
        .filter(|c| matches!(c, '0' | '9'))?;
    let count = rest[1..].chars().take_while(|c| *c == digit).count();
    if rest[1 + count..].starts_with(|c: char| c.is_ascii_digit()) || count > 9 {
        return None;
    }
    let digits = format!("{nanoseconds:09}");
    let digits = &digits[..count];
    let digits = match digit {
        '9' => digits.trim_end_matches('0'),
        _ => digits,
    };
    if !digits.is_empty() {
        text.push(mark);
        text.push_str(digits);
    }
    Some(1 + count)
}
