//! Time: the caller's clock reading, and arithmetic and formatting of RFC 3339 stamps.

use super::arguments::text;
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::value::Value;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

pub(super) static FUNCTIONS: &[Function] = &[
    function("formatdate", Arity::exactly(2), format_date),
    function("timeadd", Arity::exactly(2), |_, a| {
        let stamp = stamp(a, 0)?;
        let sum = stamp
            .checked_add(signed_duration(&text(a, 1)?)?)
            .map_err(|_| Failure::call("the result is out of range"))?;
        Ok(Value::String(rfc3339(&sum)))
    }),
    function("timestamp", Arity::exactly(0), |context, _| {
        let now = context.machine.inputs.now();
        Ok(Value::String(rfc3339(&now.to_zoned(TimeZone::UTC))))
    }),
];

/// A duration in Go's notation that may run backwards.
fn signed_duration(written: &str) -> Result<SignedDuration, Failure> {
    let bad = || Failure::argument(1, format!("`{written}` is no duration such as `1h30m`"));
    let magnitude = written.strip_prefix('-').unwrap_or(written);
    let parsed = protocol_model::duration::parse_go(magnitude).map_err(|_| bad())?;
    let length = SignedDuration::try_from(parsed).map_err(|_| bad())?;
    Ok(if magnitude.len() < written.len() {
        -length
    } else {
        length
    })
}

static STAMPS: DateTimeParser = DateTimeParser::new();

/// A stamp in the offset that it is written in.
fn stamp(arguments: &[Value], position: usize) -> Result<Zoned, Failure> {
    let written = text(arguments, position)?;
    let bad = || Failure::argument(position, format!("`{written}` is no RFC 3339 time"));
    let instant: Timestamp = STAMPS.parse_timestamp(&written).map_err(|_| bad())?;
    let pieces = jiff::fmt::temporal::Pieces::parse(&written).map_err(|_| bad())?;
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    Ok(instant.to_zoned(TimeZone::fixed(offset)))
}

fn rfc3339(stamp: &Zoned) -> String {
    format!("{}{}", stamp.strftime("%Y-%m-%dT%H:%M:%S"), zone(stamp, 1))
}

/// The zone in the forms of `formatdate`: `Z` (`Z` or `+01:00`), `ZZZ` (`UTC` or `+0100`), `ZZZZ`
/// (`+0100`), `ZZZZZ` (`+01:00`).
fn zone(stamp: &Zoned, letters: usize) -> String {
    let seconds = stamp.offset().seconds();
    match (seconds, letters) {
        (0, 1) => return "Z".to_owned(),
        (0, 3) => return "UTC".to_owned(),
        _ => {}
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() % 3600 / 60);
    match letters {
        3 | 4 => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    }
}

/// The pattern letters of go-cty: runs of one letter; text between single quotes stays.
fn format_date(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let pattern = text(arguments, 0)?;
    let stamp = stamp(arguments, 1)?;
    context.spend(pattern.len().saturating_mul(10))?;
    let mut out = String::new();
    let mut characters = pattern.chars().peekable();
    while let Some(letter) = characters.next() {
        if letter == '\'' {
            quoted(&mut characters, &mut out)?;
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            out.push(letter);
            continue;
        }
        let mut run = 1;
        while characters.next_if_eq(&letter).is_some() {
            run += 1;
        }
        match field(&stamp, letter, run) {
            Some(text) => out.push_str(&text),
            None => {
                let verb: String = std::iter::repeat_n(letter, run.min(8)).collect();
                return Err(
                    Failure::argument(0, format!("there is no date field `{verb}`"))
                        .hint("put literal text between single quotes"),
                );
            }
        }
    }
    Ok(Value::String(out))
}

fn quoted(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), Failure> {
    loop {
        match characters.next() {
            Some('\'') if characters.next_if_eq(&'\'').is_some() => out.push('\''),
            Some('\'') => return Ok(()),
            Some(other) => out.push(other),
            None => return Err(Failure::argument(0, "a quoted text has no end")),
        }
    }
}

fn field(stamp: &Zoned, letter: char, run: usize) -> Option<String> {
    let directive = match (letter, run) {
        ('Y', 4) => "%Y",
        ('Y', 2) => "%y",
        ('M', 4) => "%B",
        ('M', 3) => "%b",
        ('M', 2) => "%m",
        ('M', 1) => "%-m",
        ('D', 2) => "%d",
        ('D', 1) => "%-d",
        ('E', 4) => "%A",
        ('E', 3) => "%a",
        ('h', 2) => "%H",
        ('h', 1) => "%-H",
        ('H', 2) => "%I",
        ('H', 1) => "%-I",
        ('A', 2) => "%p",
        ('a', 2) => "%P",
        ('m', 2) => "%M",
        ('m', 1) => "%-M",
        ('s', 2) => "%S",
        ('s', 1) => "%-S",
        ('Z', 1 | 3..=5) => return Some(zone(stamp, run)),
        _ => return None,
    };
    Some(stamp.strftime(directive).to_string())
}
