//! JSON, written as Go writes it: sorted keys, `<`, `>` and `&` escaped unless asked otherwise.

use std::fmt::Write;

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("toJSON", 1, 1, |call| written(call, Html::Escaped, "")),
    function("toJSONPretty", 1, 1, |call| {
        written(call, Html::Escaped, "  ")
    }),
    function("toUnescapedJSON", 1, 1, |call| {
        written(call, Html::AsItIs, "")
    }),
    function("toUnescapedJSONPretty", 1, 1, |call| {
        written(call, Html::AsItIs, "  ")
    }),
    function("sprig_toJson", 1, 1, |call| {
        written(call, Html::Escaped, "")
    }),
    function("sprig_mustToJson", 1, 1, |call| {
        written(call, Html::Escaped, "")
    }),
    function("sprig_toPrettyJson", 1, 1, |call| {
        written(call, Html::Escaped, "  ")
    }),
    function("sprig_mustToPrettyJson", 1, 1, |call| {
        written(call, Html::Escaped, "  ")
    }),
    function("sprig_toRawJson", 1, 1, |call| {
        written(call, Html::AsItIs, "")
    }),
    function("sprig_mustToRawJson", 1, 1, |call| {
        written(call, Html::AsItIs, "")
    }),
    function("sprig_fromJson", 1, 1, |call| parse(call, call.text(0)?)),
    function("sprig_mustFromJson", 1, 1, |call| {
        parse(call, call.text(0)?)
    }),
];

/// Reads JSON: numbers are floats, as Go reads them into anything.
pub(super) fn parse(call: &Call<'_>, text: &str) -> Answer {
    call.pass.spend(text.len() / 16)?;
    let parsed: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    Ok(value_of(parsed))
}

fn value_of(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(is) => Value::Bool(is),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => value::text(text),
        serde_json::Value::Array(elements) => value::list(elements.into_iter().map(value_of)),
        serde_json::Value::Object(entries) => value::map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value_of(value)))
                .collect(),
        ),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Html {
    Escaped,
    AsItIs,
}

fn written(call: &Call<'_>, html: Html, step: &str) -> Answer {
    let mut writer = Writer {
        text: String::new(),
        html,
        step,
    };
    writer.value(&value::plain(call.at(0)), 0)?;
    Ok(value::text(writer.text))
}

struct Writer<'a> {
    text: String,
    html: Html,
    step: &'a str,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, level: usize) -> Result<(), String> {
        match value {
            Value::Nil => self.text.push_str("null"),
            Value::Bool(is) => self.text.push_str(if *is { "true" } else { "false" }),
            Value::Int(number) => self.text.push_str(&number.to_string()),
            Value::Uint(number) => self.text.push_str(&number.to_string()),
            Value::Float(number) => self.text.push_str(&float(*number)?),
            Value::String(text) => self.quoted(text),
            Value::List(elements) => {
                self.text.push('[');
                for (index, element) in elements.iter().enumerate() {
                    self.next(index, level + 1);
                    self.value(element, level + 1)?;
                }
                self.close(elements.len(), level, ']');
            }
            Value::Map(entries) => {
                self.text.push('{');
                for (index, (key, element)) in entries.iter().enumerate() {
                    self.next(index, level + 1);
                    self.quoted(key);
                    self.text
                        .push_str(if self.step.is_empty() { ":" } else { ": " });
                    self.value(element, level + 1)?;
                }
                self.close(entries.len(), level, '}');
            }
            Value::Function(_) => return Err("a function has no JSON".to_owned()),
        }
        Ok(())
    }

    fn next(&mut self, index: usize, level: usize) {
        if index > 0 {
            self.text.push(',');
        }
        self.line(level);
    }

    fn close(&mut self, elements: usize, level: usize, bracket: char) {
        if elements > 0 {
            self.line(level);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, level: usize) {
        if !self.step.is_empty() {
            self.text.push('\n');
            self.text.push_str(&self.step.repeat(level));
        }
    }

    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for next in text.chars() {
            match next {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '<' | '>' | '&' if self.html == Html::Escaped => self.escape(next),
                '\u{2028}' | '\u{2029}' => self.escape(next),
                c if u32::from(c) < 0x20 => self.escape(next),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn escape(&mut self, next: char) {
        // A text takes every write.
        let _ = write!(self.text, "\\u{:04x}", u32::from(next));
    }
}

/// Go's `encoding/json`: exponents below 1e-6 and from 1e21 on.
fn float(number: f64) -> Result<String, String> {
    if !number.is_finite() {
        return Err(format!("{number} has no JSON"));
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let sign = if text.contains("e-") { "" } else { "+" };
        return Ok(text.replacen('e', &format!("e{sign}"), 1));
    }
    Ok(number.to_string())
}
