//! Values to YAML, in the layout of Go's yaml.v2: two spaces, sorted keys, lists of a map at the
//! level of its key.

use super::yaml;
use crate::value::{self, Value};

/// One document, with a line feed at its end.
pub(super) fn document(value: &Value) -> Result<String, String> {
    let mut text = String::new();
    write(&mut text, value, 0)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Writes a value whose first line continues the current one.
fn write(text: &mut String, value: &Value, level: usize) -> Result<(), String> {
    match value {
        Value::Map(entries) if entries.is_empty() => text.push_str("{}"),
        Value::List(elements) if elements.is_empty() => text.push_str("[]"),
        Value::Map(entries) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    line(text, level);
                }
                text.push_str(&word(key));
                text.push(':');
                match value {
                    Value::Map(inner) if !inner.is_empty() => {
                        line(text, level + 1);
                        write(text, value, level + 1)?;
                    }
                    Value::List(inner) if !inner.is_empty() => {
                        line(text, level);
                        write(text, value, level)?;
                    }
                    _ => {
                        text.push(' ');
                        write(text, value, level)?;
                    }
                }
            }
        }
        Value::List(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    line(text, level);
                }
                text.push_str("- ");
                write(text, element, level + 1)?;
            }
        }
        Value::String(string) if string.contains('\n') => block(text, string, level),
        Value::String(string) => text.push_str(&word(string)),
        Value::Nil => text.push_str("null"),
        Value::Function(_) => return Err("a function has no YAML".to_owned()),
        Value::Float(number) if number.is_infinite() => {
            text.push_str(if *number > 0.0 { ".inf" } else { "-.inf" });
        }
        Value::Float(number) if number.is_nan() => text.push_str(".nan"),
        other => text.push_str(&value::printed(other)),
    }
    Ok(())
}

fn line(text: &mut String, level: usize) {
    text.push('\n');
    text.push_str(&"  ".repeat(level));
}

/// A text of several lines as a literal block; one with spaces at its start in double quotes.
fn block(text: &mut String, string: &str, level: usize) {
    let is_literal = !string.starts_with([' ', '\n', '\t'])
        && string
            .chars()
            .all(|c| c == '\n' || c == '\t' || !c.is_control());
    if !is_literal {
        text.push_str(&double_quoted(string));
        return;
    }
    let body = string.trim_end_matches('\n');
    text.push_str(match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    for part in string.strip_suffix('\n').unwrap_or(string).split('\n') {
        text.push('\n');
        if !part.is_empty() {
            text.push_str(&"  ".repeat(level.max(1)));
            text.push_str(part);
        }
    }
}

/// A text of one line: plain where that reads back as the same text.
fn word(string: &str) -> String {
    if string.chars().any(char::is_control) {
        return double_quoted(string);
    }
    if !matches!(yaml::plain(string), Value::String(_)) || is_older_word(string) {
        return double_quoted(string);
    }
    let starts_special = string.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@',
        '`', ' ',
    ]);
    let is_dash = ["-", "?", ":"].iter().any(|mark| {
        let rest = string.strip_prefix(mark);
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(' '))
    });
    let is_special = (starts_special && !is_dash)
        || string.contains(": ")
        || string.contains(" #")
        || string.ends_with([':', ' '])
        || string == "<<"
        || string == "=";
    if is_special {
        return format!("'{}'", string.replace('\'', "''"));
    }
    string.to_owned()
}

/// Words that YAML 1.1 reads as a bool, and texts that it reads as a number or a date.
fn is_older_word(string: &str) -> bool {
    let lower = string.to_ascii_lowercase();
    let is_bool = matches!(lower.as_str(), "y" | "n" | "yes" | "no" | "on" | "off");
    let is_number = lower.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && lower
            .trim_start_matches(['+', '-'])
            .starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && (lower.replace('_', "").parse::<f64>().is_ok()
            || is_date(&lower)
            || is_sexagesimal(&lower));
    is_bool || is_number || matches!(lower.as_str(), ".inf" | "-.inf" | "+.inf" | ".nan")
}

fn is_date(lower: &str) -> bool {
    let mut parts = lower.split('-');
    let is_digits = |part: Option<&str>, len: usize| {
        part.is_some_and(|part| {
            part.len() >= len && part.bytes().take(2).all(|b| b.is_ascii_digit())
        })
    };
    is_digits(parts.next(), 4) && is_digits(parts.next(), 1) && parts.next().is_some()
}

fn is_sexagesimal(lower: &str) -> bool {
    let mut parts = lower.split(':');
    let first = parts.next().unwrap_or_default();
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    lower.contains(':') && is_digits(first) && parts.all(is_digits)
}

fn double_quoted(string: &str) -> String {
    let mut quoted = "\"".to_owned();
    for next in string.chars() {
        match next {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
