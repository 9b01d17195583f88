//! Places in a file of JSON: a path, in the words of HCL2, is followed through the keys that the
//! same things have in the API.

use std::collections::BTreeMap;

use super::{INHERITED, OF_SERVICES, words};
use crate::diagnostic::Span;
use crate::schema::{Field, JOB, Kind, Label, Schema};
use protocol_model::json;
use serde_json::value::RawValue;

/// Where the API keeps the ports of a network, which are one kind of block in HCL2.
const PORTS: [&str; 2] = ["ReservedPorts", "DynamicPorts"];

#[derive(serde::Deserialize)]
struct Envelope<'t> {
    #[serde(rename = "Job", borrow)]
    job: Option<&'t RawValue>,
}

/// The job in a text: the whole of it, or its `Job`.
pub(super) fn job(text: &str) -> Option<&RawValue> {
    let envelope: Envelope<'_> = json::from_str(text).ok()?;
    match envelope.job {
        Some(job) => Some(job),
        None => serde_json::from_str(text).ok(),
    }
}

/// A value of the file.
#[derive(Clone)]
struct Part<'t> {
    /// What kind of block it is; `None` where its inside is not ours to know.
    schema: Option<&'static Schema>,
    value: &'t RawValue,
    /// What is shown for it: its name or its key where it is a block, else itself.
    shown: Span,
}

/// A text whose values are looked up by their place in it.
struct Reader<'t> {
    text: &'t str,
}

/// The place in a job's text that `path` speaks of.
pub(super) fn place(text: &str, path: &str) -> Option<Span> {
    let reader = Reader { text };
    let value = job(text)?;
    let start = reader.span(value).start;
    let job = Part {
        schema: Some(&JOB),
        value,
        shown: start..start + 1,
    };
    let mut way = vec![job];
    for (word, argument) in words(path) {
        let innermost = &way[way.len() - 1];
        let mut found = reader.lookup(innermost, word, argument);
        if found.is_none() && INHERITED.contains(&word) {
            let mut around = way.iter().rev().skip(1);
            found = around.find_map(|part| reader.lookup(part, word, argument));
        }
        if found.is_none() && OF_SERVICES.contains(&word) {
            let services = (1..).map_while(|n: usize| {
                let position = n.to_string();
                reader.lookup(innermost, "service", &position)
            });
            found = services
                .filter_map(|service| reader.lookup(&service, word, ""))
                .next();
        }
        match found {
            Some(part) => way.push(part),
            None => break,
        }
    }
    way.pop().map(|part| part.shown)
}

impl<'t> Reader<'t> {
    /// Where a value stands. Values are borrowed from the text.
    fn span(&self, value: &RawValue) -> Span {
        let start = value.get().as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + value.get().len()
    }

    /// The key in front of a member's value, with its quotes.
    fn key_of(&self, value: &RawValue) -> Span {
        let span = self.span(value);
        let before = self.text[..span.start].trim_end();
        let before = before.strip_suffix(':').unwrap_or(before).trim_end();
        let name = before.strip_suffix('"').unwrap_or(before);
        let start = name.rfind('"').unwrap_or(span.start);
        start..before.len().max(start)
    }

    fn members(&self, of: &'t RawValue) -> BTreeMap<String, &'t RawValue> {
        serde_json::from_str(of.get()).unwrap_or_default()
    }

    /// The value of this key: in its own spelling, or else in another case, as the job is read.
    fn value(&self, of: &'t RawValue, key: &str) -> Option<&'t RawValue> {
        let members = self.members(of);
        let other_case = || {
            let mut members = members.iter();
            members.find(|(name, _)| name.eq_ignore_ascii_case(key))
        };
        let exact = members.get(key).copied();
        exact.or_else(|| Some(*other_case()?.1))
    }

    /// The member of this key, with the key as what is shown; null says nothing.
    fn member(
        &self,
        of: &'t RawValue,
        key: &str,
        schema: Option<&'static Schema>,
    ) -> Option<Part<'t>> {
        let value = self.value(of, key)?;
        (value.get() != "null").then(|| Part {
            schema,
            value,
            shown: self.key_of(value),
        })
    }

    /// `argument` is a name as Rust writes it, a position counted from 1, or empty.
    fn lookup(&self, part: &Part<'t>, word: &str, argument: &str) -> Option<Part<'t>> {
        let Some(schema) = part.schema else {
            return self.member(part.value, word, None);
        };
        let Some(Field { json, kind, .. }) = schema.field(word) else {
            return match (word, schema.label) {
                // The label of HCL2.
                ("name", Label::Required(key)) => self.attribute(part.value, key),
                _ => None,
            };
        };
        match *kind {
            Kind::Block(inner) => self.member(part.value, json, Some(inner)),
            Kind::Blocks(inner) if *json == "~ports" => PORTS
                .iter()
                .find_map(|key| self.element(part.value, key, inner, argument)),
            Kind::Blocks(inner) => self.element(part.value, json, inner, argument),
            Kind::Keyed(inner) => {
                let all = self.member(part.value, json, None)?;
                let name: String = serde_json::from_str(argument).ok()?;
                self.member(all.value, &name, Some(inner))
            }
            Kind::TextMap | Kind::TextsMap | Kind::Free => self.member(part.value, json, None),
            Kind::Text
            | Kind::Choice(_)
            | Kind::Bool
            | Kind::Whole { .. }
            | Kind::Duration
            | Kind::Texts
            | Kind::Wholes => self.attribute(part.value, json),
        }
    }

    fn attribute(&self, of: &'t RawValue, key: &str) -> Option<Part<'t>> {
        let part = self.member(of, key, None)?;
        let shown = self.span(part.value);
        Some(Part { shown, ..part })
    }

    /// One of a list, shown by its name where it has one.
    fn element(
        &self,
        of: &'t RawValue,
        key: &str,
        schema: &'static Schema,
        argument: &str,
    ) -> Option<Part<'t>> {
        let list = self.member(of, key, None)?;
        let all: Vec<&'t RawValue> = serde_json::from_str(list.value.get()).ok()?;
        let label = match schema.label {
            Label::Required(key) => key,
            Label::None => "Name",
        };
        let named = |value: &&'t RawValue| {
            let name = self.value(value, label)?;
            let text: String = serde_json::from_str(name.get()).ok()?;
            (!text.is_empty()).then(|| (text, self.span(name)))
        };
        let value = match argument.parse::<usize>() {
            Ok(position) => all.get(position.wrapping_sub(1)).copied()?,
            Err(_) if argument.is_empty() => all.first().copied()?,
            Err(_) => all.into_iter().find(|value| {
                named(value).is_some_and(|(name, _)| format!("{name:?}") == argument)
            })?,
        };
        let start = self.span(value).start;
        let shown = named(&value).map_or(start..start + 1, |(_, span)| span);
        Some(Part {
            schema: Some(schema),
            value,
            shown,
        })
    }
}
