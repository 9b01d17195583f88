//! Durations of access control's objects: Go's notation in answers, empty for zero; that or
//! nanoseconds in requests.

use std::time::Duration;

use protocol_model::duration::{DurationError, format_go, parse_go};
use serde::{Deserialize, Deserializer};

/// A duration in Go's notation that may be below zero, in nanoseconds; empty is zero.
///
/// # Errors
/// Where it is no duration.
pub fn parse_signed(text: &str) -> Result<i64, DurationError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(0);
    }
    let (sign, length) = match trimmed.strip_prefix('-') {
        Some(rest) => (-1, parse_go(rest)?),
        None => (1, parse_go(trimmed)?),
    };
    Ok(sign * i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
}

/// Nanoseconds in Go's notation; zero is empty.
pub fn format_signed(nanos: i64) -> String {
    let length = format_go(Duration::from_nanos(nanos.unsigned_abs()));
    match nanos {
        0 => String::new(),
        1.. => length,
        _ => format!("-{length}"),
    }
}

/// A duration as it may come in.
#[derive(Deserialize)]
#[serde(untagged)]
enum Incoming {
    Nanos(i64),
    // Clients whose numbers are all floating point write large nanoseconds as 3e10.
    Float(f64),
    Text(String),
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    use serde::de::Error;
    match Option::<Incoming>::deserialize(deserializer)? {
        None => Ok(0),
        Some(Incoming::Nanos(nanos)) => Ok(nanos),
        Some(Incoming::Float(nanos)) => {
            let magnitude =
                Duration::try_from_secs_f64(nanos.abs() / 1e9).map_err(D::Error::custom)?;
            let magnitude = i64::try_from(magnitude.as_nanos()).map_err(D::Error::custom)?;
            Ok(if nanos < 0.0 { -magnitude } else { magnitude })
        }
        Some(Incoming::Text(text)) => parse_signed(&text).map_err(D::Error::custom),
    }
}

/// Serde form of nanoseconds that may be below zero.
pub(super) mod signed {
    use serde::{Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        nanos: &i64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_signed(*nanos))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i64, D::Error> {
        super::read(deserializer)
    }
}

/// Serde form of a duration; one below zero is refused.
pub(super) mod unsigned {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        serializer.serialize_str(&super::format_signed(nanos))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let nanos = super::read(deserializer)?;
        let nanos = u64::try_from(nanos).map_err(|_| {
            D::Error::custom(super::DurationError::Negative {
                text: super::format_signed(nanos),
            })
        })?;
        Ok(Duration::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AuthMethodConfig, TokenRequest};

    fn ttl(value: &str) -> Result<u64, String> {
        let body = format!("{{\"ExpirationTTL\":{value}}}");
        let read = protocol_model::json::from_str::<TokenRequest>(&body);
        read.map(|it| it.expiration_ttl.as_secs())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn ttl_is_read_as_text_or_nanoseconds() {
        for (value, seconds) in [
            ("\"10m\"", 600),
            ("600000000000", 600),
            ("6e11", 600),
            ("\"\"", 0),
            ("null", 0),
            ("0", 0),
        ] {
            assert_eq!(ttl(value), Ok(seconds), "{value}");
        }
        assert!(ttl("\"-1m\"").unwrap_err().contains("cannot be negative"));
        assert!(ttl("\"soon\"").unwrap_err().contains("not a duration"));
    }

    #[test]
    fn leeway_below_zero_survives_its_text() {
        let config = AuthMethodConfig {
            expiration_leeway: -1_500_000_000,
            ..AuthMethodConfig::default()
        };
        let text = serde_json::to_string(&config).unwrap();
        assert!(text.contains("\"ExpirationLeeway\":\"-1.5s\""), "{text}");
        assert_eq!(
            serde_json::from_str::<AuthMethodConfig>(&text).ok(),
            Some(config)
        );
    }
}
