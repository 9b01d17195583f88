//! Go's own functions, except `and` and `or`, which the engine evaluates.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Function, MANY, function};
use crate::call::{Answer, Call, as_text};
use crate::engine;
use crate::value::{self, Kind, Value};

/// A width or precision past this is a mistake or an attack.
const WIDTH_MAX: usize = 10_000;

pub(super) static FUNCTIONS: &[Function] = &[
    function("not", 1, 1, |call| Ok(Value::Bool(!call.at(0).is_truthy()))),
    function("eq", 2, MANY, |call| {
        for other in &call.arguments[1..] {
            if is_equal(call.at(0), other)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    function("ne", 2, 2, |call| {
        Ok(Value::Bool(!is_equal(call.at(0), call.at(1))?))
    }),
    function("lt", 2, 2, |call| ordered(call, Ordering::is_lt)),
    function("le", 2, 2, |call| ordered(call, Ordering::is_le)),
    function("gt", 2, 2, |call| ordered(call, Ordering::is_gt)),
    function("ge", 2, 2, |call| ordered(call, Ordering::is_ge)),
    function("len", 1, 1, |call| {
        let length = match call.at(0) {
            Value::Map(_) if value::kind(call.at(0)).is_none_or(is_map) => Some(call.map(0)?.len()),
            Value::Map(_) => None,
            other => other.len(),
        };
        let length = length.ok_or_else(|| call.expected(0, "a text, list or map"))?;
        Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
    }),
    function("index", 1, MANY, |call| {
        let mut found = call.at(0).clone();
        for index in &call.arguments[1..] {
            found = indexed(&found, index)?;
        }
        Ok(found)
    }),
    function("slice", 1, 4, slice),
    function("print", 0, MANY, |call| {
        Ok(value::text(print(call.arguments)))
    }),
    function("println", 0, MANY, |call| {
        let words: Vec<String> = call.arguments.iter().map(value::printed).collect();
        Ok(value::text(words.join(" ") + "\n"))
    }),
    function("printf", 1, MANY, printf),
    function("html", 1, MANY, |call| {
        Ok(value::text(gotmpl::html_escape(&escaped(call))))
    }),
    function("js", 1, MANY, |call| {
        Ok(value::text(gotmpl::js_escape(&escaped(call))))
    }),
    function("urlquery", 1, MANY, |call| {
        Ok(value::text(gotmpl::url_encode(&escaped(call))))
    }),
];

fn is_map(kind: Kind) -> bool {
    matches!(kind, Kind::Texts | Kind::Items)
}

/// Items of variables compare as their values.
fn basic(value: &Value) -> Value {
    as_text(value).map_or_else(|| value.clone(), value::text)
}

fn is_equal(left: &Value, right: &Value) -> Result<bool, String> {
    let (left, right) = (basic(left), basic(right));
    let is_collection = |value: &Value| matches!(value, Value::List(_) | Value::Map(_));
    match (&left, &right) {
        (Value::Nil, _) | (_, Value::Nil) => Ok(value::equal(&left, &right)),
        (a, b) if is_collection(a) || is_collection(b) => Err(format!(
            "a {} cannot be compared",
            value::type_name(if is_collection(a) { a } else { b })
        )),
        (Value::Int(_) | Value::Uint(_), Value::Int(_) | Value::Uint(_)) => {
            Ok(value::equal(&left, &right))
        }
        (a, b) if value::type_name(a) == value::type_name(b) => Ok(value::equal(a, b)),
        (a, b) => Err(incompatible(a, b)),
    }
}

fn incompatible(left: &Value, right: &Value) -> String {
    let (left, right) = (value::type_name(left), value::type_name(right));
    format!("a {left} cannot be compared with a {right}")
}

fn ordered(call: &Call<'_>, is_so: fn(Ordering) -> bool) -> Answer {
    let (left, right) = (basic(call.at(0)), basic(call.at(1)));
    let order = match (&left, &right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        // Neither is true of NaN.
        (Value::Float(a), Value::Float(b)) => match a.partial_cmp(b) {
            None => return Ok(Value::Bool(false)),
            order => order,
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let order = order.ok_or_else(|| incompatible(&left, &right))?;
    Ok(Value::Bool(is_so(order)))
}

fn indexed(of: &Value, index: &Value) -> Answer {
    match (of, index) {
        (Value::Map(_), index) => {
            let kind = value::kind(of);
            if !kind.is_none_or(is_map) {
                return Err(format!("a {} has no index", value::type_name(of)));
            }
            let key = as_text(index).ok_or_else(|| {
                format!("a map's key is a text, not a {}", value::type_name(index))
            })?;
            let zero = || match kind {
                Some(Kind::Texts) => value::text(""),
                Some(Kind::Items) => super::cluster::item(key, "", of),
                _ => Value::Nil,
            };
            Ok(value::field(of, key).cloned().unwrap_or_else(zero))
        }
        (Value::List(_) | Value::String(_), Value::Int(_) | Value::Uint(_)) => {
            let length = of.len().unwrap_or_default();
            of.index(index)
                .map_err(|_| format!("index {index} is out of range: the length is {length}"))
        }
        (Value::Nil, _) => Err("nil has no index".to_owned()),
        (Value::List(_) | Value::String(_), other) => Err(format!(
            "an index is an int, not a {}",
            value::type_name(other)
        )),
        (other, _) => Err(format!("a {} has no index", value::type_name(other))),
    }
}

fn slice(call: &Call<'_>) -> Answer {
    let of = call.at(0);
    if !matches!(of, Value::List(_) | Value::String(_)) {
        return Err(call.expected(0, "a text or a list"));
    }
    let bound = |index: usize| -> Result<Option<i64>, String> {
        (index < call.len())
            .then(|| call.integer(index))
            .transpose()
    };
    let (start, mut end) = (bound(1)?, bound(2)?);
    if let Some(capacity) = bound(3)? {
        if matches!(of, Value::String(_)) {
            return Err("a text takes two bounds".to_owned());
        }
        let length = i64::try_from(of.len().unwrap_or_default()).unwrap_or(i64::MAX);
        if capacity > length || end.is_some_and(|end| end > capacity) {
            return Err(format!("the bound {capacity} is out of range"));
        }
        end = end.or(Some(capacity));
    }
    of.slice(start, end).map_err(|_| {
        let (start, end) = (
            start.unwrap_or(0),
            end.map_or(String::new(), |e| e.to_string()),
        );
        let length = of.len().unwrap_or_default();
        format!("[{start}:{end}] is out of range, or cuts a character; the length is {length}")
    })
}

/// As `fmt.Sprint`: a space between two operands that are no texts.
pub(super) fn print(arguments: &[Value]) -> String {
    let mut text = String::new();
    let mut was_text = true;
    for (index, argument) in arguments.iter().enumerate() {
        let is_text = as_text(argument).is_some();
        if index > 0 && !is_text && !was_text {
            text.push(' ');
        }
        text.push_str(&value::printed(argument));
        was_text = is_text;
    }
    text
}

/// The argument of an escaper: nil prints as it does in the text around.
fn escaped(call: &Call<'_>) -> String {
    match call.arguments {
        [Value::Nil] => "<no value>".to_owned(),
        all => print(all),
    }
}

fn printf(call: &Call<'_>) -> Answer {
    let format = call.text(0)?;
    let mut arguments: Vec<Value> = call.arguments[1..].iter().map(value::plain).collect();
    let max = call.pass.limits.output_bytes;
    let mut bytes = format.len().saturating_add(widths(format, &arguments)?);
    for argument in &arguments {
        let size = value::size(argument, usize::MAX, usize::MAX).unwrap_or_default();
        bytes = bytes
            .saturating_add(size.bytes)
            .saturating_add(size.elements * 24);
    }
    print_floats(format, &mut arguments);
    // Quoting and hexadecimal digits are up to four bytes for one; what is printed is charged.
    call.pass.make(bytes)?;
    Ok(value::text(Arc::<str>::from(engine::format(
        format,
        &arguments,
        max.saturating_mul(4),
    )?)))
}

/// Prints the arguments of `%v`: the engine prints floats without exponent there.
fn print_floats(format: &str, arguments: &mut [Value]) {
    if format.contains(['*', '[']) {
        return;
    }
    let format = format.replace("%%", "");
    for (verb, argument) in format.split('%').skip(1).zip(arguments) {
        let verb = verb.trim_start_matches(|c: char| c.is_ascii_digit() || "- ".contains(c));
        let is_printed = matches!(argument, Value::Float(_) | Value::List(_) | Value::Map(_));
        if verb.starts_with('v') && is_printed {
            *argument = value::text(value::printed(argument));
        }
    }
}

/// The sum of all widths and precisions.
fn widths(format: &str, arguments: &[Value]) -> Result<usize, String> {
    let mut sum: usize = 0;
    let mut add = |width: usize| {
        if width > WIDTH_MAX {
            return Err(format!("the width {width} is over {WIDTH_MAX}"));
        }
        sum = sum.saturating_add(width);
        Ok(())
    };
    for verb in format.split('%').skip(1) {
        let flags = verb.trim_start_matches(['+', '-', '#', ' ', '0']);
        for digits in flags.split(|c: char| !c.is_ascii_digit()).take(2) {
            if !digits.is_empty() {
                add(digits.parse().unwrap_or(usize::MAX))?;
            }
        }
        if flags.contains('*') {
            let numbers = arguments.iter().filter_map(Value::as_int);
            for number in numbers.filter(|number| number.unsigned_abs() > 0) {
                add(usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX))?;
            }
        }
    }
    Ok(sum)
}
