//! The items of a variable as they are read: an error names the place and the kind that is missing,
//! and never the value, which is a secret.

use std::fmt;

use protocol_model::SecretText;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::variables::VariableItems;

/// Reads the items; `null` = none.
///
/// # Errors
/// Where they are no object, or a value is no text.
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<VariableItems>, D::Error> {
    from.deserialize_any(Items)
}

/// Refuses each kind of value with the same words.
macro_rules! refuse {
    ($($name:ident: $kind:ty),*) => {$(
        fn $name<E: Error>(self, _: $kind) -> Result<Self::Value, E> {
            Err(E::custom(Self::REFUSAL))
        }
    )*};
}

struct Items;

impl Items {
    const REFUSAL: &str = "Items: expected an object of texts";
}

impl<'de> Visitor<'de> for Items {
    type Value = Option<VariableItems>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut items = VariableItems::new();
        while let Some((key, Item(value))) = map.next_entry()? {
            items.insert(key, value);
        }
        Ok(Some(items))
    }

    refuse! { visit_str: &str, visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64 }
}

struct Item(SecretText);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfItem)
    }
}

struct OfItem;

impl OfItem {
    const REFUSAL: &str = "Items: expected a string as the value of each key";
}

impl Visitor<'_> for OfItem {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        Ok(Item(SecretText::new(text)))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Item, E> {
        Ok(Item(SecretText::new(text)))
    }

    refuse! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64 }
}

#[cfg(test)]
mod tests {
    use crate::variables::VariableRequest;

    #[test]
    fn items_of_another_kind_are_refused_without_their_value() {
        for body in [
            r#"{"Items": "planted"}"#,
            r#"{"Items": {"k": ["planted"]}}"#,
            r#"{"Items": {"k": {"planted": 1}}}"#,
            r#"{"Items": ["planted"]}"#,
            r#"{"Items": 4711}"#,
            r#"{"Items": {"k": 4711}}"#,
            r#"{"Items": {"k": -4711.5}}"#,
            r#"{"Items": {"k": null}}"#,
        ] {
            let refused = serde_json::from_str::<VariableRequest>(body).expect_err(body);
            let text = refused.to_string();
            let is_shown = text.contains("planted") || text.contains("4711");
            assert!(!is_shown, "{body}: {text}");
            assert!(text.contains("expected"), "{body}: {text}");
        }
        for body in [r#"{"Items": null}"#, "{}"] {
            let read: VariableRequest = serde_json::from_str(body).expect(body);
            assert_eq!(read.items, None);
        }
        let body = r#"{"Items": {"k": "v", "": ""}}"#;
        let read: VariableRequest = serde_json::from_str(body).expect(body);
        assert_eq!(read.items.map(|items| items.len()), Some(2));
    }
}
