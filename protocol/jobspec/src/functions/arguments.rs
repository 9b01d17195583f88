//! Reading one argument as what a function wants, with the blame where it belongs.

use super::Failure;
use crate::value::{Number, Value};
use std::collections::BTreeMap;

fn wanted(position: usize, what: &str, found: &Value) -> Failure {
    Failure::argument(
        position,
        format!("this must be {what}, it is {}", found.kind()),
    )
}

/// The argument at `position`; the arity check has made sure that required ones exist.
pub(super) fn at(arguments: &[Value], position: usize) -> &Value {
    arguments.get(position).unwrap_or(&Value::Null)
}

pub(super) fn text(arguments: &[Value], position: usize) -> Result<String, Failure> {
    let value = at(arguments, position);
    value
        .to_text()
        .ok_or_else(|| wanted(position, "a string", value))
}

pub(super) fn number(arguments: &[Value], position: usize) -> Result<Number, Failure> {
    let value = at(arguments, position);
    value
        .to_number()
        .ok_or_else(|| wanted(position, "a number", value))
}

pub(super) fn whole(arguments: &[Value], position: usize) -> Result<i128, Failure> {
    number(arguments, position)?
        .as_whole()
        .ok_or_else(|| Failure::argument(position, "this must be a whole number"))
}

/// A whole number within bounds.
pub(super) fn bounded(
    arguments: &[Value],
    position: usize,
    min: usize,
    max: usize,
) -> Result<usize, Failure> {
    let value = whole(arguments, position)?;
    usize::try_from(value)
        .ok()
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| {
            Failure::argument(
                position,
                format!("this must be between {min} and {max}, it is {value}"),
            )
        })
}

pub(super) fn list(arguments: &[Value], position: usize) -> Result<&[Value], Failure> {
    let value = at(arguments, position);
    value
        .elements()
        .ok_or_else(|| wanted(position, "a list", value))
}

pub(super) fn map(
    arguments: &[Value],
    position: usize,
) -> Result<&BTreeMap<String, Value>, Failure> {
    match at(arguments, position) {
        Value::Map(entries) => Ok(entries),
        other => Err(wanted(position, "a map", other)),
    }
}

/// A list whose elements are all text.
pub(super) fn texts(arguments: &[Value], position: usize) -> Result<Vec<String>, Failure> {
    list(arguments, position)?
        .iter()
        .map(|element| {
            element
                .to_text()
                .ok_or_else(|| wanted(position, "a list of strings", element))
        })
        .collect()
}
