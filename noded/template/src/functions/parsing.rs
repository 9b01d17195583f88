//! Texts to values. An empty text is the zero value, as consul-template has it for data that is
//! not there yet.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("parseBool", 1, 1, |call| {
        parsed(call, Value::Bool(false), "bool", |text| {
            Some(Value::Bool(match text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => return None,
            }))
        })
    }),
    function("parseFloat", 1, 1, |call| {
        parsed(call, Value::Float(0.0), "float", |text| {
            text.parse().ok().map(Value::Float)
        })
    }),
    function("parseInt", 1, 1, |call| {
        parsed(call, Value::Int(0), "int of 64 bits", |text| {
            text.parse().ok().map(Value::Int)
        })
    }),
    function("parseUint", 1, 1, |call| {
        let parse = |text: &str| text.parse().ok().map(Value::Uint);
        parsed(call, Value::Uint(0), "unsigned int of 64 bits", parse)
    }),
    function("parseJSON", 1, 1, |call| {
        if call.text(0)?.is_empty() {
            return Ok(value::map(value::Map::new()));
        }
        super::json::parse(call, call.text(0)?)
    }),
    function("parseYAML", 1, 1, |call| {
        if call.text(0)?.is_empty() {
            return Ok(value::map(value::Map::new()));
        }
        super::yaml::parse(call, call.text(0)?)
    }),
];

fn parsed(
    call: &Call<'_>,
    zero: Value,
    name: &str,
    parse: impl Fn(&str) -> Option<Value>,
) -> Answer {
    match call.text(0)? {
        "" => Ok(zero),
        text => parse(text).ok_or_else(|| format!("{text:?} is no {name}")),
    }
}
