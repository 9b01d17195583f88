//! Lists and maps.

use super::arguments::{at, bounded, list, map, number, text, texts, whole};
use super::{Answer, Arity, Context, Failure, Function, function};
use crate::eval::element as element_at;
use crate::value::{Number, Value};
use std::collections::BTreeMap;

/// Longest list that `range` makes; go-cty has the same limit.
const RANGE_MAX: usize = 1024;

pub(super) static FUNCTIONS: &[Function] = &[
    function("chunklist", Arity::exactly(2), |_, a| {
        let size = bounded(a, 1, 1, usize::MAX)?;
        Ok(Value::List(
            list(a, 0)?
                .chunks(size)
                .map(|c| Value::List(c.to_vec()))
                .collect(),
        ))
    }),
    function("coalesce", Arity::at_least(1), |_, a| {
        let found = a.iter().find(|value| **value != Value::Null);
        found
            .cloned()
            .ok_or_else(|| Failure::call("every argument is null"))
    }),
    function("coalescelist", Arity::at_least(1), coalesce_list),
    function("compact", Arity::exactly(1), |_, a| {
        let empty =
            |v: &&Value| matches!(v, Value::Null) || matches!(v, Value::String(s) if s.is_empty());
        Ok(Value::List(
            list(a, 0)?.iter().filter(|v| !empty(v)).cloned().collect(),
        ))
    }),
    function("concat", Arity::at_least(1), concat),
    function("contains", Arity::exactly(2), |_, a| {
        Ok(Value::Bool(list(a, 0)?.contains(at(a, 1))))
    }),
    function("distinct", Arity::exactly(1), distinct),
    function("element", Arity::exactly(2), element),
    function("flatten", Arity::exactly(1), |_, a| {
        let mut out = Vec::new();
        flatten(list(a, 0)?, &mut out);
        Ok(Value::List(out))
    }),
    function("index", Arity::exactly(2), index),
    function("keys", Arity::exactly(1), |_, a| {
        Ok(Value::List(map(a, 0)?.keys().map(Value::string).collect()))
    }),
    function("length", Arity::exactly(1), length),
    function("lookup", Arity::between(2, 3), lookup),
    function("merge", Arity::at_least(1), merge),
    function("range", Arity::between(1, 3), range),
    function("reverse", Arity::exactly(1), |_, a| match at(a, 0) {
        Value::String(text) => Ok(Value::String(text.chars().rev().collect())),
        _ => Ok(Value::List(list(a, 0)?.iter().rev().cloned().collect())),
    }),
    function("slice", Arity::exactly(3), slice),
    function("sort", Arity::exactly(1), |_, a| {
        let mut sorted = texts(a, 0)?;
        sorted.sort();
        Ok(Value::List(sorted.into_iter().map(Value::String).collect()))
    }),
    function("values", Arity::exactly(1), |_, a| {
        Ok(Value::List(map(a, 0)?.values().cloned().collect()))
    }),
    function("zipmap", Arity::exactly(2), zipmap),
];

fn coalesce_list(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    for position in 0..arguments.len() {
        if !list(arguments, position)?.is_empty() {
            return Ok(at(arguments, position).clone());
        }
    }
    Err(Failure::call("every list is empty"))
}

fn concat(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let mut out = Vec::new();
    for position in 0..arguments.len() {
        out.extend_from_slice(list(arguments, position)?);
    }
    Ok(Value::List(out))
}

/// Keeps the first of equal elements, in the order of the list.
fn distinct(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let elements = list(arguments, 0)?;
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by(|a, b| elements[*a].order(&elements[*b]).then(a.cmp(b)));
    order.dedup_by(|later, earlier| elements[*later].order(&elements[*earlier]).is_eq());
    order.sort_unstable();
    Ok(Value::List(
        order.into_iter().map(|i| elements[i].clone()).collect(),
    ))
}

/// The element at a position, which wraps around.
fn element(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let elements = list(arguments, 0)?;
    let index = whole(arguments, 1)?;
    let Ok(length) = i128::try_from(elements.len()) else {
        return Err(Failure::argument(0, "the list is too long"));
    };
    if length == 0 {
        return Err(Failure::argument(0, "the list is empty"));
    }
    let position = usize::try_from(index.rem_euclid(length)).unwrap_or(0);
    Ok(at(elements, position).clone())
}

fn flatten(elements: &[Value], out: &mut Vec<Value>) {
    for element in elements {
        match element.elements() {
            Some(inner) => flatten(inner, out),
            None => out.push(element.clone()),
        }
    }
}

/// The element at a position or under a key, as `collection[key]`. (What finds the position of a
/// value elsewhere is another function of this name.)
fn index(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    element_at(at(arguments, 0), at(arguments, 1), &(0..0))
        .cloned()
        .map_err(|error| Failure::argument(1, error.message))
}

fn length(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    match at(arguments, 0) {
        Value::List(elements) | Value::Set(elements) => Ok(Value::count(elements.len())),
        Value::Map(entries) => Ok(Value::count(entries.len())),
        Value::String(text) => Ok(Value::count(text.chars().count())),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Err(Failure::argument(
            0,
            format!("{} has no length", other.kind()),
        )),
    }
}

fn lookup(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let key = text(arguments, 1)?;
    match (map(arguments, 0)?.get(&key), arguments.get(2)) {
        (Some(found), _) => Ok(found.clone()),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(Failure::argument(1, format!("the map has no key `{key}`"))),
    }
}

fn merge(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let mut out = BTreeMap::new();
    for position in 0..arguments.len() {
        if *at(arguments, position) == Value::Null {
            continue;
        }
        out.extend(
            map(arguments, position)?
                .iter()
                .map(|(k, v)| (k.clone(), v.clone())),
        );
    }
    Ok(Value::Map(out))
}

/// `range(end)`, `range(start, end)`, `range(start, end, step)`.
fn range(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let given: Vec<f64> = (0..arguments.len())
        .map(|i| number(arguments, i).map(Number::as_f64))
        .collect::<Result<_, _>>()?;
    let (start, end, step) = match given[..] {
        [start, end, step] => (start, end, step),
        [start, end] => (start, end, if end < start { -1.0 } else { 1.0 }),
        [end] => (0.0, end, if end < 0.0 { -1.0 } else { 1.0 }),
        _ => return Err(Failure::call("it takes 1 to 3 numbers")),
    };
    if step == 0.0 || (step > 0.0 && end < start) || (step < 0.0 && end > start) {
        return Err(Failure::call("the step does not lead to the end"));
    }
    let mut out = Vec::new();
    let mut current = start;
    while if step > 0.0 {
        current < end
    } else {
        current > end
    } {
        if out.len() == RANGE_MAX {
            let message = format!("more than {RANGE_MAX} numbers would be made");
            return Err(Failure::call(message));
        }
        out.extend(Number::float(current).map(Value::Number));
        current += step;
    }
    Ok(Value::List(out))
}

fn slice(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let elements = list(arguments, 0)?;
    let end = bounded(arguments, 2, 0, elements.len())?;
    let start = bounded(arguments, 1, 0, end)?;
    Ok(Value::List(elements[start..end].to_vec()))
}

fn zipmap(_: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let (keys, values) = (texts(arguments, 0)?, list(arguments, 1)?);
    if keys.len() != values.len() {
        let message = format!("{} keys for {} values", keys.len(), values.len());
        return Err(Failure::call(message));
    }
    Ok(Value::Map(
        keys.into_iter().zip(values.iter().cloned()).collect(),
    ))
}
