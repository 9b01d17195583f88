//! Finds every field of a type by reading it from a source that has one of everything.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

/// What is known while a type is read.
pub(super) struct Trace {
    /// Paths that are read as absent: nothing below is looked at.
    pub(super) leaves: BTreeSet<String>,
    pub(super) found: RefCell<BTreeSet<String>>,
}

/// Reads the value at one path.
pub(super) struct Tracer<'t> {
    pub(super) trace: &'t Trace,
    pub(super) path: String,
}

impl<'t> Tracer<'t> {
    fn child(&self, name: &str) -> Self {
        let path = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        };
        self.trace.found.borrow_mut().insert(path.clone());
        Self {
            trace: self.trace,
            path,
        }
    }

    fn element(&self) -> Self {
        Self {
            trace: self.trace,
            path: format!("{}[]", self.path),
        }
    }

    fn is_leaf(&self) -> bool {
        self.trace.leaves.contains(&self.path)
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $value:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit($value)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    numbers! {
        deserialize_any visit_u64 1;
        deserialize_bool visit_bool true;
        deserialize_str visit_str "x";
        deserialize_string visit_str "x";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_leaf() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(One(Some(self.element())))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(serde::de::value::MapDeserializer::new(std::iter::empty::<(
            &str,
            &str,
        )>()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields {
            parent: self,
            left: fields,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(First(variants[0]))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct identifier ignored_any
    }
}

/// A sequence of one element.
struct One<'t>(Option<Tracer<'t>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0
            .take()
            .map(|tracer| seed.deserialize(tracer))
            .transpose()
    }
}

/// Every field of a struct.
struct Fields<'t> {
    parent: Tracer<'t>,
    left: &'static [&'static str],
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.left.first() else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, rest) = self.left.split_first().expect("a key was asked for");
        self.left = rest;
        seed.deserialize(self.parent.child(name))
    }
}

/// The first variant, without content.
struct First(&'static str);

impl<'de> EnumAccess<'de> for First {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name: StrDeserializer<'_, Error> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for First {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let content: StrDeserializer<'_, Error> = "x".into_deserializer();
        seed.deserialize(content)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("x")
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_str("x")
    }
}
