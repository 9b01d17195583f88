//! Sprig's functions of any value: defaults, kinds, paths, `fail`.

use super::{Function, MANY, function};
use crate::value::{self, Kind, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("sprig_default", 1, 2, |call| {
        let given = call.arguments.get(1).filter(|given| given.is_truthy());
        Ok(given.unwrap_or_else(|| call.at(0)).clone())
    }),
    function("sprig_empty", 1, 1, |call| {
        Ok(Value::Bool(!call.at(0).is_truthy()))
    }),
    function("sprig_coalesce", 0, MANY, |call| {
        let found = call.arguments.iter().find(|argument| argument.is_truthy());
        Ok(found.cloned().unwrap_or(Value::Nil))
    }),
    function("sprig_all", 0, MANY, |call| {
        Ok(Value::Bool(call.arguments.iter().all(Value::is_truthy)))
    }),
    function("sprig_any", 0, MANY, |call| {
        Ok(Value::Bool(call.arguments.iter().any(Value::is_truthy)))
    }),
    function("sprig_ternary", 3, 3, |call| match call.last() {
        Value::Bool(is) => Ok(call.at(usize::from(!is)).clone()),
        _ => Err(call.expected(2, "a bool")),
    }),
    function("sprig_fail", 1, 1, |call| Err(call.text(0)?.to_owned())),
    function("sprig_hello", 0, 0, |_| Ok(value::text("Hello!"))),
    function("sprig_kindOf", 1, 1, |call| {
        Ok(value::text(kind_of(call.at(0))))
    }),
    function("sprig_kindIs", 2, 2, |call| {
        Ok(Value::Bool(call.text(0)? == kind_of(call.at(1))))
    }),
    function("sprig_deepEqual", 2, 2, |call| {
        Ok(Value::Bool(value::equal(call.at(0), call.at(1))))
    }),
    function("sprig_base", 1, 1, |call| {
        let path = call.text(0)?;
        let trimmed = path.trim_end_matches('/');
        Ok(value::text(match (path, trimmed) {
            ("", _) => ".",
            (_, "") => "/",
            (_, path) => path.rsplit('/').next().unwrap_or(path),
        }))
    }),
    function("sprig_dir", 1, 1, |call| {
        let path = call.text(0)?;
        let end = path.rfind('/').map_or(0, |at| at + 1);
        Ok(value::text(cleaned(&path[..end])))
    }),
    function("sprig_clean", 1, 1, |call| {
        Ok(value::text(cleaned(call.text(0)?)))
    }),
    function("sprig_ext", 1, 1, |call| {
        let name = call.text(0)?.rsplit('/').next().unwrap_or_default();
        Ok(value::text(name.rfind('.').map_or("", |at| &name[at..])))
    }),
    function("sprig_isAbs", 1, 1, |call| {
        Ok(Value::Bool(call.text(0)?.starts_with('/')))
    }),
];

/// The kind as Go's reflection names it.
fn kind_of(value: &Value) -> &'static str {
    match (value, value::kind(value)) {
        (Value::Map(_), Some(Kind::Texts | Kind::Items) | None) => "map",
        (Value::Map(_), Some(Kind::Scratch)) => "ptr",
        (Value::Map(_), Some(_)) => "struct",
        (Value::Nil, _) => "invalid",
        (Value::Bool(_), _) => "bool",
        (Value::Int(_), _) => "int",
        (Value::Uint(_), _) => "uint64",
        (Value::Float(_), _) => "float64",
        (Value::String(_), _) => "string",
        (Value::List(_), _) => "slice",
        (Value::Function(_), _) => "func",
    }
}

/// Go's `path.Clean`.
fn cleaned(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
