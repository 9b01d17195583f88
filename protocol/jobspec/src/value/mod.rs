//! The values of the expression language, and how they turn into strings, numbers, booleans and
//! JSON. Lists and tuples are one variant, maps and objects another: a job file never needs the
//! difference, only sets are told apart because they iterate and compare by element.

mod number;

pub(crate) use self::number::Number;

use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How deep collections may nest. Reading, printing and dropping a value recurse.
pub(crate) const DEPTH_MAX: usize = 64;

/// An evaluated expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Self>),
    /// Sorted and without duplicates; [`Value::set`] is the only maker.
    Set(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl Value {
    pub(crate) fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn whole(number: impl Into<i128>) -> Self {
        Self::Number(Number::Whole(number.into()))
    }

    /// The number of elements or bytes as a value.
    pub(crate) fn count(count: usize) -> Self {
        Self::Number(Number::Whole(i128::try_from(count).unwrap_or(i128::MAX)))
    }

    pub(crate) fn set(mut elements: Vec<Self>) -> Self {
        elements.sort_by(Self::order);
        elements.dedup();
        Self::Set(elements)
    }

    /// What a message calls this kind of value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Set(_) => "a set",
            Self::Map(_) => "a map",
        }
    }

    /// The text of a primitive value; `None` for null and collections.
    pub(crate) fn to_text(&self) -> Option<String> {
        match self {
            Self::Bool(flag) => Some(flag.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::String(text) => Some(text.clone()),
            Self::Null | Self::List(_) | Self::Set(_) | Self::Map(_) => None,
        }
    }

    /// The number that this value is or spells.
    pub(crate) fn to_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::String(text) => Number::parse(text),
            Self::Null | Self::Bool(_) | Self::List(_) | Self::Set(_) | Self::Map(_) => None,
        }
    }

    /// The boolean that this value is or spells: `"true"`, `"1"`, `"false"` or `"0"`. The numbers
    /// 1 and 0 are none.
    pub(crate) fn to_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            Self::String(text) if matches!(text.as_str(), "true" | "1") => Some(true),
            Self::String(text) if matches!(text.as_str(), "false" | "0") => Some(false),
            Self::Null
            | Self::String(_)
            | Self::Number(_)
            | Self::List(_)
            | Self::Set(_)
            | Self::Map(_) => None,
        }
    }

    /// The elements of a list or set.
    pub(crate) fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) | Self::Set(elements) => Some(elements),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Map(_) => None,
        }
    }

    /// Bytes that this value takes, roughly, or `None` where it nests deeper than [`DEPTH_MAX`].
    pub(crate) fn weight(&self) -> Option<u64> {
        self.weight_at(0)
    }

    fn weight_at(&self, depth: usize) -> Option<u64> {
        const NODE: u64 = 32;
        if depth > DEPTH_MAX {
            return None;
        }
        let inner = match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            Self::String(text) => text.len() as u64,
            Self::List(elements) | Self::Set(elements) => {
                let mut sum = 0;
                for element in elements {
                    sum += element.weight_at(depth + 1)?;
                }
                sum
            }
            Self::Map(entries) => {
                let mut sum = 0;
                for (key, value) in entries {
                    sum += key.len() as u64 + value.weight_at(depth + 1)?;
                }
                sum
            }
        };
        Some(NODE + inner)
    }

    /// A total order over all values, kind by kind: what sets and `sort` need.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => a.order(*b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::List(a), Self::List(b)) | (Self::Set(a), Self::Set(b)) => {
                order_sequences(a.iter().map(|x| (None, x)), b.iter().map(|x| (None, x)))
            }
            (Self::Map(a), Self::Map(b)) => order_sequences(
                a.iter().map(|(key, value)| (Some(key), value)),
                b.iter().map(|(key, value)| (Some(key), value)),
            ),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Number(_) => 2,
            Self::String(_) => 3,
            Self::List(_) => 4,
            Self::Set(_) => 5,
            Self::Map(_) => 6,
        }
    }

    pub(crate) fn into_json(self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(flag) => Json::Bool(flag),
            Self::Number(number) => number.into_json(),
            Self::String(text) => Json::String(text),
            Self::List(elements) | Self::Set(elements) => {
                Json::Array(elements.into_iter().map(Self::into_json).collect())
            }
            Self::Map(entries) => entries
                .into_iter()
                .map(|(key, value)| (key, value.into_json()))
                .collect(),
        }
    }

    pub(crate) fn from_json(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(flag),
            Json::Number(number) => Self::Number(
                Number::parse(&number.to_string())
                    .or_else(|| number.as_f64().and_then(Number::float))
                    .unwrap_or(Number::Whole(0)),
            ),
            Json::String(text) => Self::String(text),
            Json::Array(elements) => {
                Self::List(elements.into_iter().map(Self::from_json).collect())
            }
            Json::Object(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| (key, Self::from_json(value)))
                    .collect(),
            ),
        }
    }
}

fn order_sequences<'v>(
    a: impl Iterator<Item = (Option<&'v String>, &'v Value)>,
    b: impl Iterator<Item = (Option<&'v String>, &'v Value)>,
) -> Ordering {
    let mut b = b;
    for (key_a, value_a) in a {
        let Some((key_b, value_b)) = b.next() else {
            return Ordering::Greater;
        };
        let order = key_a.cmp(&key_b).then_with(|| value_a.order(value_b));
        if order != Ordering::Equal {
            return order;
        }
    }
    if b.next().is_some() {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}
