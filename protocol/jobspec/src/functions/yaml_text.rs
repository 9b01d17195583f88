//! `yamlencode`: block style, every string in double quotes, so that no reader takes `no` or `1.0`
//! for something else.

use crate::value::Value;
use std::fmt::Write as _;

/// The value as one YAML document. The caller has bounded its depth.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::List(elements) | Value::Set(elements) if !elements.is_empty() => {
            list(elements, 0, &mut out);
        }
        Value::Map(entries) if !entries.is_empty() => map(value, 0, &mut out),
        flat => {
            inline(flat, &mut out);
            out.push('\n');
        }
    }
    out
}

fn pad(level: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", level));
}

/// A list stands at the level of the key that it belongs to.
fn list(elements: &[Value], level: usize, out: &mut String) {
    for (position, element) in elements.iter().enumerate() {
        if position > 0 {
            pad(level, out);
        }
        out.push_str("- ");
        match element {
            Value::List(inner) | Value::Set(inner) if !inner.is_empty() => {
                list(inner, level + 1, out);
            }
            Value::Map(entries) if !entries.is_empty() => map(element, level + 1, out),
            flat => {
                inline(flat, out);
                out.push('\n');
            }
        }
    }
}

fn map(value: &Value, level: usize, out: &mut String) {
    let Value::Map(entries) = value else { return };
    for (position, (key, value)) in entries.iter().enumerate() {
        if position > 0 {
            pad(level, out);
        }
        quoted(key, out);
        out.push(':');
        match value {
            Value::List(inner) | Value::Set(inner) if !inner.is_empty() => {
                out.push('\n');
                pad(level, out);
                list(inner, level, out);
            }
            Value::Map(entries) if !entries.is_empty() => {
                out.push('\n');
                pad(level + 1, out);
                map(value, level + 1, out);
            }
            flat => {
                out.push(' ');
                inline(flat, out);
                out.push('\n');
            }
        }
    }
}

fn inline(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => {
            let _ = write!(out, "{flag}");
        }
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => quoted(text, out),
        Value::List(_) | Value::Set(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
    }
}

/// Every JSON string is a double-quoted scalar of YAML 1.2.
fn quoted(text: &str, out: &mut String) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}
