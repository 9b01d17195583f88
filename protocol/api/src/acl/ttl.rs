//! Serde form of a token's `ExpirationTTL`: Go's notation, empty for none; nanoseconds are read,
//! too.

use std::time::Duration;

use protocol_model::duration::text;
use serde::Serializer;

pub(super) use text::deserialize;

pub(super) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if duration.is_zero() {
        return serializer.serialize_str("");
    }
    text::serialize(duration, serializer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Token, TokenRequest};

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
    fn token_without_a_ttl_has_an_empty_one() {
        let mut token = Token::default();
        let written = serde_json::to_value(&token).unwrap();
        assert_eq!(written["ExpirationTTL"], "");
        assert_eq!(serde_json::from_value::<Token>(written).unwrap(), token);
        token.expiration_ttl = Duration::from_secs(600);
        let written = serde_json::to_value(&token).unwrap();
        assert_eq!(written["ExpirationTTL"], "10m0s");
    }
}
