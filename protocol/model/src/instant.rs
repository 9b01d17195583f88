//! Points in time as the API writes them: integer nanoseconds since the Unix epoch.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch, UTC. Zero means "not yet" wherever the API uses it so.
///
/// In replicated state it is stamped by whoever proposed the command, never read from a clock, and
/// never moves backwards: a command's time is `max(state time, proposer's clock)`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// The time that means "not yet".
    pub const ZERO: Self = Self(0);

    /// This time plus `duration`, saturating at the year 2262.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)),
        )
    }

    /// The time since `earlier`; zero where `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The whole second at or before this time.
    #[must_use]
    pub fn floor_to_second(self) -> Self {
        let nanos = self.0.rem_euclid(1_000_000_000);
        Self(self.0.saturating_sub(nanos))
    }

    /// Whether this is the time that means "not yet".
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Serde form of the API fields that are RFC 3339 texts, where `None` is `null` and the zero time
/// of other clients (`0001-01-01T00:00:00Z`) is read as `None`.
pub mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::UnixNanos;

    /// Writes the time as RFC 3339 with nanoseconds, or `null`.
    pub fn serialize<S: Serializer>(
        value: &Option<UnixNanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            None => serializer.serialize_none(),
            Some(at) => serializer.serialize_str(&super::format_rfc3339(*at)),
        }
    }

    /// Reads RFC 3339, `null`, or the zero time.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<UnixNanos>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else {
            return Ok(None);
        };
        if text.starts_with("0001-01-01T00:00:00") {
            return Ok(None);
        }
        let at: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        i64::try_from(at.as_nanosecond())
            .map(|nanos| Some(UnixNanos(nanos)))
            .map_err(serde::de::Error::custom)
    }
}

/// Serde form of the API fields that are RFC 3339 texts and always there. Integer nanoseconds are
/// read too; `null` and the zero time of other clients are read as [`UnixNanos::ZERO`].
pub mod rfc3339_always {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::UnixNanos;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Nanos(i64),
        Text(String),
    }

    /// Writes the time as RFC 3339 with nanoseconds.
    pub fn serialize<S: Serializer>(at: &UnixNanos, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_rfc3339(*at))
    }

    /// Reads RFC 3339 or nanoseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UnixNanos, D::Error> {
        let text = match Option::<Written>::deserialize(deserializer)? {
            None => return Ok(UnixNanos::ZERO),
            Some(Written::Nanos(nanos)) => return Ok(UnixNanos(nanos)),
            Some(Written::Text(text)) => text,
        };
        if text.starts_with("0001-01-01T00:00:00") {
            return Ok(UnixNanos::ZERO);
        }
        let at: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        let nanos = i64::try_from(at.as_nanosecond()).map_err(serde::de::Error::custom)?;
        Ok(UnixNanos(nanos))
    }
}

/// The time as RFC 3339 in UTC, as the API and people read it.
pub fn format_rfc3339(at: UnixNanos) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at.0))
        .map_or_else(|_| at.0.to_string(), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(UnixNanos(5).saturating_since(UnixNanos(9)), Duration::ZERO);
        assert_eq!(
            UnixNanos(i64::MAX).saturating_add(Duration::from_secs(1)).0,
            i64::MAX
        );
    }

    #[test]
    fn a_time_that_is_always_there_survives_its_text_and_is_read_from_nanoseconds() {
        #[derive(PartialEq, Debug, Serialize, Deserialize)]
        struct At(#[serde(with = "rfc3339_always")] UnixNanos);
        for nanos in [0, 1_500_000_001, 1_795_249_936_151_905_014] {
            let text = serde_json::to_string(&At(UnixNanos(nanos))).expect("a text");
            assert!(text.starts_with('"'), "{text}");
            assert_eq!(
                serde_json::from_str::<At>(&text).ok(),
                Some(At(UnixNanos(nanos)))
            );
            let number = serde_json::from_str::<At>(&nanos.to_string()).ok();
            assert_eq!(number, Some(At(UnixNanos(nanos))));
        }
    }

    #[test]
    fn times_are_written_as_rfc3339() {
        assert_eq!(
            format_rfc3339(UnixNanos(1_500_000_000)),
            "1970-01-01T00:00:01.5Z"
        );
    }
}
