//! An expression and an item: whether it holds.
//!
//! An absent value (`null`, or a key that a map does not have) equals nothing, contains nothing,
//! matches nothing, and is empty. A field that no item of the list has is a mistake of the caller.

use serde_json::Value;

use super::FilterError;
use super::parse::{Expression, Operator, Selector};

/// Whether `expression` holds for `item`.
///
/// # Errors
/// Where it asks for a field that such items do not have, or asks a field what it cannot answer.
pub(super) fn holds(expression: &Expression, item: &Value) -> Result<bool, FilterError> {
    match expression {
        Expression::Or(all) => {
            for part in all {
                if holds(part, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Expression::And(all) => {
            for part in all {
                if !holds(part, item)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Expression::Not(inner) => Ok(!holds(inner, item)?),
        Expression::Match(selector, operator) => {
            let value = select(selector, item)?;
            asks(selector, operator, value)
        }
    }
}

/// The field's value; `None` where the item has nothing there.
fn select<'i>(selector: &Selector, item: &'i Value) -> Result<Option<&'i Value>, FilterError> {
    let mut value = item;
    for (depth, name) in selector.0.iter().enumerate() {
        let next = match value {
            Value::Object(map) => map.get(name),
            Value::Array(items) => name.parse().ok().and_then(|place: usize| items.get(place)),
            Value::Null => None,
            _ => return Err(FilterError::Selector(shown(selector))),
        };
        match next {
            Some(next) => value = next,
            None if depth == 0 => return Err(FilterError::Selector(shown(selector))),
            None => return Ok(None),
        }
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}

fn asks(
    selector: &Selector,
    operator: &Operator,
    value: Option<&Value>,
) -> Result<bool, FilterError> {
    let Some(value) = value else {
        return Ok(matches!(operator, Operator::IsEmpty));
    };
    let kind = |why: String| FilterError::Kind {
        selector: shown(selector),
        kind: kind(value),
        why,
    };
    match operator {
        Operator::Equal(text) => equals(value, text).map_err(kind),
        Operator::Contains(text) => match value {
            Value::String(whole) => Ok(whole.contains(text)),
            Value::Object(map) => Ok(map.contains_key(text)),
            Value::Array(items) => {
                for item in items {
                    if equals(item, text).map_err(kind)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => Err(kind("nothing can be in it".to_owned())),
        },
        Operator::Matches(regex) => match value {
            Value::String(text) => Ok(regex.is_match(text)),
            _ => Err(kind("only a text can be matched".to_owned())),
        },
        Operator::IsEmpty => match value {
            Value::String(text) => Ok(text.is_empty()),
            Value::Object(map) => Ok(map.is_empty()),
            Value::Array(items) => Ok(items.is_empty()),
            _ => Err(kind("it cannot be empty".to_owned())),
        },
    }
}

/// Whether a plain value is what `text` says.
fn equals(value: &Value, text: &str) -> Result<bool, String> {
    match value {
        Value::Null => Ok(false),
        Value::String(known) => Ok(known == text),
        Value::Bool(known) => Ok(flag(text)? == *known),
        Value::Number(known) => {
            let wanted = WantedNumber::parse(text)?;
            let whole = known
                .as_i64()
                .map(i128::from)
                .or_else(|| known.as_u64().map(i128::from));
            Ok(match (wanted, whole) {
                (WantedNumber::Whole(wanted), Some(known)) => wanted == known,
                (wanted, _) => known.as_f64() == Some(wanted.fraction()),
            })
        }
        Value::Array(_) | Value::Object(_) => Err(format!("it cannot equal {text:?}")),
    }
}

/// The meaning of `text` for a value that is true or false.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// A number of an expression. Indexes and times need all their digits: they are not compared as
/// fractions unless the expression has one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum WantedNumber {
    Whole(i128),
    Fraction(f64),
}

impl WantedNumber {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let whole = text.parse().map(Self::Whole);
        whole
            .or_else(|_| text.parse().map(Self::Fraction))
            .map_err(|_| format!("{text:?} is no number"))
    }

    pub(super) fn fraction(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "compared with a fraction")]
            Self::Whole(whole) => whole as f64,
            Self::Fraction(fraction) => fraction,
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn shown(selector: &Selector) -> String {
    selector.0.join(".")
}
