//! YAML to values: one document, YAML 1.2's core schema, anchors and merge keys.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{Function, function, yaml_text};
use crate::call::{Answer, Call};
use crate::pass::VALUE_DEPTH_MAX;
use crate::value::{self, Map, Value};

/// Collections inside each other; below the depth of values.
const DEPTH_MAX: usize = VALUE_DEPTH_MAX - 20;

pub(super) static FUNCTIONS: &[Function] = &[function("toYAML", 1, 1, |call| {
    let text = yaml_text::document(&value::plain(call.at(0)))?;
    Ok(value::text(text.trim_end_matches('\n')))
})];

/// A collection in the making.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Map,
        /// The entries of `<<`: entries that are written win over them.
        merged: Map,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    /// `<<`, as a plain word.
    Merge,
}

#[derive(Default)]
struct Builder {
    open: Vec<(Open, usize)>,
    anchors: BTreeMap<usize, Value>,
    root: Option<Value>,
    documents: usize,
}

/// Reads one document. An alias shares its value; the size of the whole is checked at the end, and
/// at each anchor.
pub(super) fn parse(call: &Call<'_>, text: &str) -> Answer {
    call.pass.spend(text.len() / 4)?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, info) = (error.marker().line(), error.info());
            format!("this is not YAML: line {line}: {info}")
        })?;
        let taken = builder.take(call, event);
        taken.map_err(|problem| format!("line {} of the YAML: {problem}", span.start.line()))?;
    }
    Ok(builder.root.unwrap_or(Value::Nil))
}

impl Builder {
    fn take(&mut self, call: &Call<'_>, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err("there is more than one document".to_owned()),
                }
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                self.place(call, value.ok_or("an alias stands for nothing")?, 0)
            }
            Event::Scalar(text, style, anchor, tag) => {
                if style == ScalarStyle::Plain && text == "<<" && self.awaits_key() {
                    return self.place_key(Key::Merge);
                }
                self.place(call, scalar(&text, style, tag.as_deref())?, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(Open::List(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => {
                let map = Open::Map {
                    entries: Map::new(),
                    merged: Map::new(),
                    key: None,
                };
                self.begin(map, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((open, anchor)) = self.open.pop() else {
                    return Ok(());
                };
                let value = match open {
                    Open::List(elements) => value::list(elements),
                    Open::Map {
                        entries, merged, ..
                    } => value::map(merged.into_iter().chain(entries).collect()),
                };
                self.place(call, value, anchor)
            }
        }
    }

    fn begin(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("it nests deeper than {DEPTH_MAX} levels"));
        }
        self.open.push((open, anchor));
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some((Open::Map { key: None, .. }, _)))
    }

    fn place_key(&mut self, found: Key) -> Result<(), String> {
        if let Some((Open::Map { entries, key, .. }, _)) = self.open.last_mut() {
            if let Key::Name(name) = &found
                && entries.contains_key(name.as_str())
            {
                return Err(format!("the key {name:?} is there already"));
            }
            *key = Some(found);
        }
        Ok(())
    }

    fn place(&mut self, call: &Call<'_>, value: Value, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            call.pass.charge(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        if self.awaits_key() {
            let name = match &value {
                Value::List(_) | Value::Map(_) => {
                    return Err("a list or a map is no key".to_owned());
                }
                scalar => value::printed(scalar),
            };
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
                Some(Key::Merge) => merge(call, merged, &value)?,
                Some(Key::Name(name)) => {
                    entries.insert(name.into(), value);
                }
                None => {}
            },
        }
        Ok(())
    }
}

/// `<<: map` and `<<: [map, map]`; of two the earlier wins.
fn merge(call: &Call<'_>, merged: &mut Map, value: &Value) -> Result<(), String> {
    match value {
        Value::Map(entries) => {
            call.pass.spend(entries.len() / 8)?;
            for (key, value) in entries.iter() {
                merged.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Ok(())
        }
        Value::List(maps) if maps.iter().all(|map| matches!(map, Value::Map(_))) => {
            maps.iter().try_for_each(|map| merge(call, merged, map))
        }
        other => Err(format!(
            "`<<` takes a map, not a {}",
            value::type_name(other)
        )),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Answer {
    match tag {
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(value::text(text)),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix != "str" => Ok(plain(text)),
        Some(_) => Ok(value::text(text)),
    }
}

/// A word without quotes, by the core schema.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Nil,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let based = |digits: &str, base| i64::from_str_radix(digits, base).ok();
    let number = match text.get(..2) {
        Some("0x") => based(&text[2..], 16),
        Some("0o") => based(&text[2..], 8),
        _ => text.parse().ok(),
    };
    if let Some(number) = number {
        return Value::Int(number);
    }
    let unsigned = text.trim_start_matches(['-', '+']);
    if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && let Ok(number) = text.parse()
    {
        return Value::Float(number);
    }
    value::text(text)
}
