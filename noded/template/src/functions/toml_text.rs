//! Values to TOML, in the layout of the encoder that consul-template uses: first the plain keys of
//! a table, then its tables, each level two spaces deeper.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Map, Value};

pub(super) static FUNCTIONS: &[Function] = &[function("toTOML", 1, 1, written)];

fn written(call: &Call<'_>) -> Answer {
    let Value::Map(map) = value::plain(call.at(0)) else {
        return Err(call.expected(0, "a map"));
    };
    let mut text = String::new();
    table(&mut text, &map, &mut Vec::new())?;
    Ok(value::text(text.trim()))
}

fn is_table(value: &Value) -> bool {
    match value {
        Value::Map(_) => true,
        Value::List(elements) => {
            !elements.is_empty() && elements.iter().all(|e| matches!(e, Value::Map(_)))
        }
        _ => false,
    }
}

fn table(text: &mut String, map: &Map, path: &mut Vec<String>) -> Result<(), String> {
    let level = path.len();
    for (name, value) in map.iter().filter(|(_, value)| !is_table(value)) {
        // TOML has no null: the key is left out.
        if !matches!(value, Value::Nil) {
            text.push_str(&"  ".repeat(level));
            text.push_str(&key(name));
            text.push_str(" = ");
            inline(text, value)?;
            text.push('\n');
        }
    }
    for (name, value) in map.iter().filter(|(_, value)| is_table(value)) {
        path.push(key(name));
        let header = path.join(".");
        let head = |text: &mut String, open: &str, close: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&"  ".repeat(level));
            text.push_str(&[open, &header, close, "\n"].concat());
        };
        match value {
            Value::Map(inner) => {
                head(text, "[", "]");
                table(text, inner, path)?;
            }
            Value::List(elements) => {
                for element in elements.iter() {
                    let Value::Map(inner) = element else { continue };
                    head(text, "[[", "]]");
                    table(text, inner, path)?;
                }
            }
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

fn inline(text: &mut String, value: &Value) -> Result<(), String> {
    match value {
        Value::String(string) => text.push_str(&quoted(string)),
        Value::Float(number) if number.is_finite() && number.fract() == 0.0 => {
            text.push_str(&format!("{number:.1}"));
        }
        Value::Float(number) if number.is_finite() => text.push_str(&number.to_string()),
        Value::Float(number) if number.is_nan() => text.push_str("nan"),
        Value::Float(number) => text.push_str(if *number > 0.0 { "inf" } else { "-inf" }),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) => text.push_str(&value.to_string()),
        Value::List(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                inline(text, element)?;
            }
            text.push(']');
        }
        Value::Map(entries) => {
            text.push('{');
            for (index, (name, element)) in entries.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                text.push_str(&key(name));
                text.push_str(" = ");
                inline(text, element)?;
            }
            text.push('}');
        }
        Value::Nil => return Err("TOML has no null in a list".to_owned()),
        Value::Function(_) => return Err("a function has no TOML".to_owned()),
    }
    Ok(())
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    quoted(name)
}

fn quoted(string: &str) -> String {
    let mut text = "\"".to_owned();
    for next in string.chars() {
        match next {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
