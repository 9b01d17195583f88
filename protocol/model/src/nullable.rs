//! Serde form of collections: the API writes an empty one as `null` and reads `null` as an empty
//! one. Use as `#[serde(with = "nullable")]`. Also [`or_default`], for every other field: clients
//! send `null` for what they leave out, whatever its type.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A collection that can be empty.
pub trait Collection {
    /// Whether nothing is in it.
    fn is_empty(&self) -> bool;
}

impl<T> Collection for Vec<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Collection for BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Collection for BTreeSet<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Writes `null` for an empty collection.
pub fn serialize<T: Collection + Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if value.is_empty() {
        serializer.serialize_none()
    } else {
        value.serialize(serializer)
    }
}

/// Reads `null` as an empty collection.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    or_default(deserializer)
}

/// Reads `null` as the type's default value.
pub fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
