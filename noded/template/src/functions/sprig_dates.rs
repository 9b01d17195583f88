//! Sprig's functions of dates; all in UTC.

use super::time::{formatted, moment, time_of};
use super::{Function, function};
use crate::call::{Answer, Call};
use crate::known::Time;
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_now", 0, 0, |call| Ok(moment(call.pass.known.now))),
    function("sprig_date", 2, 2, date),
    function("sprig_dateInZone", 3, 3, in_zone),
    function("sprig_date_in_zone", 3, 3, in_zone),
    function("sprig_htmlDate", 1, 1, |call| {
        Ok(value::text(formatted(time(call, 0)?, "2006-01-02")))
    }),
    function("sprig_htmlDateInZone", 2, 2, |call| {
        utc(call.text(1)?)?;
        Ok(value::text(formatted(time(call, 0)?, "2006-01-02")))
    }),
    function("sprig_unixEpoch", 1, 1, |call| {
        Ok(value::text(time(call, 0)?.seconds.to_string()))
    }),
    function("sprig_dateModify", 2, 2, modify),
    function("sprig_date_modify", 2, 2, modify),
    function("sprig_mustDateModify", 2, 2, modify),
    function("sprig_must_date_modify", 2, 2, modify),
    function("sprig_duration", 1, 1, |call| {
        let seconds = super::sprig_numbers::integer(call.at(0));
        Ok(value::text(duration(seconds)))
    }),
];

/// A moment, or seconds since 1970.
fn time(call: &Call<'_>, index: usize) -> Result<Time, String> {
    match (time_of(call.at(index)), call.at(index)) {
        (Some(time), _) => Ok(time),
        (None, Value::Int(seconds)) => Ok(Time {
            // Years of five digits are past what a date prints.
            seconds: (*seconds).clamp(-62_135_596_800, 253_402_300_799),
            nanoseconds: 0,
        }),
        _ => Err(call.expected(index, "a time or seconds")),
    }
}

fn date(call: &Call<'_>) -> Answer {
    Ok(value::text(formatted(time(call, 1)?, call.text(0)?)))
}

fn utc(zone: &str) -> Result<(), String> {
    match zone {
        "UTC" | "" => Ok(()),
        zone => Err(format!("the zone {zone:?} is not known; only UTC is")),
    }
}

fn in_zone(call: &Call<'_>) -> Answer {
    utc(call.text(2)?)?;
    date(call)
}

fn modify(call: &Call<'_>) -> Answer {
    let by = call.text(0)?;
    let by = nanoseconds(by).ok_or_else(|| format!("{by:?} is no duration, as in \"-1h30m\""))?;
    let time = time(call, 1)?;
    let sum = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds) + by;
    let seconds = i64::try_from(sum.div_euclid(1_000_000_000));
    Ok(moment(Time {
        seconds: seconds
            .map_err(|_| "the time is out of range")?
            .clamp(-62_135_596_800, 253_402_300_799),
        nanoseconds: u32::try_from(sum.rem_euclid(1_000_000_000)).unwrap_or(0),
    }))
}

/// A duration as Go writes it: `-1h30m`, `1.5h`, `250ms`.
fn nanoseconds(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut rest = unsigned;
    let mut sum: i128 = 0;
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, next) = after.split_at(end.unwrap_or(after.len()));
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let digits = |digits: &str| match digits {
            "" => Some(0),
            digits => digits.parse::<u32>().ok().map(i128::from),
        };
        let scale = 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?;
        sum += digits(whole)? * unit + digits(part)? * unit / scale;
        rest = next;
    }
    Some(if text.starts_with('-') { -sum } else { sum })
}

/// As Go prints whole seconds: `1h1m5s`.
fn duration(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let size = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (size / 3_600, size / 60 % 60, size % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}
