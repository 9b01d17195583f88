//! Serde form of an id that may be absent: the API writes the empty string, never `null`.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer};

/// Writes the id, or `""`.
pub fn serialize<T: Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(id) => serializer.collect_str(id),
        None => serializer.serialize_str(""),
    }
}

/// Reads an id; `""` and `null` are none.
pub fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error>
where
    T::Err: Display,
{
    match Option::<String>::deserialize(deserializer)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}
