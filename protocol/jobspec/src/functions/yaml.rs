//! `yamldecode`: one document of YAML 1.2 with the core schema, anchors and merge keys. Times stay
//! text. The library turns text into events; what is built of them is charged, so that aliases of
//! aliases end with the budget.

use super::arguments::{at, text};
use super::{Answer, Arity, Context, Failure, Function, function, yaml_text};
use crate::value::{DEPTH_MAX, Number, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use std::collections::BTreeMap;

pub(super) static FUNCTIONS: &[Function] = &[
    function("yamldecode", Arity::exactly(1), decode),
    function("yamlencode", Arity::exactly(1), |context, a| {
        context.machine.spend_value(at(a, 0))?;
        Ok(Value::String(yaml_text::document(at(a, 0))))
    }),
];

/// A collection in the making.
enum Open {
    List(Vec<Value>),
    Map {
        entries: BTreeMap<String, Value>,
        /// What `<<` brings: entries that are not written win over it.
        merged: BTreeMap<String, Value>,
        key: Option<Key>,
    },
}

/// A key whose value is awaited.
enum Key {
    Name(String),
    /// `<<`, written as a plain word.
    Merge,
}

#[derive(Default)]
struct Builder {
    open: Vec<(Open, usize)>,
    anchors: BTreeMap<usize, Value>,
    root: Option<Value>,
    documents: usize,
}

fn decode(context: &mut Context<'_, '_>, arguments: &[Value]) -> Answer {
    let body = text(arguments, 0)?;
    context.spend(body.len().saturating_mul(16))?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(&body) {
        let (event, span) = event.map_err(|error| not_yaml(&error))?;
        builder.take(context, event).map_err(|failure| {
            let message = format!("line {}: {}", span.start.line(), failure.message);
            Failure { message, ..failure }
        })?;
    }
    Ok(builder.root.unwrap_or(Value::Null))
}

fn not_yaml(error: &ScanError) -> Failure {
    let (line, column) = (error.marker().line(), error.marker().col() + 1);
    let info = error.info();
    Failure::argument(
        0,
        format!("this is not YAML: line {line}, column {column}: {info}"),
    )
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::argument(0, message)
}

impl Builder {
    fn take(&mut self, context: &mut Context<'_, '_>, event: Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err(bad("there is more than one document")),
                }
            }
            Event::Alias(anchor) => {
                // Within its own anchor a value does not exist yet.
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or_else(|| bad("this alias stands for nothing"))?;
                context.machine.spend_value(&value)?;
                self.place(context, value, 0)
            }
            Event::Scalar(text, style, anchor, tag) => {
                if style == ScalarStyle::Plain && text == "<<" && self.awaits_key() {
                    return self.place_key(Key::Merge);
                }
                let value = scalar(&text, style, tag.as_deref())?;
                self.place(context, value, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => {
                let map = Open::Map {
                    entries: BTreeMap::new(),
                    merged: BTreeMap::new(),
                    key: None,
                };
                self.begin(map, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((open, anchor)) = self.open.pop() else {
                    return Ok(());
                };
                let value = match open {
                    Open::List(elements) => Value::List(elements),
                    Open::Map {
                        entries, merged, ..
                    } => Value::Map(merged.into_iter().chain(entries).collect()),
                };
                self.place(context, value, anchor)
            }
        }
    }

    fn begin(&mut self, open: Open, anchor: usize) -> Result<(), Failure> {
        if self.open.len() >= DEPTH_MAX {
            return Err(bad(format!("it nests deeper than {DEPTH_MAX} levels")));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Map { key: None, .. }, _)))
    }

    fn place_key(&mut self, found: Key) -> Result<(), Failure> {
        if let Some((Open::Map { entries, key, .. }, _)) = self.open.last_mut() {
            if let Key::Name(name) = &found
                && entries.contains_key(name)
            {
                return Err(bad(format!("the key `{name}` is there already")));
            }
            *key = Some(found);
        }
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn place(
        &mut self,
        context: &mut Context<'_, '_>,
        value: Value,
        anchor: usize,
    ) -> Result<(), Failure> {
        if anchor > 0 {
            context.machine.spend_value(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        if self.awaits_key() {
            let name = value
                .to_text()
                .ok_or_else(|| bad(format!("{} cannot be a key", value.kind())))?;
            return self.place_key(Key::Name(name));
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Open::List(elements), _)) => elements.push(value),
            Some((
                Open::Map {
                    entries,
                    merged,
                    key,
                },
                _,
            )) => match key.take() {
                Some(Key::Merge) => merge(merged, value)?,
                Some(Key::Name(name)) => {
                    entries.insert(name, value);
                }
                None => {}
            },
        }
        Ok(())
    }
}

/// `<<: map` and `<<: [map, map]`; of two the earlier wins.
fn merge(merged: &mut BTreeMap<String, Value>, value: Value) -> Result<(), Failure> {
    match value {
        Value::Map(entries) => {
            for (key, value) in entries {
                merged.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::List(maps) => maps.into_iter().try_for_each(|map| merge(merged, map)),
        other => Err(bad(format!("`<<` takes a map, not {}", other.kind()))),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, Failure> {
    let wanted = match tag {
        None if style == ScalarStyle::Plain => return plain(text),
        None => "str",
        Some(tag) if tag.is_yaml_core_schema() => tag.suffix.as_str(),
        Some(tag) if tag.handle == "!" && tag.suffix.is_empty() => "str",
        Some(tag) => {
            let name = format!("{}{}", tag.handle, tag.suffix);
            return Err(bad(format!("there is no type `{name}`")));
        }
    };
    match wanted {
        "str" => Ok(Value::string(text)),
        "int" | "float" | "bool" | "null" => {
            let value = plain(text)?;
            let fits = match wanted {
                "bool" => matches!(value, Value::Bool(_)),
                "null" => value == Value::Null,
                _ => matches!(value, Value::Number(_)),
            };
            fits.then_some(value)
                .ok_or_else(|| bad(format!("`{text}` is no {wanted}")))
        }
        other => Err(bad(format!("there is no type `!!{other}`"))),
    }
}

/// A word without quotes, by the core schema.
fn plain(text: &str) -> Result<Value, Failure> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let unsigned = text.trim_start_matches(['-', '+']);
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return Err(bad(format!("`{text}` is no finite number")));
    }
    let based = |digits: &str, base| i128::from_str_radix(digits, base).ok().map(Number::Whole);
    let number = match text.get(..2) {
        Some("0x") => based(&text[2..], 16),
        Some("0o") => based(&text[2..], 8),
        _ if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => Number::parse(text),
        _ => None,
    };
    Ok(number.map_or_else(|| Value::string(text), Value::Number))
}
