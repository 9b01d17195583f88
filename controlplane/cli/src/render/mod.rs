//! Answers of the API as text. Everything here is a function: values in, text out.

pub(crate) mod acl;
pub(crate) mod alloc;
pub(crate) mod children;
pub(crate) mod columns;
pub(crate) mod deployment;
pub(crate) mod diff;
pub(crate) mod eval;
pub(crate) mod job;
pub(crate) mod keyring;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod node_meta;
pub(crate) mod node_pool;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod snapshot;
pub(crate) mod time;
pub(crate) mod variable;

use serde::Serialize;

/// A value that the API spells as one word: a status, a trigger.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
