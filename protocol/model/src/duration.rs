//! Durations: integer nanoseconds in JSON, Go's notation (`1h30m`, `500ms`) in job files and on
//! input. Negative ones are refused: no field of the model means anything by them.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// A text or number that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It is not in Go's notation.
    #[error("not a duration: {text:?} (expected one like \"30s\", \"1h30m\" or \"500ms\")")]
    Malformed {
        /// The text.
        text: String,
    },
    /// It is below zero.
    #[error("a duration cannot be negative: {text:?}")]
    Negative {
        /// The text.
        text: String,
    },
    /// It does not fit in 64 bits of nanoseconds, about 292 years.
    #[error("a duration of more than 292 years: {text:?}")]
    TooLong {
        /// The text.
        text: String,
    },
}

/// The longest duration that the API can carry: 2^63 - 1 ns.
const NANOS_MAX: u128 = i64::MAX as u128;

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration in Go's notation: numbers with units (`ns`, `us`, `ms`, `s`, `m`, `h`),
/// fractions allowed, or a bare `0`. Negative durations are refused.
pub fn parse_go(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed {
        text: text.to_owned(),
    };
    let too_long = || DurationError::TooLong {
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    let (negative, mut rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number_len = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(malformed)?;
        let (number, after) = rest.split_at(number_len);
        let unit_len = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(malformed());
        }
        nanos += scaled(whole, fraction, *scale).ok_or_else(too_long)?;
        if nanos > NANOS_MAX {
            return Err(too_long());
        }
        rest = after;
    }
    if negative && nanos > 0 {
        return Err(DurationError::Negative {
            text: text.to_owned(),
        });
    }
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| too_long())
}

/// `whole.fraction` units of `scale` nanoseconds, rounded down. Both parts are decimal digits.
/// `None` when it is out of range.
fn scaled(whole: &str, fraction: &str, scale: u128) -> Option<u128> {
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u128>().ok()?
    };
    // 18 digits reach below a nanosecond for the largest unit and keep the product in range.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u128>().ok()?
    };
    let divisor = fraction.bytes().fold(1_u128, |divisor, _| divisor * 10);
    whole
        .checked_mul(scale)?
        .checked_add(part * scale / divisor)
}

/// Writes a duration in Go's notation: `1h30m0s`, `1.5s`, `500ms`, `0s`.
pub fn format_go(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos < 1_000_000_000 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}\u{b5}s", decimal(nanos, 1_000)),
            _ => format!("{}ms", decimal(nanos, 1_000_000)),
        };
    }
    let minutes = nanos / 60_000_000_000;
    let mut text = String::new();
    if minutes >= 60 {
        text.push_str(&format!("{}h", minutes / 60));
    }
    if minutes > 0 {
        text.push_str(&format!("{}m", minutes % 60));
    }
    text + &decimal(nanos % 60_000_000_000, 1_000_000_000) + "s"
}

/// `nanos / unit` with as many decimals as it needs; `unit` is a power of ten.
fn decimal(nanos: u128, unit: u128) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    // Adding the unit keeps the leading zeros of the rest; the digit it adds is cut off.
    let digits = (rest + unit).to_string();
    format!("{whole}.{}", digits[1..].trim_end_matches('0'))
}

/// A duration as it may come in: `null`, nanoseconds, or Go's notation.
struct Incoming {
    /// Whether the empty text means zero.
    empty_is_zero: bool,
}

impl Visitor<'_> for Incoming {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration: nanoseconds, or a text like \"30s\"")
    }

    fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<Duration, E> {
        if u128::from(nanos) > NANOS_MAX {
            return Err(E::custom(DurationError::TooLong {
                text: nanos.to_string(),
            }));
        }
        Ok(Duration::from_nanos(nanos))
    }

    fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<Duration, E> {
        let nanos = u64::try_from(nanos).map_err(|_| {
            E::custom(DurationError::Negative {
                text: nanos.to_string(),
            })
        })?;
        self.visit_u64(nanos)
    }

    // Clients whose numbers are all floating point write large nanoseconds as 3e10.
    fn visit_f64<E: de::Error>(self, nanos: f64) -> Result<Duration, E> {
        if nanos < 0.0 {
            return Err(E::custom(DurationError::Negative {
                text: nanos.to_string(),
            }));
        }
        if nanos.fract() != 0.0 {
            return Err(E::custom(DurationError::Malformed {
                text: nanos.to_string(),
            }));
        }
        Duration::try_from_secs_f64(nanos / 1e9)
            .ok()
            .filter(|duration| duration.as_nanos() <= NANOS_MAX)
            .ok_or_else(|| {
                E::custom(DurationError::TooLong {
                    text: nanos.to_string(),
                })
            })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        if self.empty_is_zero && text.is_empty() {
            return Ok(Duration::ZERO);
        }
        parse_go(text).map_err(E::custom)
    }
}

/// A duration behind `Option`.
struct Present(Duration);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(Incoming {
                empty_is_zero: false,
            })
            .map(Self)
    }
}

/// Nanoseconds as the API writes them; longer ones than it can carry become the longest.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().min(NANOS_MAX)).unwrap_or(u64::MAX)
}

/// Serde form of a duration that is never absent: `null` is read as zero.
pub mod ns {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes nanoseconds.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(super::nanos(*value))
    }

    /// Reads nanoseconds, Go's notation, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let present = Option::<super::Present>::deserialize(deserializer)?;
        Ok(present.map_or(Duration::ZERO, |present| present.0))
    }
}

/// Serde form of a duration that may be absent: `null`.
pub mod ns_option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes nanoseconds or `null`.
    pub fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => serializer.serialize_u64(super::nanos(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads nanoseconds, Go's notation, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let present = Option::<super::Present>::deserialize(deserializer)?;
        Ok(present.map(|present| present.0))
    }
}

/// Serde form of a duration that the API writes as a text in Go's notation: `null` and the empty
/// text are read as zero.
pub mod text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes Go's notation.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_go(*value))
    }

    /// Reads nanoseconds, Go's notation, the empty text, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let present = Option::<Incoming>::deserialize(deserializer)?;
        Ok(present.map_or(Duration::ZERO, |present| present.0))
    }

    struct Incoming(Duration);

    impl<'de> Deserialize<'de> for Incoming {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer
                .deserialize_any(super::Incoming {
                    empty_is_zero: true,
                })
                .map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[test]
    fn go_notation_is_read_as_go_reads_it() {
        let cases: [(&str, u64); 12] = [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            (".5m", 30_000_000_000),
            ("1m0.000000001s", 60_000_000_001),
            ("3us", 3_000),
            ("3\u{b5}s", 3_000),
            ("+7ns", 7),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse_go(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name() {
        for text in [
            "", "s", "30", "1.2.3s", "5 s", "1d", "abc", "-", ".s", "1h-5m",
        ] {
            let refused = DurationError::Malformed {
                text: text.to_owned(),
            };
            assert_eq!(parse_go(text), Err(refused), "{text}");
        }
        assert!(matches!(
            parse_go("-5s"),
            Err(DurationError::Negative { .. })
        ));
        assert!(matches!(
            parse_go("9999999h"),
            Err(DurationError::TooLong { .. })
        ));
        let digits = "9".repeat(60) + "h";
        assert!(matches!(
            parse_go(&digits),
            Err(DurationError::TooLong { .. })
        ));
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases: [(u64, &str); 8] = [
            (0, "0s"),
            (7, "7ns"),
            (1_100, "1.1\u{b5}s"),
            (500_000_000, "500ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (3_600_000_000_001, "1h0m0.000000001s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(format_go(Duration::from_nanos(nanos)), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(nanos in 0..i64::MAX) {
            let duration = Duration::from_nanos(nanos.unsigned_abs());
            proptest::prop_assert_eq!(parse_go(&format_go(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = parse_go(&text);
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Example {
        #[serde(default, with = "ns")]
        always: Duration,
        #[serde(default, with = "ns_option")]
        perhaps: Option<Duration>,
    }

    #[test]
    fn json_takes_nanoseconds_texts_and_null() -> Result<(), serde_json::Error> {
        let second = Duration::from_secs(1);
        let read: Example = serde_json::from_str(r#"{"always": "1s", "perhaps": 1000000000}"#)?;
        assert_eq!(
            read,
            Example {
                always: second,
                perhaps: Some(second)
            }
        );
        let written = serde_json::to_string(&read)?;
        assert_eq!(written, r#"{"always":1000000000,"perhaps":1000000000}"#);
        let read: Example = serde_json::from_str(r#"{"always": null, "perhaps": null}"#)?;
        assert_eq!(
            read,
            Example {
                always: Duration::ZERO,
                perhaps: None
            }
        );
        let read: Example = serde_json::from_str(r#"{"always": 1e9}"#)?;
        assert_eq!(
            read,
            Example {
                always: second,
                perhaps: None
            }
        );
        for bad in [r#"{"always": -1}"#, r#"{"perhaps": "-1s"}"#] {
            let refused = serde_json::from_str::<Example>(bad).map_err(|error| error.to_string());
            assert!(refused.is_err_and(|text| text.contains("negative") && text.contains("-1")));
        }
        Ok(())
    }
}
