//! Types as `variable` blocks write them, and conversion of values to them.

use crate::diagnostic::Span;
use crate::eval::{EvalError, Outcome, span_of};
use crate::value::Value;
use hcl_edit::expr::{Expression, FuncCall, ObjectKey};
use std::collections::BTreeMap;
use std::fmt;

/// `string`, `list(number)`, `object({ name = string })` and so on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TypeConstraint {
    Any,
    String,
    Number,
    Bool,
    List(Box<Self>),
    Set(Box<Self>),
    Map(Box<Self>),
    Object(BTreeMap<String, Self>),
    Tuple(Vec<Self>),
}

impl TypeConstraint {
    pub(crate) fn any_list() -> Self {
        Self::List(Box::new(Self::Any))
    }

    pub(crate) fn any_set() -> Self {
        Self::Set(Box::new(Self::Any))
    }

    pub(crate) fn any_map() -> Self {
        Self::Map(Box::new(Self::Any))
    }

    /// Reads a type expression. The parser has bounded its nesting.
    pub(crate) fn from_expression(expression: &Expression) -> Outcome<Self> {
        let span = span_of(expression);
        match expression {
            Expression::Variable(name) => Self::from_name(name.value().as_str(), span),
            // The form of Terraform 0.11 is still seen: type = "string".
            Expression::String(name) => Self::from_name(name.value(), span),
            Expression::Parenthesis(inner) => Self::from_expression(inner.inner()),
            Expression::FuncCall(call) => Self::from_call(call, span),
            _ => Err(EvalError::new(span, "this is not a type")
                .hint("types are string, number, bool, any, list(..), set(..), map(..), object({..}), tuple([..])")),
        }
    }

    fn from_name(name: &str, span: Span) -> Outcome<Self> {
        match name {
            "any" => Ok(Self::Any),
            "string" => Ok(Self::String),
            "number" => Ok(Self::Number),
            "bool" => Ok(Self::Bool),
            "list" => Ok(Self::any_list()),
            "set" => Ok(Self::any_set()),
            "map" => Ok(Self::any_map()),
            other => Err(EvalError::new(span, format!("there is no type `{other}`"))),
        }
    }

    fn from_call(call: &FuncCall, span: Span) -> Outcome<Self> {
        let name = call.name.name.value().as_str();
        if name == "optional" {
            // Known from another tool; a job file has no way to leave an attribute out.
            return Err(
                EvalError::new(span, "the attributes of an object are all required")
                    .hint("write map(..) or any, and lookup() or try() where the value is used"),
            );
        }
        let (Some(argument), 1) = (call.args.get(0), call.args.len()) else {
            return Err(EvalError::new(span, format!("`{name}(..)` takes one type")));
        };
        match (name, argument) {
            ("list", inner) => Ok(Self::List(Box::new(Self::from_expression(inner)?))),
            ("set", inner) => Ok(Self::Set(Box::new(Self::from_expression(inner)?))),
            ("map", inner) => Ok(Self::Map(Box::new(Self::from_expression(inner)?))),
            ("object", Expression::Object(object)) => {
                let mut attributes = BTreeMap::new();
                for (key, value) in object {
                    let name = match key {
                        ObjectKey::Ident(name) => name.value().as_str().to_owned(),
                        ObjectKey::Expression(Expression::String(name)) => name.value().clone(),
                        ObjectKey::Expression(other) => {
                            return Err(EvalError::new(span_of(other), "this is not a name"));
                        }
                    };
                    attributes.insert(name, Self::from_expression(value.expr())?);
                }
                Ok(Self::Object(attributes))
            }
            ("tuple", Expression::Array(array)) => Ok(Self::Tuple(
                array
                    .iter()
                    .map(Self::from_expression)
                    .collect::<Outcome<_>>()?,
            )),
            ("object", _) => Err(EvalError::new(span, "write `object({ name = type })`")),
            ("tuple", _) => Err(EvalError::new(span, "write `tuple([type, type])`")),
            (other, _) => Err(EvalError::new(
                span,
                format!("there is no type `{other}(..)`"),
            )),
        }
    }

    /// The value as this type, or what is wrong with it. Null is a value of every type.
    pub(crate) fn convert(&self, value: Value) -> Result<Value, String> {
        if value == Value::Null {
            return Ok(value);
        }
        let kind = value.kind();
        let unfit = || format!("{self} is required, this is {kind}");
        match self {
            Self::Any => Ok(value),
            Self::String => value.to_text().map(Value::String).ok_or_else(unfit),
            Self::Number => value.to_number().map(Value::Number).ok_or_else(unfit),
            Self::Bool => value.to_bool().map(Value::Bool).ok_or_else(unfit),
            Self::List(inner) => inner
                .convert_all(value.elements().ok_or_else(unfit)?)
                .map(Value::List),
            Self::Set(inner) => inner
                .convert_all(value.elements().ok_or_else(unfit)?)
                .map(Value::set),
            Self::Map(inner) => {
                let Value::Map(entries) = value else {
                    return Err(unfit());
                };
                let mut converted = BTreeMap::new();
                for (key, value) in entries {
                    let value = inner
                        .convert(value)
                        .map_err(|e| format!("key `{key}`: {e}"))?;
                    converted.insert(key, value);
                }
                Ok(Value::Map(converted))
            }
            Self::Object(attributes) => {
                let Value::Map(mut entries) = value else {
                    return Err(unfit());
                };
                let mut converted = BTreeMap::new();
                for (name, wanted) in attributes {
                    let Some(value) = entries.remove(name) else {
                        return Err(format!("the attribute `{name}` is missing"));
                    };
                    let value = wanted
                        .convert(value)
                        .map_err(|e| format!("attribute `{name}`: {e}"))?;
                    converted.insert(name.clone(), value);
                }
                Ok(Value::Map(converted))
            }
            Self::Tuple(wanted) => {
                let elements = value.elements().ok_or_else(unfit)?;
                if elements.len() != wanted.len() {
                    let (want, have) = (wanted.len(), elements.len());
                    return Err(format!("a tuple of {want} is required, this has {have}"));
                }
                let converted = wanted
                    .iter()
                    .zip(elements)
                    .map(|(t, v)| t.convert(v.clone()));
                converted.collect::<Result<_, _>>().map(Value::List)
            }
        }
    }

    fn convert_all(&self, elements: &[Value]) -> Result<Vec<Value>, String> {
        let convert = |(position, element): (usize, &Value)| {
            self.convert(element.clone())
                .map_err(|e| format!("element {position}: {e}"))
        };
        elements.iter().enumerate().map(convert).collect()
    }
}

impl fmt::Display for TypeConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::String => f.write_str("string"),
            Self::Number => f.write_str("number"),
            Self::Bool => f.write_str("bool"),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Set(inner) => write!(f, "set({inner})"),
            Self::Map(inner) => write!(f, "map({inner})"),
            Self::Object(attributes) => {
                let parts: Vec<String> = attributes
                    .iter()
                    .map(|(name, wanted)| format!("{name} = {wanted}"))
                    .collect();
                write!(f, "object({{ {} }})", parts.join(", "))
            }
            Self::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "tuple([{}])", parts.join(", "))
            }
        }
    }
}
