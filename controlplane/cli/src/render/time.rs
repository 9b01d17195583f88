//! Times and sizes in words.

use std::time::Duration;

use jiff::Timestamp;
use protocol_model::UnixNanos;

use crate::find::Length;
use crate::session::Clock;

/// What is shown where there is no time.
const NEVER: &str = "N/A";

const MIB: u64 = 1024 * 1024;

impl Clock {
    /// A point in time, to the second, with its offset; `Z` where that is none.
    pub(crate) fn date(&self, at: UnixNanos) -> String {
        if at.is_zero() {
            return NEVER.to_owned();
        }
        match Timestamp::from_nanosecond(i128::from(at.0)) {
            Ok(timestamp) => {
                let zoned = timestamp.to_zoned(self.zone.clone());
                let form = match zoned.offset().seconds() {
                    0 => "%Y-%m-%dT%H:%M:%SZ",
                    _ => "%Y-%m-%dT%H:%M:%S%:z",
                };
                zoned.strftime(form).to_string()
            }
            Err(_) => NEVER.to_owned(),
        }
    }

    /// The same, where there may be none.
    pub(crate) fn date_of(&self, at: Option<UnixNanos>) -> String {
        self.date(at.unwrap_or(UnixNanos::ZERO))
    }

    /// When something was: how long ago, or to the second where all is shown.
    pub(crate) fn past(&self, at: UnixNanos, length: Length) -> String {
        match length {
            Length::Short => self.ago(at),
            Length::Whole => self.date(at),
        }
    }

    /// How long ago something was.
    pub(crate) fn ago(&self, at: UnixNanos) -> String {
        if at.is_zero() {
            return NEVER.to_owned();
        }
        format!("{} ago", length(self.now.saturating_since(at)))
    }

    /// How far ahead something is; a time that has come is now.
    pub(crate) fn ahead(&self, at: UnixNanos) -> String {
        if at <= self.now {
            return "now".to_owned();
        }
        format!("{} from now", length(at.saturating_since(self.now)))
    }
}

/// A length of time in its two largest units.
pub(crate) fn length(duration: Duration) -> String {
    const UNITS: [(u64, &str); 6] = [
        (365 * 86_400, "y"),
        (30 * 86_400, "mo"),
        (86_400, "d"),
        (3_600, "h"),
        (60, "m"),
        (1, "s"),
    ];
    let mut left = duration.as_secs();
    let mut text = String::new();
    let mut shown = 0;
    for (seconds, unit) in UNITS {
        let count = left / seconds;
        left %= seconds;
        if count > 0 && shown < 2 {
            text.push_str(&format!("{count}{unit}"));
            shown += 1;
        } else if shown > 0 {
            // Never two units with a hole between them.
            break;
        }
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

/// Bytes in the largest unit that leaves a whole part.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut tenths = u128::from(count) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, UNITS[unit]),
        tenth => format!("{}.{tenth} {}", tenths / 10, UNITS[unit]),
    }
}

/// Mebibytes in the largest unit that leaves a whole part.
pub(crate) fn mebibytes(count: i64) -> String {
    bytes(u64::try_from(count).unwrap_or(0).saturating_mul(MIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_told_in_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (3_600, "1h"),
            (3_661, "1h1m"),
            (3_601, "1h"),
            (90_000, "1d1h"),
            (400 * 86_400, "1y1mo"),
        ] {
            assert_eq!(length(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn sizes_are_told_in_the_largest_unit() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (300 * MIB, "300 MiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
