//! Known data of a test, read from JSON.

use noded_template::{
    Choice, Instance, Known, Registration, ServiceQuery, Time, Variable, VariableId,
};
use serde_json::Value;

pub(crate) fn id(path: &str) -> VariableId {
    VariableId {
        path: path.to_owned(),
        namespace: "default".to_owned(),
        region: "global".to_owned(),
    }
}

fn entries<'a>(from: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    from[name].as_object().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn variable(path: &str, items: &Value) -> Variable {
    let items = items.as_object().into_iter().flatten();
    Variable {
        path: path.to_owned(),
        namespace: "default".to_owned(),
        items: items
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
        create_index: 7,
        modify_index: 9,
    }
}

fn instance(from: &Value) -> Instance {
    Instance {
        id: text(&from["id"]),
        name: text(&from["name"]),
        node: text(&from["node"]),
        datacenter: text(&from["datacenter"]),
        address: text(&from["address"]),
        port: from["port"].as_u64().unwrap_or(0).try_into().unwrap(),
        tags: texts(&from["tags"]),
        job_id: text(&from["job_id"]),
        alloc_id: text(&from["alloc_id"]),
    }
}

/// Reads the data; the namespace is `default`, the region `global`.
pub(crate) fn known(from: &Value) -> Known {
    let mut known = Known {
        namespace: "default".to_owned(),
        region: "global".to_owned(),
        now: Time {
            seconds: from["now"].as_i64().unwrap_or(0),
            nanoseconds: 0,
        },
        ..Known::default()
    };
    for (name, value) in entries(from, "environment") {
        known.environment.insert(name.clone(), text(value));
    }
    for (path, value) in entries(from, "files") {
        known.files.insert(path.clone(), text(value).into_bytes());
    }
    for (path, items) in entries(from, "variables") {
        let found = (!items.is_null()).then(|| variable(path, items));
        known.variables.insert(id(path), found);
    }
    for (prefix, paths) in entries(from, "variable_lists") {
        let all = texts(paths)
            .into_iter()
            .map(|path| variable(&path, &Value::Null));
        known.variable_lists.insert(id(prefix), all.collect());
    }
    for (name, instances) in entries(from, "services") {
        let all = instances.as_array().into_iter().flatten().map(instance);
        let all: Vec<Instance> = all.collect();
        let query = |choice| ServiceQuery {
            name: name.clone(),
            region: "global".to_owned(),
            choice,
        };
        let chosen = &from["choices"][name];
        if let Some(count) = chosen[0].as_u64() {
            let count = u32::try_from(count).unwrap();
            let key = text(&chosen[1]);
            let some = all[..count as usize].to_vec();
            known
                .services
                .insert(query(Some(Choice { count, key })), some);
        }
        known.services.insert(query(None), all);
    }
    for registration in from["registrations"].as_array().into_iter().flatten() {
        let registration = Registration {
            name: text(&registration[0]),
            tags: texts(&registration[1]),
        };
        let region = known.registrations.entry("global".to_owned());
        region.or_default().push(registration);
    }
    known
}
