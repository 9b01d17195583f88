//! Nodes, allocations and evaluations as Nomad's clients read them.
//!
//! The types of the model are also what is stored, so that what only the API shows is added here,
//! while an answer is written: fields that clients of older releases read, keys that are always
//! there, keys that are left out.

mod alloc;
mod eval;
mod node;
mod older;

use serde::Serialize;
use serde::ser::Error;
use serde_json::{Map, Value};

pub(super) use alloc::AllocShown;
pub(super) use eval::{EvalShown, related};
pub(super) use node::NodeShown;

/// `of` as a JSON object, to add to.
fn object<T: Serialize + ?Sized, E: Error>(of: &T) -> Result<Map<String, Value>, E> {
    match serde_json::to_value(of) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(E::custom(format!("not an object: {other}"))),
        Err(error) => Err(E::custom(error)),
    }
}

/// Sets `name` of `object` to `value`.
fn set<T: Serialize + ?Sized, E: Error>(
    object: &mut Map<String, Value>,
    name: &str,
    value: &T,
) -> Result<(), E> {
    let value = serde_json::to_value(value).map_err(E::custom)?;
    object.insert(name.to_owned(), value);
    Ok(())
}
