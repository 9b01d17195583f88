//! Variables and services of the cluster: all that is not known becomes a dependency.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::known::{Choice, Dependency, Instance, ServiceQuery, Variable, VariableId};
use crate::value::{self, Kind, Map, Value};

/// The key of a link from items to their variable.
const PARENT: &str = "\u{1}parent";

pub(super) static FUNCTIONS: &[Function] = &[
    function("nomadVar", 1, 1, |call| {
        let id = variable_id(call, call.text(0)?)?;
        match call.pass.known.variables.get(&id) {
            Some(Some(variable)) => Ok(items(variable)),
            Some(None) | None => {
                call.pass.miss(Dependency::Variable(id));
                Ok(Value::Nil)
            }
        }
    }),
    function("nomadVarExists", 1, 1, |call| {
        let id = variable_id(call, call.text(0)?)?;
        let found = call.pass.known.variables.get(&id);
        if found.is_none() {
            call.pass.miss(Dependency::VariableExistence(id));
        }
        Ok(Value::Bool(found.is_some_and(Option::is_some)))
    }),
    function("nomadVarList", 0, 1, |call| variable_list(call, false)),
    function("nomadVarListSafe", 0, 1, |call| variable_list(call, true)),
    function("nomadService", 1, 3, service),
    function("nomadServices", 0, 1, services),
];

/// `PATH@NAMESPACE.REGION`, of which namespace and region have the job's as defaults.
fn variable_id(call: &Call<'_>, given: &str) -> Result<VariableId, String> {
    let given = given.trim_matches('/');
    let (path, place) = given.split_once('@').unwrap_or((given, ""));
    let (namespace, region) = place.split_once('.').unwrap_or((place, ""));
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '~' | '/');
    if !path.chars().all(is_allowed) {
        return Err(format!("invalid path {path:?}"));
    }
    own_region(call, path, region)?;
    Ok(located(call, path, namespace, region))
}

/// Servers answer about variables of their own region alone: no other region is reached.
fn own_region(call: &Call<'_>, path: &str, region: &str) -> Result<(), String> {
    let own = &call.pass.known.region;
    if region.is_empty() || region == own {
        return Ok(());
    }
    Err(format!(
        "{path:?} names region {region:?}: a template reads variables of its own region, {own:?}, \
         only; leave the region out"
    ))
}

fn located(call: &Call<'_>, path: &str, namespace: &str, region: &str) -> VariableId {
    let known = &call.pass.known;
    let or = |text: &str, default: &String| match text {
        "" => default.clone(),
        text => text.to_owned(),
    };
    VariableId {
        path: path.to_owned(),
        namespace: or(namespace, &known.namespace),
        region: or(region, &known.region),
    }
}

fn variable_list(call: &Call<'_>, is_safe: bool) -> Answer {
    let given = if call.len() == 0 { "" } else { call.text(0)? };
    let (prefix, place) = given.split_once('@').unwrap_or((given, ""));
    let (namespace, region) = place.split_once('.').unwrap_or((place, ""));
    own_region(call, prefix, region)?;
    let id = located(call, prefix, namespace, region);
    match call.pass.known.variable_lists.get(&id) {
        Some(list) if !(is_safe && list.is_empty()) => Ok(value::list(list.iter().map(metadata))),
        _ => {
            call.pass.miss(Dependency::VariableList(id));
            Ok(value::list([]))
        }
    }
}

fn metadata(variable: &Variable) -> Value {
    value::fields(
        Kind::Metadata,
        [
            ("Namespace", value::text(variable.namespace.as_str())),
            ("Path", value::text(variable.path.as_str())),
            ("CreateIndex", Value::Uint(variable.create_index)),
            ("ModifyIndex", Value::Uint(variable.modify_index)),
        ],
    )
}

fn items(variable: &Variable) -> Value {
    let parent = metadata(variable);
    let entries = variable.items.iter().map(|(key, value)| {
        let item = item_of(key, value, &parent);
        (key.as_str().into(), item)
    });
    let mut map: Map = entries.collect();
    if !map.is_empty() {
        map.insert(PARENT.into(), parent);
    }
    value::marked(Kind::Items, map)
}

fn item_of(key: &str, value: &str, parent: &Value) -> Value {
    value::fields(
        Kind::Item,
        [
            ("Key", value::text(key)),
            ("Value", value::text(value)),
            (PARENT, parent.clone()),
        ],
    )
}

/// An item of a variable: of a key that is not there, the zero value.
pub(super) fn item(key: &str, value: &str, of: &Value) -> Value {
    let parent = of.field(PARENT).cloned().unwrap_or(Value::Nil);
    let key = if value.is_empty() { "" } else { key };
    item_of(key, value, &parent)
}

/// A method of the items of a variable, or of one item.
pub(super) fn method(of: &Value, name: &str) -> Option<Answer> {
    let Value::Map(map) = of else { return None };
    let values = || value::entries(map).map(|(_, value)| value.clone());
    let is_items = value::kind(of) == Some(Kind::Items);
    match name {
        "Metadata" | "Parent" => {
            let parent = of.field(PARENT).cloned().unwrap_or(Value::Nil);
            Some(Ok(match (name, is_items) {
                ("Parent", true) => {
                    value::fields(Kind::Struct, [("Metadata", parent), ("Items", of.clone())])
                }
                _ => parent,
            }))
        }
        "Keys" if is_items => {
            let keys = value::entries(map).map(|(key, _)| value::text(key.clone()));
            Some(Ok(value::list(keys)))
        }
        "Values" if is_items => Some(Ok(value::list(
            values().filter_map(|item| value::field(&item, "Value").cloned()),
        ))),
        "Tuples" if is_items => {
            let tuples = values().map(|item| {
                let part = |name| value::field(&item, name).cloned().unwrap_or(Value::Nil);
                value::fields(Kind::Struct, [("K", part("Key")), ("V", part("Value"))])
            });
            Some(Ok(value::list(tuples)))
        }
        _ => None,
    }
}

fn service(call: &Call<'_>) -> Answer {
    let (given, choice) = match call.len() {
        1 => (call.text(0)?, None),
        3 => {
            let count = call.integer(0)?;
            let count = u32::try_from(count).ok().filter(|count| *count > 0);
            let count = count.ok_or("argument 1 is the number of instances, at least 1")?;
            let key = call.text(1)?.to_owned();
            (call.text(2)?, Some(Choice { count, key }))
        }
        given => return Err(format!("it takes 1 or 3 arguments, not {given}")),
    };
    let (tagged, region) = given.split_once('@').unwrap_or((given, ""));
    let (tag, name) = match tagged.split_once('.') {
        Some((tag, name)) => (Some(tag), name),
        None => (None, tagged),
    };
    if name.is_empty() {
        return Err("the service's name is empty".to_owned());
    }
    let query = ServiceQuery {
        name: name.to_owned(),
        region: located(call, "", "", region).region,
        choice,
    };
    let Some(instances) = call.pass.known.services.get(&query) else {
        call.pass.miss(Dependency::Service(query));
        return Ok(value::list([]));
    };
    let is_wanted = |i: &&Instance| tag.is_none_or(|tag| i.tags.iter().any(|t| t == tag));
    Ok(value::list(
        instances.iter().filter(is_wanted).map(instance),
    ))
}

fn instance(instance: &Instance) -> Value {
    let text = |text: &String| value::text(text.as_str());
    value::fields(
        Kind::Struct,
        [
            ("ID", text(&instance.id)),
            ("Name", text(&instance.name)),
            ("Node", text(&instance.node)),
            ("Address", text(&instance.address)),
            ("Port", Value::Int(instance.port.into())),
            ("Datacenter", text(&instance.datacenter)),
            ("Tags", value::list(instance.tags.iter().map(text))),
            ("JobID", text(&instance.job_id)),
            ("AllocID", text(&instance.alloc_id)),
        ],
    )
}

fn services(call: &Call<'_>) -> Answer {
    let given = if call.len() == 0 { "" } else { call.text(0)? };
    let region = located(call, "", "", given.trim_start_matches('@')).region;
    let Some(all) = call.pass.known.registrations.get(&region) else {
        call.pass.miss(Dependency::Services(region));
        return Ok(value::list([]));
    };
    let entries = all.iter().map(|registration| {
        let tags = registration
            .tags
            .iter()
            .map(|tag| value::text(tag.as_str()));
        let name = value::text(registration.name.as_str());
        value::fields(Kind::Struct, [("Name", name), ("Tags", value::list(tags))])
    });
    Ok(value::list(entries))
}
