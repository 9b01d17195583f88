//! Variables and their locks.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::duration::text;
use protocol_model::nullable::{self, or_default};
use protocol_model::{SecretText, UnixNanos};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::endpoint::Parameter;
use crate::needs::{DESTROY_VARIABLE, READ_VARIABLE, SHOWN, WRITE_VARIABLE};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE};

const PREFIX: Parameter = Parameter::text("prefix", "only paths that begin with it");
const CAS: Parameter = Parameter::number(
    "cas",
    "the modify index that the variable must have; 0: it must not exist",
);
const LOCK_ACQUIRE: Parameter = Parameter::flag("lock-acquire", "acquires the variable's lock");
const LOCK_RENEW: Parameter = Parameter::flag("lock-renew", "renews the lock of the body");
const LOCK_RELEASE: Parameter = Parameter::flag("lock-release", "releases the lock of the body");

/// The largest body of a write, in bytes: JSON writes a control character with 6 bytes.
const BODY_BYTES_MAX: usize = 512 * 1024;

operations! {
    /// list variables, without their items
    ListVariables {} -> Vec<VariableMetadata> = get("/v1/vars", SHOWN)
        .parameters(&[PREFIX, PER_PAGE, NEXT_TOKEN]).filterable();
    /// read a variable
    ReadVariable { path } -> Variable = get("/v1/var/{path...}", READ_VARIABLE);
    /// write a variable, or acquire, renew or release its lock
    WriteVariable { path } (VariableRequest) -> Variable =
        put("/v1/var/{path...}", WRITE_VARIABLE)
        .parameters(&[CAS, LOCK_ACQUIRE, LOCK_RENEW, LOCK_RELEASE])
        .body_bytes_max(BODY_BYTES_MAX);
    /// delete a variable
    DeleteVariable { path } (VariableRequest) = delete("/v1/var/{path...}", DESTROY_VARIABLE)
        .parameters(&[CAS]).optional_body().body_bytes_max(BODY_BYTES_MAX);
}

/// Keys and values of a variable.
pub type VariableItems = BTreeMap<String, SecretText>;

/// The body of [`WriteVariable`] and [`DeleteVariable`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VariableRequest {
    /// Its namespace; empty = that of the query.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Ignored: the path of the request counts.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// Keys and values, at most 64 KiB in all.
    #[serde(deserialize_with = "items")]
    pub items: Option<VariableItems>,
    /// The lock to acquire, or the one that the caller holds.
    pub lock: Option<VariableLock>,
}

/// Reads items. An error names a key and never shows a value, as serde's own errors would.
fn items<'de, D: Deserializer<'de>>(input: D) -> Result<Option<VariableItems>, D::Error> {
    let object = match Value::deserialize(input)? {
        Value::Null => return Ok(None),
        Value::Object(object) => object,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(D::Error::custom("Items is no object of texts"));
        }
    };
    let mut items = VariableItems::new();
    for (key, value) in object {
        let Value::String(text) = value else {
            return Err(D::Error::custom(format!(
                "Items: the value of {key:?} is no text"
            )));
        };
        items.insert(key, SecretText::new(text));
    }
    Ok(Some(items))
}

/// A variable.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Variable {
    pub namespace: String,
    pub path: String,
    pub create_index: u64,
    /// Nanoseconds since 1970.
    pub create_time: UnixNanos,
    pub modify_index: u64,
    /// Nanoseconds since 1970.
    pub modify_time: UnixNanos,
    /// Keys and values; `null` where they are not shown to the caller.
    pub items: Option<VariableItems>,
    /// Its lock, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<VariableLock>,
}

/// A variable without its items.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VariableMetadata {
    pub namespace: String,
    pub path: String,
    pub create_index: u64,
    /// Nanoseconds since 1970.
    pub create_time: UnixNanos,
    pub modify_index: u64,
    /// Nanoseconds since 1970.
    pub modify_time: UnixNanos,
    /// Its lock, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<VariableLock>,
}

/// A lock on a variable.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VariableLock {
    /// The secret that its holder shows; left out for other callers.
    #[serde(
        rename = "ID",
        skip_serializing_if = "SecretText::is_empty",
        deserialize_with = "nullable::deserialize"
    )]
    pub id: SecretText,
    /// The time for which a renewal holds it: 10 s to 24 h; 15 s where it is empty.
    #[serde(rename = "TTL", with = "text")]
    pub ttl: Duration,
    /// The time for which it blocks others once it has expired; 15 s where it is empty.
    #[serde(with = "text")]
    pub lock_delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_lock_are_read_as_text_or_nanoseconds_and_written_as_text() {
        for ttl in ["\"15s\"", "15000000000"] {
            let body = format!("{{\"Lock\": {{\"TTL\": {ttl}, \"LockDelay\": null}}}}");
            let read: VariableRequest = protocol_model::json::from_str(&body).unwrap();
            let lock = read.lock.unwrap();
            assert_eq!((lock.ttl.as_secs(), lock.lock_delay.as_secs()), (15, 0));
            let written = serde_json::to_value(&lock).unwrap();
            assert_eq!(written["TTL"], "15s");
        }
    }

    #[test]
    fn errors_of_items_show_no_value() {
        for (items, named) in [
            ("\"v-secret\"", "Items is no object"),
            ("[\"v-secret\"]", "Items is no object"),
            ("{\"k\": [\"v-secret\"]}", "the value of \"k\" is no text"),
            ("{\"k\": 123456}", "the value of \"k\" is no text"),
        ] {
            let body = format!("{{\"Items\": {items}}}");
            let read = protocol_model::json::from_str::<VariableRequest>(&body);
            let error = read.unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
            assert!(
                !error.contains("secret") && !error.contains("1234"),
                "{error}"
            );
        }
        for body in ["{}", "{\"Items\": null}"] {
            let read: VariableRequest = protocol_model::json::from_str(body).unwrap();
            assert_eq!(read.items, None);
        }
    }

    #[test]
    fn debug_shows_no_value_and_no_lock_id() {
        let lock = VariableLock {
            id: SecretText::new("lock-secret"),
            ..VariableLock::default()
        };
        let request = VariableRequest {
            items: Some([("k".to_owned(), SecretText::new("v-secret"))].into()),
            lock: Some(lock),
            ..VariableRequest::default()
        };
        let shown = format!("{request:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
