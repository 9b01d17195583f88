//! A call's arguments, read as the types that a function takes.

use std::sync::Arc;

use crate::pass::Pass;
use crate::value::{self, Kind, Map, Value};

pub(crate) struct Call<'a> {
    pub(crate) pass: &'a Arc<Pass>,
    pub(crate) arguments: &'a [Value],
}

pub(crate) type Answer = Result<Value, String>;

impl<'a> Call<'a> {
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// An argument; one that is not there is nil.
    pub(crate) fn at(&self, index: usize) -> &'a Value {
        self.arguments.get(index).unwrap_or(&Value::Nil)
    }

    pub(crate) fn last(&self) -> &'a Value {
        self.arguments.last().unwrap_or(&Value::Nil)
    }

    pub(crate) fn text(&self, index: usize) -> Result<&'a str, String> {
        as_text(self.at(index)).ok_or_else(|| self.expected(index, "a text"))
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, String> {
        match self.at(index) {
            Value::Int(number) => Ok(*number),
            Value::Uint(number) => {
                i64::try_from(*number).map_err(|_| self.expected(index, "an int"))
            }
            _ => Err(self.expected(index, "an int")),
        }
    }

    /// A length or a count.
    pub(crate) fn count(&self, index: usize) -> Result<usize, String> {
        let number = self.integer(index)?;
        usize::try_from(number).map_err(|_| format!("{number} is negative"))
    }

    pub(crate) fn list(&self, index: usize) -> Result<&'a [Value], String> {
        match self.at(index) {
            Value::List(elements) => Ok(elements),
            Value::Nil => Ok(&[]),
            _ => Err(self.expected(index, "a list")),
        }
    }

    pub(crate) fn texts(&self, index: usize) -> Result<Vec<&'a str>, String> {
        let elements = self.list(index)?.iter();
        elements
            .map(|element| {
                as_text(element).ok_or_else(|| {
                    let found = value::type_name(element);
                    format!("argument {} has a {found}; it takes texts", index + 1)
                })
            })
            .collect()
    }

    /// A map without its mark.
    pub(crate) fn map(&self, index: usize) -> Result<Map, String> {
        match self.at(index) {
            Value::Map(map) => Ok(value::entries(map)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()),
            Value::Nil => Ok(Map::new()),
            _ => Err(self.expected(index, "a map")),
        }
    }

    pub(crate) fn expected(&self, index: usize, wanted: &str) -> String {
        let found = value::type_name(self.at(index));
        format!("argument {} is a {found}; it takes {wanted}", index + 1)
    }
}

/// A text, or the value of a variable's item.
pub(crate) fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Map(_) if value::kind(value) == Some(Kind::Item) => {
            as_text(value::field(value, "Value")?)
        }
        _ => None,
    }
}
