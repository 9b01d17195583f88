//! The calls that `rewrite` puts into a tree: fields and methods, printing, loops, depth.

use super::{Function, MANY, cluster, function, scratch, time};
use crate::MissingKey;
use crate::call::{Answer, Call};
use crate::value::{self, Kind, Value};

pub(crate) const ENTER: &str = "\u{1}enter";
pub(crate) const LEAVE: &str = "\u{1}leave";
pub(crate) const TICK: &str = "\u{1}tick";
pub(crate) const ITERATE: &str = "\u{1}iterate";
pub(crate) const PRINT: &str = "\u{1}print";
pub(crate) const FIELD: &str = "\u{1}field";

pub(super) static FUNCTIONS: &[Function] = &[
    function(ENTER, 1, 1, |call| {
        call.pass.enter(call.count(0)?)?;
        Ok(Value::Nil)
    }),
    function(LEAVE, 1, 1, |call| {
        call.pass.leave(call.count(0)?);
        Ok(Value::Nil)
    }),
    function(TICK, 0, 0, |call| {
        call.pass.iterate()?;
        Ok(Value::Nil)
    }),
    function(ITERATE, 1, 1, iterate),
    function(PRINT, 1, 1, |call| match call.at(0) {
        text @ (Value::Nil | Value::String(_)) => Ok(text.clone()),
        other => Ok(value::text(value::printed(other))),
    }),
    function(FIELD, 2, MANY, fields),
];

fn iterate(call: &Call<'_>) -> Answer {
    let over = call.at(0);
    match value::kind(over) {
        Some(Kind::Texts | Kind::Items) => return Ok(value::map(call.map(0)?)),
        Some(_) => return Err(format!("cannot range over a {}", value::type_name(over))),
        None => {}
    }
    match over {
        Value::List(_) | Value::Map(_) | Value::Int(_) | Value::Uint(_) | Value::Nil => {
            Ok(over.clone())
        }
        other => Err(format!("cannot range over a {}", value::type_name(other))),
    }
}

/// `.a.b ARGUMENTS`: argument 0 has the names, argument 1 the value.
fn fields(call: &Call<'_>) -> Answer {
    let names = call.text(0)?;
    let mut value = call.at(1).clone();
    let arguments = call.arguments.get(2..).unwrap_or_default();
    let last = names.split('.').count() - 1;
    for (index, name) in names.split('.').enumerate() {
        if matches!(value, Value::Nil) && index > 0 {
            return Err(format!("the field {name:?} is taken of nil"));
        }
        let arguments = if index == last { arguments } else { &[] };
        value = member(call, &value, name, arguments)?;
    }
    Ok(value)
}

fn member(call: &Call<'_>, of: &Value, name: &str, arguments: &[Value]) -> Answer {
    let kind = value::kind(of);
    let method = Call { arguments, ..*call };
    let answer = match kind {
        Some(Kind::Scratch) => scratch::method(&method, name),
        Some(Kind::Moment) => time::method(&method, of, name),
        Some(Kind::Items | Kind::Item) => cluster::method(of, name),
        _ => None,
    };
    if let Some(answer) = answer {
        return answer;
    }
    if !arguments.is_empty() {
        let found = value::type_name(of);
        return Err(format!("{name:?} of a {found} is no method with arguments"));
    }
    if let Some(found) = value::field(of, name) {
        return Ok(found.clone());
    }
    let is_error = call.pass.missing_key == MissingKey::Error;
    let no_entry = || format!("the map has no entry for the key {name:?}");
    match (of, kind) {
        (Value::Map(_), Some(Kind::Texts | Kind::Items) | None) if is_error => Err(no_entry()),
        (Value::Map(_), Some(Kind::Texts)) => Ok(value::text("")),
        (Value::Map(_), Some(Kind::Items)) => Ok(cluster::item(name, "", of)),
        (Value::Map(_), None) => Ok(Value::Nil),
        (Value::Nil, _) if is_error => {
            Err(format!("nil data; there is no entry for the key {name:?}"))
        }
        (Value::Nil, _) => Ok(Value::Nil),
        (other, _) => {
            let found = value::type_name(other);
            Err(format!("a {found} has no field {name:?}"))
        }
    }
}
