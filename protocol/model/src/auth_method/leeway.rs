//! Spans that may be negative: a leeway below zero means that there is none.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::{DurationError, format_go, parse_go};

/// Nanoseconds. A text in Go's notation in JSON; nanoseconds are read too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Leeway(pub i64);

impl Leeway {
    /// The leeway that applies: `default` for zero, none where it is negative.
    pub fn or(self, default: Duration) -> Duration {
        match self.0 {
            0 => default,
            nanos => Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)),
        }
    }

    fn parse(text: &str) -> Result<Self, DurationError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(Self::default());
        }
        let (sign, span) = match trimmed.strip_prefix('-') {
            Some(rest) if !rest.starts_with(['-', '+']) => (-1, rest),
            _ => (1, trimmed),
        };
        let nanos = parse_go(span)?.as_nanos();
        let nanos = i64::try_from(nanos).map_err(|_| DurationError::TooLong {
            text: text.to_owned(),
        })?;
        Ok(Self(sign * nanos))
    }
}

impl Serialize for Leeway {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let span = format_go(Duration::from_nanos(self.0.unsigned_abs()));
        let sign = if self.0 < 0 { "-" } else { "" };
        serializer.collect_str(&format_args!("{sign}{span}"))
    }
}

impl<'de> Deserialize<'de> for Leeway {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Incoming)
    }
}

struct Incoming;

impl Visitor<'_> for Incoming {
    type Value = Leeway;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration: nanoseconds, or a text like \"30s\"")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Leeway, E> {
        Ok(Leeway::default())
    }

    fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<Leeway, E> {
        Ok(Leeway(nanos))
    }

    fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<Leeway, E> {
        i64::try_from(nanos).map(Leeway).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, nanos: f64) -> Result<Leeway, E> {
        // Clients whose numbers are all floating point write 3e10; 2^53 ns is 104 days.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if nanos.fract() != 0.0 || nanos.abs() > EXACT_MAX {
            return Err(E::custom(DurationError::Malformed {
                text: nanos.to_string(),
            }));
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        Ok(Leeway(nanos as i64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Leeway, E> {
        Leeway::parse(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leeway_zero_means_the_default_and_negative_means_none() {
        let default = Duration::from_secs(150);
        assert_eq!(Leeway(0).or(default), default);
        assert_eq!(Leeway(-1).or(default), Duration::ZERO);
        assert_eq!(Leeway(5).or(default), Duration::from_nanos(5));
    }

    #[test]
    fn leeway_reads_texts_numbers_and_null() {
        for (json, nanos) in [
            ("null", 0),
            ("\"\"", 0),
            ("\"-1s\"", -1_000_000_000),
            ("\"1m\"", 60_000_000_000),
            ("-5", -5),
            ("3e10", 30_000_000_000),
        ] {
            assert_eq!(
                serde_json::from_str::<Leeway>(json).ok(),
                Some(Leeway(nanos)),
                "{json}"
            );
        }
        for json in ["\"--1s\"", "\"x\"", "1.5", "true", "1e300"] {
            serde_json::from_str::<Leeway>(json).expect_err(json);
        }
    }
}
