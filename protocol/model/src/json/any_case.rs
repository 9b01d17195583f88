//! A deserializer around another one: everything passes through, but a structure's visitor is shown
//! an object whose keys were matched with its fields ([`FieldAccess`]), and everything inside is
//! wrapped in the same way.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::fields::FieldAccess;
use super::place::Document;

/// Names of fields, as derived code hands them over.
pub(super) type Names = &'static [&'static str];

/// See the top of this file.
pub(super) struct AnyCase<'r, D> {
    inner: D,
    document: Document<'r>,
}

impl<'r, D> AnyCase<'r, D> {
    pub(super) fn new(inner: D, document: Document<'r>) -> Self {
        Self { inner, document }
    }

    fn shown<V>(&self, visitor: V) -> Shown<'r, V> {
        Shown {
            visitor,
            document: self.document,
            fields: None,
        }
    }

    fn shown_fields<V>(&self, visitor: V, fields: Names) -> Shown<'r, V> {
        Shown {
            fields: Some(fields),
            ..self.shown(visitor)
        }
    }
}

macro_rules! pass_through {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V)
            -> Result<V::Value, D::Error>
        {
            let shown = self.shown(visitor);
            self.inner.$method($($argument,)* shown)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for AnyCase<'_, D> {
    type Error = D::Error;

    pass_through! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: Names);
        deserialize_identifier();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let shown = self.shown_fields(visitor, fields);
        self.inner.deserialize_struct(name, fields, shown)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor that sees wrapped insides.
struct Shown<'r, V> {
    visitor: V,
    document: Document<'r>,
    /// The fields of a structure; `None` for a map.
    fields: Option<Names>,
}

macro_rules! pass_values {
    ($($method:ident $type:ty;)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Shown<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    pass_values! {
        visit_bool bool;
        visit_i8 i8;
        visit_i16 i16;
        visit_i32 i32;
        visit_i64 i64;
        visit_i128 i128;
        visit_u8 u8;
        visit_u16 u16;
        visit_u32 u32;
        visit_u64 u64;
        visit_u128 u128;
        visit_f32 f32;
        visit_f64 f64;
        visit_char char;
        visit_str &str;
        visit_borrowed_str &'de str;
        visit_string String;
        visit_bytes &[u8];
        visit_borrowed_bytes &'de [u8];
        visit_byte_buf Vec<u8>;
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(AnyCase::new(inner, self.document))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = AnyCase::new(inner, self.document);
        self.visitor.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let document = self.document.deeper()?;
        self.visitor.visit_seq(Inside { inner, document })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let document = self.document.deeper()?;
        match self.fields {
            None => self.visitor.visit_map(Inside { inner, document }),
            Some(fields) => {
                let access = FieldAccess::new(inner, fields, document);
                self.visitor.visit_map(access)
            }
        }
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let document = self.document;
        self.visitor.visit_enum(Inside { inner, document })
    }
}

/// What a list, a map or an enum holds.
struct Inside<'r, A> {
    inner: A,
    document: Document<'r>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        let document = self.document;
        self.inner.next_element_seed(Seed { seed, document })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let document = self.document;
        self.inner.next_value_seed(Seed { seed, document })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'r, A: EnumAccess<'de>> EnumAccess<'de> for Inside<'r, A> {
    type Error = A::Error;
    type Variant = Inside<'r, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Self::Variant), A::Error> {
        let document = self.document;
        let (variant, inner) = self.inner.variant_seed(seed)?;
        Ok((variant, Inside { inner, document }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        let document = self.document;
        self.inner.newtype_variant_seed(Seed { seed, document })
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let shown = Shown {
            visitor,
            document: self.document,
            fields: None,
        };
        self.inner.tuple_variant(length, shown)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let shown = Shown {
            visitor,
            document: self.document,
            fields: Some(fields),
        };
        self.inner.struct_variant(fields, shown)
    }
}

/// A seed that reads through [`AnyCase`].
pub(super) struct Seed<'r, T> {
    pub(super) seed: T,
    pub(super) document: Document<'r>,
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        self.seed.deserialize(AnyCase::new(inner, self.document))
    }
}
