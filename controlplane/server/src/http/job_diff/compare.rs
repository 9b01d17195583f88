//! Two values of the API's form, side by side: what differs, as fields and objects.

use std::collections::{BTreeMap, BTreeSet};

use protocol_api::jobs::{DiffType, FieldDiff, ObjectDiff};
use serde_json::{Map, Value};

use super::kind;

/// Maps whose keys are the user's: shown as fields of what they are in.
const FREE_MAPS: [&str; 6] = [
    "Meta",
    "Env",
    "CanaryMeta",
    "CanaryTags",
    "Options",
    "Headers",
];

/// Things with names, side by side, in the order of their names.
pub(super) fn pairs<'a>(old: &'a Value, new: &'a Value) -> Vec<(String, &'a Value, &'a Value)> {
    let named = |list: &'a Value| -> BTreeMap<&'a str, &'a Value> {
        let items = list.as_array().into_iter().flatten();
        items
            .map(|item| (item["Name"].as_str().unwrap_or(""), item))
            .collect()
    };
    let (old, new) = (named(old), named(new));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let of = |side: &BTreeMap<&str, &'a Value>, name: &str| {
        side.get(name).copied().unwrap_or(&Value::Null)
    };
    names
        .into_iter()
        .map(|name| (name.to_owned(), of(&old, name), of(&new, name)))
        .collect()
}

pub(super) type Members = (Vec<FieldDiff>, Vec<ObjectDiff>);

/// Compares what two objects hold, except for `skipped`.
pub(super) fn members(old: &Value, new: &Value, skipped: &[&str]) -> Members {
    let none = Map::new();
    let (old, new) = (
        old.as_object().unwrap_or(&none),
        new.as_object().unwrap_or(&none),
    );
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let (mut fields, mut objects) = (Vec::new(), Vec::new());
    for key in keys
        .into_iter()
        .filter(|key| !skipped.contains(&key.as_str()))
    {
        let old = old.get(key).unwrap_or(&Value::Null);
        let new = new.get(key).unwrap_or(&Value::Null);
        if old != new {
            member(key, old, new, &mut fields, &mut objects);
        }
    }
    (fields, objects)
}

fn member(
    key: &str,
    old: &Value,
    new: &Value,
    fields: &mut Vec<FieldDiff>,
    objects: &mut Vec<ObjectDiff>,
) {
    if FREE_MAPS.contains(&key) {
        flat(key, old, new, fields);
        return;
    }
    match (old, new) {
        (Value::Array(_), _) | (_, Value::Array(_)) => list(key, old, new, objects),
        (Value::Object(_), _) | (_, Value::Object(_)) => {
            let (fields, inner) = if key == "Config" {
                let mut fields = Vec::new();
                flat("", old, new, &mut fields);
                (fields, Vec::new())
            } else {
                members(old, new, &["ID", "CreateIndex", "ModifyIndex"])
            };
            push_object(key, old, new, (fields, inner), objects);
        }
        _ => fields.extend(field(key.to_owned(), old, new)),
    }
}

fn push_object(
    name: &str,
    old: &Value,
    new: &Value,
    (fields, inner): Members,
    objects: &mut Vec<ObjectDiff>,
) {
    let diff_type = kind(old, new, !fields.is_empty() || !inner.is_empty());
    if diff_type != DiffType::None {
        objects.push(ObjectDiff {
            diff_type,
            name: name.to_owned(),
            fields,
            objects: inner,
        });
    }
}

fn list(key: &str, old: &Value, new: &Value, objects: &mut Vec<ObjectDiff>) {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (mut old, mut new) = (items(old), items(new));
    if !old.iter().chain(&new).any(Value::is_object) {
        scalars(key, &old, &new, objects);
        return;
    }
    // What is in both is no difference, wherever it stands.
    old.retain(|item| match new.iter().position(|other| other == item) {
        Some(place) => {
            new.remove(place);
            false
        }
        None => true,
    });
    let name = singular(key);
    for item in &old {
        let same = new
            .iter()
            .position(|other| label(other).is_some() && label(other) == label(item));
        // One of each left: it is the same one, changed.
        let lone = old.len() == 1 && new.len() == 1 && label(item).is_none();
        let partner = match same.or_else(|| lone.then_some(0)) {
            Some(place) => new.remove(place),
            None => Value::Null,
        };
        push_object(name, item, &partner, members(item, &partner, &[]), objects);
    }
    for item in &new {
        push_object(
            name,
            &Value::Null,
            item,
            members(&Value::Null, item, &[]),
            objects,
        );
    }
}

/// What tells the elements of a list apart.
fn label(item: &Value) -> Option<&str> {
    ["Name", "Label", "DestPath", "RelativeDest", "Volume"]
        .iter()
        .find_map(|key| item[*key].as_str())
        .filter(|text| !text.is_empty())
}

/// The name that one element of a list has.
fn singular(key: &str) -> &str {
    match key {
        "Affinities" => "Affinity",
        "Identities" => "Identity",
        "ScalingPolicies" => "ScalingPolicy",
        "Devices" => "Device",
        other => other.strip_suffix('s').unwrap_or(other),
    }
}

/// Lists of plain values are sets here; only where just the order differs are places shown.
fn scalars(key: &str, old: &[Value], new: &[Value], objects: &mut Vec<ObjectDiff>) {
    let gone = old.iter().filter(|item| !new.contains(item));
    let come = new.iter().filter(|item| !old.contains(item));
    let mut fields: Vec<FieldDiff> = gone
        .map(|item| (item, &Value::Null))
        .chain(come.map(|item| (&Value::Null, item)))
        .filter_map(|(old, new)| field(key.to_owned(), old, new))
        .collect();
    if fields.is_empty() {
        let both = old.iter().zip(new).enumerate();
        fields.extend(
            both.filter_map(|(place, (old, new))| field(format!("{key}[{place}]"), old, new)),
        );
    }
    let all = |items: &[Value]| {
        if items.is_empty() {
            Value::Null
        } else {
            Value::Bool(true)
        }
    };
    push_object(key, &all(old), &all(new), (fields, Vec::new()), objects);
}

/// A tree of free keys as fields: `labels[a]`, `args[0]`, `mount[0].type`.
fn flat(name: &str, old: &Value, new: &Value, fields: &mut Vec<FieldDiff>) {
    let mut leaves = (BTreeMap::new(), BTreeMap::new());
    collect(name, old, &mut leaves.0);
    collect(name, new, &mut leaves.1);
    let (old, new) = leaves;
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let of = |side: &BTreeMap<String, Value>| side.get(name).cloned().unwrap_or(Value::Null);
        fields.extend(field(name.clone(), &of(&old), &of(&new)));
    }
}

fn collect(name: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    let below = |key: &str| match name {
        "" => key.to_owned(),
        name => format!("{name}[{key}]"),
    };
    match value {
        Value::Null => {}
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| collect(&below(key), value, leaves)),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                collect(&below(&place.to_string()), item, leaves);
            }
        }
        leaf => {
            leaves.insert(name.to_owned(), leaf.clone());
        }
    }
}

fn field(name: String, old: &Value, new: &Value) -> Option<FieldDiff> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (old, new) = (text(old), text(new));
    let diff_type = match (old.is_empty(), new.is_empty()) {
        _ if old == new => return None,
        (true, _) => DiffType::Added,
        (_, true) => DiffType::Deleted,
        _ => DiffType::Edited,
    };
    let annotations = Vec::new();
    Some(FieldDiff {
        diff_type,
        name,
        old,
        new,
        annotations,
    })
}
