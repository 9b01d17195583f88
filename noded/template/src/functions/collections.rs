//! Lists and maps: consul-template's functions.

use super::{Function, function};
use crate::call::{Answer, Call, as_text};
use crate::value::{self, Map, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    function("in", 2, 2, |call| {
        Ok(Value::Bool(has(call, call.at(0), call.at(1))?))
    }),
    function("contains", 2, 2, |call| {
        Ok(Value::Bool(has(call, call.at(1), call.at(0))?))
    }),
    function("containsAll", 2, 2, |call| {
        contained(call, |found, all| found == all)
    }),
    function("containsAny", 2, 2, |call| {
        contained(call, |found, _| found > 0)
    }),
    function("containsNone", 2, 2, |call| {
        contained(call, |found, _| found == 0)
    }),
    function("containsNotAll", 2, 2, |call| {
        contained(call, |found, all| found < all)
    }),
    function("explode", 1, 1, |call| {
        let pairs = call.list(0)?.iter();
        let pairs: Option<Vec<_>> = pairs
            .map(|pair| Some((as_text(pair.field("Key")?)?, pair.field("Value")?.clone())))
            .collect();
        exploded(
            call,
            pairs.ok_or("it takes a list of pairs with Key and Value")?,
        )
    }),
    function("explodeMap", 1, 1, |call| {
        let map = call.map(0)?;
        let pairs = map.iter().map(|(key, value)| (&**key, value.clone()));
        exploded(call, pairs.collect())
    }),
    function("mergeMap", 2, 2, |call| {
        Ok(value::map(merged(
            call,
            call.map(0)?,
            &call.map(1)?,
            Keep::Base,
        )?))
    }),
    function("mergeMapWithOverride", 2, 2, |call| {
        Ok(value::map(merged(
            call,
            call.map(0)?,
            &call.map(1)?,
            Keep::Other,
        )?))
    }),
    function("byKey", 1, 1, by_key),
    function("byTag", 1, 1, by_tag),
];

/// `in`: an element of a list, or a part of a text.
pub(super) fn has(call: &Call<'_>, of: &Value, wanted: &Value) -> Result<bool, String> {
    match (of, as_text(of)) {
        (_, Some(text)) => {
            let part = as_text(wanted);
            let part = part.ok_or("a text has only texts in it")?;
            call.pass.spend(text.len() / 256)?;
            Ok(text.contains(part))
        }
        (Value::List(elements), _) => {
            call.pass.spend(elements.len() / 8)?;
            Ok(elements.iter().any(|element| is_same(element, wanted)))
        }
        (Value::Nil, _) => Ok(false),
        (other, _) => Err(format!("a {} has no elements", value::type_name(other))),
    }
}

fn is_same(left: &Value, right: &Value) -> bool {
    match (as_text(left), as_text(right)) {
        (Some(left), Some(right)) => left == right,
        _ => value::equal(left, right),
    }
}

fn contained(call: &Call<'_>, is_so: fn(usize, usize) -> bool) -> Answer {
    let wanted = call.list(0)?;
    let mut found = 0;
    for element in wanted {
        found += usize::from(has(call, call.at(1), element)?);
    }
    Ok(Value::Bool(is_so(found, wanted.len())))
}

/// `a/b` to `{a: {b: VALUE}}`.
fn exploded(call: &Call<'_>, pairs: Vec<(&str, Value)>) -> Answer {
    let mut root = Map::new();
    for (path, value) in pairs {
        call.pass.spend(1)?;
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let Some(last) = parts.pop() else { continue };
        let mut at = &mut root;
        for part in parts {
            let inner = at
                .entry(part.into())
                .or_insert_with(|| value::map(Map::new()));
            let Value::Map(inner) = inner else {
                return Err(format!("{path:?} is below {part:?}, which is a value"));
            };
            at = std::sync::Arc::make_mut(inner);
        }
        at.insert(last.into(), value);
    }
    Ok(value::map(root))
}

/// The side that wins where both have a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Base,
    Other,
}

/// Both maps; maps below the same key are merged too.
pub(super) fn merged(
    call: &Call<'_>,
    mut base: Map,
    other: &Map,
    keep: Keep,
) -> Result<Map, String> {
    call.pass.spend(other.len() / 8 + 1)?;
    for (key, value) in value::entries(other) {
        match (base.get(key), value) {
            (Some(Value::Map(mine)), Value::Map(theirs)) => {
                let inner = merged(call, Map::clone(mine), theirs, keep)?;
                base.insert(key.clone(), value::map(inner));
            }
            (Some(_), _) if keep == Keep::Base => {}
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(base)
}

/// Pairs by the first part of their keys, which the keys lose.
fn by_key(call: &Call<'_>) -> Answer {
    let mut groups: std::collections::BTreeMap<&str, Map> = std::collections::BTreeMap::new();
    for pair in call.list(0)? {
        let Value::Map(fields) = pair else {
            return Err("it takes a list of pairs with Key and Value".to_owned());
        };
        let key = fields.get("Key").and_then(as_text);
        let key = key.ok_or("it takes a list of pairs with Key and Value")?;
        let Some((group, rest)) = key.split_once('/') else {
            continue;
        };
        if rest.is_empty() {
            continue;
        }
        let mut fields = Map::clone(fields);
        fields.insert("Key".into(), value::text(rest));
        let group = groups.entry(group).or_default();
        group.insert(rest.into(), value::map(fields));
    }
    let groups = groups.into_iter();
    Ok(value::map(
        groups
            .map(|(key, map)| (key.into(), value::map(map)))
            .collect(),
    ))
}

/// Services by their tags.
fn by_tag(call: &Call<'_>) -> Answer {
    let mut groups: std::collections::BTreeMap<&str, Vec<Value>> =
        std::collections::BTreeMap::new();
    for service in call.list(0)? {
        let Some(Value::List(tags)) = service.field("Tags") else {
            return Err("it takes a list of services".to_owned());
        };
        call.pass.spend(tags.len())?;
        for tag in tags.iter().filter_map(as_text) {
            groups.entry(tag).or_default().push(service.clone());
        }
    }
    let groups = groups.into_iter();
    Ok(value::map(
        groups
            .map(|(tag, list)| (tag.into(), value::list(list)))
            .collect(),
    ))
}
