//! `scratch`: values under names, for the time of one rendering.

use super::{Function, function};
use crate::call::{Answer, Call};
use crate::value::{self, Kind, Value};

pub(super) static FUNCTIONS: &[Function] = &[function("scratch", 0, 0, |_| {
    Ok(value::fields(Kind::Scratch, []))
})];

/// A method of the scratchpad; `None`: there is none of this name.
pub(super) fn method(call: &Call<'_>, name: &str) -> Option<Answer> {
    let wanted = match name {
        "Key" | "Get" | "MapValues" => 1,
        "Set" | "SetX" => 2,
        "MapSet" | "MapSetX" => 3,
        _ => return None,
    };
    if call.len() != wanted {
        let given = call.len();
        return Some(Err(format!(
            "scratch.{name} takes {wanted} arguments, not {given}"
        )));
    }
    Some(answer(call, name).map_err(|problem| format!("scratch.{name}: {problem}")))
}

fn answer(call: &Call<'_>, name: &str) -> Answer {
    let key = call.text(0)?;
    let mut pad = call.pass.scratch.lock();
    match name {
        "Key" => Ok(Value::Bool(pad.contains_key(key))),
        "Get" => Ok(pad.get(key).cloned().unwrap_or(Value::Nil)),
        "Set" | "SetX" => {
            if name == "Set" || !pad.contains_key(key) {
                pad.insert(key.to_owned(), call.at(1).clone());
            }
            Ok(value::text(""))
        }
        "MapSet" | "MapSetX" => {
            let mut map = match pad.get(key) {
                None => value::Map::new(),
                Some(Value::Map(map)) => value::Map::clone(map),
                Some(_) => return Err(format!("{key:?} is not a map")),
            };
            let field = call.text(1)?;
            if name == "MapSet" || !map.contains_key(field) {
                map.insert(field.into(), call.at(2).clone());
            }
            // One level is added for each call, and the map is copied.
            call.pass.spend(map.len() / 8)?;
            let map = value::map(map);
            call.pass.charge(&map)?;
            pad.insert(key.to_owned(), map);
            Ok(value::text(""))
        }
        _ => match pad.get(key) {
            None => Ok(Value::Nil),
            Some(Value::Map(map)) => Ok(value::list(map.values().cloned())),
            Some(_) => Err(format!("{key:?} is not a map")),
        },
    }
}
