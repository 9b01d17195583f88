//! JSON in which every object names each key once.
//!
//! Two parsers that choose different duplicates read two different tokens. Signed documents are
//! therefore refused where a key repeats, at every depth.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one document. Depth is bounded by `serde_json` (128 levels).
///
/// # Errors
/// Where the bytes are not JSON, or a key of an object repeats.
pub(crate) fn from_slice(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = items.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} repeats")));
            }
            let value = items.next_value_seed(Self)?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_with_unique_keys_reads_as_usual() {
        let text = r#"{"a":[1,-2,1.5,true,null,{"a":"x"}],"b":{}}"#;
        let read = from_slice(text.as_bytes()).expect("JSON");
        assert_eq!(read.to_string(), text);
    }

    #[test]
    fn repeated_key_is_refused_at_every_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            let error = from_slice(text.as_bytes()).expect_err("it repeats");
            assert!(error.to_string().contains("\"a\" repeats"), "{error}");
        }
        from_slice(b"{} x").expect_err("rubbish behind it");
    }
}
