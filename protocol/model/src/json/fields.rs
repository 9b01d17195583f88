//! The object of a structure: keys are matched with its fields.
//!
//! ```text
//!   key  --is a field--------------------> field, value read at once
//!        --a field in another case-------> its value is set aside, unread
//!        --no field----------------------> the key as it is
//!   end  --set aside, and no exact key---> field, value read now
//! ```
//!
//! A value is set aside because the exact key may come later. It is borrowed text, at most one per
//! field, so that a document costs no memory by its keys.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::any_case::{AnyCase, Names, Seed};
use super::place::Document;

/// See the top of this file.
pub(super) struct FieldAccess<'de, 'r, A> {
    inner: A,
    document: Document<'r>,
    fields: Names,
    /// Fields that were there in their own spelling.
    exact: Vec<bool>,
    /// The last value of another spelling, by field.
    aside: Vec<Option<&'de RawValue>>,
    /// Where the fields that were set aside are handed out; `None` before the object's end.
    late: Option<usize>,
    /// The value of the field that was handed out last, where it was set aside.
    value: Option<&'de RawValue>,
}

impl<'de, 'r, A: MapAccess<'de>> FieldAccess<'de, 'r, A> {
    pub(super) fn new(inner: A, fields: Names, document: Document<'r>) -> Self {
        Self {
            inner,
            document,
            fields,
            exact: vec![false; fields.len()],
            aside: Vec::new(),
            late: None,
            value: None,
        }
    }

    /// The next key that is handed out before the object's end.
    fn next_early(&mut self) -> Result<Option<Early<'de>>, A::Error> {
        while let Some(Key(key)) = self.inner.next_key_seed(KeySeed)? {
            if let Some(field) = self.fields.iter().position(|field| *field == key) {
                self.exact[field] = true;
                return Ok(Some(Early::Field(self.fields[field])));
            }
            let is_other_case = |field: &&str| field.eq_ignore_ascii_case(&key);
            let Some(field) = self.fields.iter().position(is_other_case) else {
                return Ok(Some(Early::Unknown(key)));
            };
            let value = self.inner.next_value()?;
            self.aside.resize(self.fields.len(), None);
            self.aside[field] = Some(value);
        }
        Ok(None)
    }

    /// The next field that was set aside and is not there in its own spelling.
    fn next_late(&mut self, from: usize) -> Option<&'static str> {
        let mut set_aside = self.aside.iter().enumerate().skip(from);
        let (field, value) = set_aside.find_map(|(field, value)| {
            let value = value.filter(|_| !self.exact[field])?;
            Some((field, value))
        })?;
        self.late = Some(field + 1);
        self.value = Some(value);
        Some(self.fields[field])
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FieldAccess<'de, '_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        if self.late.is_none() {
            match self.next_early()? {
                Some(Early::Field(name)) => return name_for(seed, name).map(Some),
                Some(Early::Unknown(key)) => return name_for(seed, &key).map(Some),
                None => self.late = Some(0),
            }
        }
        let from = self.late.unwrap_or_default();
        let next = self.next_late(from);
        next.map(|name| name_for(seed, name)).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let document = self.document;
        let Some(part) = self.value.take() else {
            return self.inner.next_value_seed(Seed { seed, document });
        };
        let mut reader = serde_json::Deserializer::from_str(part.get());
        seed.deserialize(AnyCase::new(&mut reader, document))
            .map_err(|error| document.placed(part, &error))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A key that is handed out at once.
enum Early<'de> {
    Field(&'static str),
    Unknown(Cow<'de, str>),
}

fn name_for<'de, K: DeserializeSeed<'de>, E: Error>(seed: K, name: &str) -> Result<K::Value, E> {
    let name: StrDeserializer<'_, E> = name.into_deserializer();
    seed.deserialize(name)
}

/// A key, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key<'de>;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<Key<'de>, D::Error> {
        inner.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(key.to_owned())))
    }
}
